"""Code objects: what they do, and what they refer to, without where they were written.

File names, line numbers, docstrings and the names of local variables do not change what a function yields, so
that they are left out; everything that the interpreter acts on is kept.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

#: Flags that say how code was written: `CO_NESTED`, `CO_FUTURE_ANNOTATIONS`, and `CO_HAS_DOCSTRING` (3.13):
#: annotations and docstrings are left out too.
SPELLING_FLAGS = 0x10 | 0x1000000 | 0x4000000

#: Code objects whose analysis is kept: pipelines are described again at each epoch.
CODES_MAX = 4096

#: Instructions that do nothing of their own between others.
_NOTHING = frozenset({"EXTENDED_ARG", "RESUME", "NOP", "CACHE"})
_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"})
_SETS = frozenset({"STORE_ATTR", "DELETE_ATTR"})
_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_STORE_GLOBAL = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_STORE_DEREF = frozenset({"STORE_DEREF", "DELETE_DEREF"})


@dataclass
class Body:
    """What a code object does: instructions as (opcode, argument), with constants numbered by first use."""

    header: tuple[Any, ...]
    instructions: list[int]
    constants: list[Any]


@dataclass
class References:
    """Names that a code object and those nested in it use."""

    globals: set[str] = field(default_factory=set)
    #: Every name in the code: what may be an attribute of a module.
    names: set[str] = field(default_factory=set)
    #: (module, level, names): import statements.
    imports: set[tuple[str, int, tuple[str, ...]]] = field(default_factory=set)
    #: Names whose value is used otherwise than to take an attribute from it at once.
    bare: set[str] = field(default_factory=set)
    #: The same of attributes: `frame.agg(...)` says nothing of a module that is called so.
    bare_attributes: set[str] = field(default_factory=set)
    #: Of these, all but what only has an attribute set.
    handed_on: set[str] = field(default_factory=set)
    #: Attributes whose value is used otherwise than being called.
    taken: set[str] = field(default_factory=set)
    #: Local names that imports bind.
    imported_as: set[str] = field(default_factory=set)
    writes_globals: set[str] = field(default_factory=set)
    writes_cells: set[str] = field(default_factory=set)


#: Code objects whose instructions are kept: long enough for all that look at one in turn.
INSTRUCTIONS_MAX = 16


@functools.lru_cache(maxsize=INSTRUCTIONS_MAX)
def instructions_of(code: CodeType) -> tuple[dis.Instruction, ...]:
    """Its instructions, taken apart once for all that look at them."""
    return tuple(dis.get_instructions(code))


@functools.lru_cache(maxsize=CODES_MAX)
def body(code: CodeType) -> Body:
    """The meaning of one code object; nested ones are among its constants."""
    places: dict[int, int] = {}
    instructions: list[int] = []
    for each in instructions_of(code):
        argument = -1 if each.arg is None else each.arg
        if each.opcode in dis.hasconst:
            argument = places.setdefault(argument, len(places))
        instructions += (each.opcode, argument)
    parameters = code.co_argcount + code.co_kwonlyargcount
    header = (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_nlocals,
        code.co_flags & ~SPELLING_FLAGS,
        code.co_varnames[:parameters],
        code.co_names,
        len(code.co_cellvars),
        len(code.co_freevars),
        code.co_exceptiontable,
    )
    return Body(header, instructions, [code.co_consts[place] for place in places])


@functools.lru_cache(maxsize=CODES_MAX)
def references(code: CodeType) -> References:
    """The names that a code object uses, with those of the code objects nested in it."""
    found = References()
    pending = [code]
    while pending:
        each = pending.pop()
        _scan(each, found)
        pending += [constant for constant in each.co_consts if inspect.iscode(constant)]
    return found


def converses(code: CodeType) -> bool:
    """Whether a generator's code takes what is sent to it, or returns a value: it is more than elements."""
    instructions = [each for each in instructions_of(code) if each.opname not in _NOTHING]
    for place, each in enumerate(instructions):
        before = instructions[place - 1] if place else each
        if each.opname == "YIELD_VALUE":
            following = instructions[place + 1].opname
            # What it delegates to others it hands on to them.
            if following != "POP_TOP" and not following.startswith("JUMP_BACKWARD"):
                return True
        elif each.opname in ("RETURN_VALUE", "RETURN_CONST"):
            returned = each if each.opname == "RETURN_CONST" else before
            if returned.opname not in ("LOAD_CONST", "RETURN_CONST") or returned.argval is not None:
                return True
    return False


def _scan(code: CodeType, found: References) -> None:
    found.names.update(code.co_names)
    instructions = [each for each in instructions_of(code) if each.opname != "EXTENDED_ARG"]
    for place, each in enumerate(instructions):
        name = each.opname
        following = instructions[place + 1].opname if place + 1 < len(instructions) else ""
        if name == "LOAD_ATTR" and not _is_called(each):
            found.taken.add(each.argval)
        if name in _GLOBAL:
            found.globals.add(each.argval)
        elif name in _STORE_GLOBAL:
            found.writes_globals.add(each.argval)
        elif name in _STORE_DEREF:
            found.writes_cells.add(each.argval)
        elif name == "IMPORT_NAME":
            found.imports.add(_import(instructions, place))
        if name.startswith("LOAD_") and name != "LOAD_CLOSURE" and each.opcode not in dis.hasconst:
            # Newer interpreters load two locals at once; only the last can have its attribute taken.
            loaded = each.argval if isinstance(each.argval, tuple) else (each.argval,)
            bare = found.bare_attributes if name in _ATTRIBUTE else found.bare
            bare.update(loaded[:-1] if following in _ATTRIBUTE else loaded)
            found.handed_on.update(loaded[:-1] if following in _ATTRIBUTE | _SETS else loaded)
        if name.startswith("STORE_") and place and _binds_import(instructions, place):
            found.imported_as.add(str(each.argval))


def _is_called(loaded: dis.Instruction) -> bool:
    """Whether an attribute is loaded as a method, to be called."""
    return sys.version_info >= (3, 12) and bool(loaded.arg is not None and loaded.arg & 1)


def _import(instructions: list[dis.Instruction], place: int) -> tuple[str, int, tuple[str, ...]]:
    """The import statement whose IMPORT_NAME stands at a place: two constants are loaded before it."""
    level, names = instructions[place - 2].argval, instructions[place - 1].argval
    return (instructions[place].argval, level if isinstance(level, int) else 0, tuple(names or ()))


def _binds_import(instructions: list[dis.Instruction], place: int) -> bool:
    for each in reversed(instructions[max(0, place - 3) : place]):
        if each.opname in ("IMPORT_NAME", "IMPORT_FROM"):
            return True
        if each.opname not in ("SWAP", "POP_TOP", "ROT_TWO"):
            return False
    return False
