"""Code objects: what they do, and what they refer to, without where they were written.

File names, line numbers, docstrings and the names of local variables do not change what a function yields, so
that they are left out; everything that the interpreter acts on is kept.
"""

from __future__ import annotations

import bisect
import dis
import functools
import inspect
import sys
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from prebake.bytecode import opcodes
from prebake.runtime.errors import Code, Refused

#: Flags that say how code was written: `CO_NESTED`, `CO_FUTURE_ANNOTATIONS`, and `CO_HAS_DOCSTRING` (3.13):
#: annotations and docstrings are left out too.
SPELLING_FLAGS = 0x10 | 0x1000000 | 0x4000000

#: What the body of a class says from Python 3.13 on: the line that it begins at.
_LINE = "__firstlineno__"

_JUMPS = frozenset(dis.hasjrel + dis.hasjabs)

#: Code objects whose analysis is kept: pipelines are described again at each epoch.
CODES_MAX = 4096

#: Instructions that do nothing of their own between others.
_NOTHING = frozenset({"EXTENDED_ARG", "RESUME", "NOP", "CACHE"})
_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"})
_SETS = frozenset({"STORE_ATTR", "DELETE_ATTR"})
_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_STORE_GLOBAL = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_STORE_DEREF = frozenset({"STORE_DEREF", "DELETE_DEREF"})
#: What CPython 3.13 writes as one, if both are on one line: it is told apart, so that nothing else has to.
_FUSED = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}
#: The body of a class has no values in cells of its own.
_IN_FUNCTION = inspect.CO_OPTIMIZED
#: No jump leads between the two.
_NOWHERE: dict[str, Any] = {"label": None, "positions": None}


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
    """Its instructions, taken apart once for all that look at them, and written as CPython 3.12 has them.

    Raises `Refused` on an instruction of which nobody knows what it does.
    """
    found: list[dis.Instruction] = []
    for each in dis.get_instructions(code):
        if each.opname not in opcodes.KNOWN:
            raise _unknown(each, code)
        if each.opname in _FUSED:
            found += _parted(each, code)
        else:
            found.append(each)
    if sys.version_info >= (3, 13):
        _name_closures(found, code)
    return tuple(found)


def _name_closures(found: list[dis.Instruction], code: CodeType) -> None:
    """Tells cells that are handed to a function or class made here from values: CPython 3.13 loads both by
    LOAD_FAST."""
    cells = {*code.co_cellvars, *code.co_freevars}
    left, in_class = 0, not code.co_flags & _IN_FUNCTION
    for place in reversed(range(len(found) if cells else 0)):
        each, following = found[place], found[place + 1 : place + 2]
        if each.opname == "BUILD_TUPLE" and following and inspect.iscode(following[0].argval):
            left = each.arg or 0
        elif each.opname == "LOAD_FAST" and each.argval in cells and (left or in_class):
            found[place] = each._replace(opname="LOAD_CLOSURE")
            left = max(left - 1, 0)
        elif each.opname != "EXTENDED_ARG":
            left = 0


def _unknown(each: dis.Instruction, code: CodeType) -> Refused:
    looked_at = sorted(opcodes.LOOKED_AT)
    versions = " to ".join(f"{major}.{minor}" for major, minor in (looked_at[0], looked_at[-1]))
    return Refused(
        Code.OPAQUE,
        f"{code.co_qualname} has the instruction {each.opname} of Python "
        f"{sys.version_info.major}.{sys.version_info.minor}, which this Prebake does not know, so that it "
        f"cannot tell what the function does: it runs each time; use Python {versions}, or a newer Prebake",
    )


def _parted(fused: dis.Instruction, code: CodeType) -> list[dis.Instruction]:
    """The two instructions that CPython 3.13 made one of; where the second is written is not known."""
    kinds = _FUSED[fused.opname]
    first, second = (
        fused._replace(opname=kind, opcode=dis.opmap[kind], arg=number, argval=name, argrepr=name)
        for kind, number, name in zip(kinds, divmod(fused.arg or 0, 16), fused.argval, strict=True)
    )
    return [first, second._replace(**_NOWHERE)]


@functools.lru_cache(maxsize=CODES_MAX)
def body(code: CodeType) -> Body:
    """The meaning of one code object; nested ones are among its constants.

    Where it goes on after a jump or an error is told by instructions as they are taken apart: by offsets, two
    functions that differ would be one.
    """
    places: dict[int, int] = {}
    instructions: list[int] = []
    steps = instructions_of(code)
    offsets = [each.offset for each in steps]
    for each, following in zip(steps, (*steps[1:], None), strict=True):
        argument = -1 if each.arg is None else each.arg
        if each.opcode in _JUMPS:
            argument = bisect.bisect_left(offsets, each.argval)
        elif each.opcode in dis.hasconst:
            is_line = _is_line(each, following, code)
            argument = -1 if is_line else places.setdefault(argument, len(places))
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
        _handlers(code, offsets),
    )
    return Body(header, instructions, [code.co_consts[place] for place in places])


def _is_line(each: dis.Instruction, following: dis.Instruction | None, code: CodeType) -> bool:
    """Whether it loads the line that the body of a class begins at, and that says so."""
    is_stored = following is not None and following.opname == "STORE_NAME" and following.argval == _LINE
    is_said = sys.version_info >= (3, 13) and each.argval == code.co_firstlineno
    return is_stored and is_said


def _handlers(code: CodeType, offsets: list[int]) -> tuple[int, ...]:
    """Which instructions are left by an error for which: first, one after the last, handler, depth of the
    stack, whether where it was is told."""
    if not code.co_exceptiontable:
        return ()
    # No stub has it.
    entries: list[Any] = vars(dis.Bytecode(code))["exception_entries"]
    return tuple(
        number
        for entry in entries
        for number in (
            *(bisect.bisect_left(offsets, at) for at in (entry.start, entry.end, entry.target)),
            entry.depth,
            int(entry.lasti),
        )
    )


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
        if name in ("LOAD_ATTR", "LOAD_SUPER_ATTR") and not _is_called(each):
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
            if following not in _ATTRIBUTE:
                (found.bare_attributes if name in _ATTRIBUTE else found.bare).add(each.argval)
            if following not in _ATTRIBUTE | _SETS:
                found.handed_on.add(each.argval)
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
