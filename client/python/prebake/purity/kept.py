"""Data of its module that an installed function keeps what it is given in: settings and registries."""

from __future__ import annotations

import collections
import contextvars
import dis
import inspect
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from prebake.bytecode import instructions
from prebake.known.calls import MUTATORS
from prebake.runtime import packages

#: Members of a table that a function changes.
MEMBERS_MAX = 1000
#: Functions that one goes on to, each called by the one before.
DEPTH_MAX = 3
TABLES = (dict, list, set, collections.deque)
_PLAIN = (type(None), bool, int, float, str, bytes, tuple)
_METHODS = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


class _Does(NamedTuple):
    """What code does with globals: those that it changes; attributes that it sets, of which (of its first
    parameter: of no name); those that it puts what it is given into; those that it takes otherwise than for
    an attribute; functions of which it takes nothing, or hands on what they return; and whether it writes
    into anything."""

    changes: set[str]
    sets: set[tuple[str, str]]
    collects: set[str]
    takes: set[str]
    goes_on_to: set[str]
    writes: bool


def by(function: types.FunctionType, is_for_nothing: bool = True) -> Iterator[tuple[Any, str]]:
    """The module and the names of data that a function changes: names that it assigns what it is given, or
    what it makes of that, or one thing or another; tables that it writes into; objects of which it sets an
    attribute, or calls a method that changes them or has its own name; context variables that it sets; and
    such names in another module. Whether one counts, `counts` tells by what it is then. Where it goes on
    to functions of its module for nothing but their effect, theirs too. What others keep is no setting but
    what they found (compiled expressions, formats that were tried). So of a function that is not called for
    nothing else, only the tables that it puts what it is given into, as one that returns a handle to what it
    registered."""
    space = function.__globals__
    name = space.get("__name__")
    module = sys.modules.get(name) if type(name) is str else None
    if type(module) is not types.ModuleType or vars(module) is not space or packages.owner(name) is None:
        return
    if _top(str(name)) == "prebake":
        # Every source that wraps something calls these, and they keep no settings.
        return
    if not is_for_nothing:
        yield from ((module, name) for name in sorted(_collects(function.__code__)) if name in space)
        return
    names, attributes = _changed(function, DEPTH_MAX)
    yield from ((module, name) for name in sorted(names) if name in space)
    for name, attribute in sorted(attributes):
        other = space.get(name)
        if issubclass(type(other), (types.ModuleType, type)) and attribute in vars(other):
            yield other, attribute


def is_setter(function: types.FunctionType) -> bool:
    """Whether it returns nothing, and sets something: it is called for that, by whatever name."""
    code = function.__code__
    if not _SETS.intersection(code.co_code[::2]):
        return False
    last = None
    for each in instructions.instructions_of(code):
        given = each if each.opname == "RETURN_CONST" else last if each.opname == "RETURN_VALUE" else None
        if given is not None and (
            given.opname not in ("LOAD_CONST", "RETURN_CONST") or given.argval is not None
        ):
            return False
        last = each
    return not code.co_flags & inspect.CO_GENERATOR


_SETS = {dis.opmap["STORE_GLOBAL"], dis.opmap["STORE_ATTR"]}


def by_compiled(function: types.BuiltinFunctionType) -> Iterator[tuple[types.ModuleType, str]]:
    """The same of compiled code, which does not show what it does: any table of its module may be where it
    keeps what it is given (`sqlite3.register_adapter`)."""
    module = function.__self__
    if type(module) is types.ModuleType:
        for name, found in sorted(vars(module).items()):
            if type(found) in TABLES and not name.startswith("__"):
                yield module, name


def of_its_own(method: types.FunctionType) -> set[str]:
    """Attributes that a method sets of what it is called of."""
    return {attribute for name, attribute in _does(method.__code__).sets if name == ""}


def counts(module: types.ModuleType, name: str) -> bool:
    """Whether a name that some function changes stands for data now. It may be made when it is first used."""
    found: Any = vars(module).get(name)
    kind = type(found)
    if issubclass(kind, TABLES):
        return len(found) <= MEMBERS_MAX
    of = kind.__dict__.get("__module__")
    if of == module.__name__ or is_plain(found) or kind is contextvars.ContextVar:
        return True
    # Packages keep much of what is made when it is first used; modules of the standard library go on to each
    # other.
    return type(of) is str and packages.owner(of) is packages.PYTHON and _top(of) == _top(module.__name__)


def _top(name: str) -> str:
    return name.partition(".")[0]


def is_plain(found: Any) -> bool:
    """Whether a value is known by itself, and nothing can be changed in it."""
    return type(found) in _PLAIN


def value(found: Any) -> Any:
    """What counts of such data."""
    if type(found) is contextvars.ContextVar:
        return found.get(None)
    return dict(vars(found)) if issubclass(type(found), threading.local) else found


def _collects(code: types.CodeType) -> set[str]:
    # Most write into nothing, and to go through all that they do takes long.
    return _does(code).collects if _STORES in code.co_code[::2] else set()


_STORES = dis.opmap["STORE_SUBSCR"]


def _changed(function: types.FunctionType, depth: int) -> tuple[set[str], set[tuple[str, str]]]:
    """Names of its module, and attributes of what such a name stands for."""
    space, does = function.__globals__, _does(function.__code__)
    names, attributes = {*does.changes, *(name for name, _ in does.sets)}, set(does.sets)
    if does.writes:
        # It may write into what another function of the module finds for it.
        names |= does.takes
        for other in _own(does.takes, space):
            names |= _does(other.__code__).takes
    if depth:
        for other in _own(does.goes_on_to, space):
            more, further = _changed(other, depth - 1)
            names |= more
            attributes |= further
    return names, attributes


def _own(names: set[str], space: dict[str, Any]) -> Iterator[types.FunctionType]:
    """Functions of the same module."""
    for name in names:
        found = space.get(name)
        if type(found) is types.FunctionType and found.__globals__ is space:
            yield found


def _does(code: types.CodeType) -> _Does:
    does = _Does(set(), set(), set(), set(), set(), False)
    #: The global that was taken right after a parameter, in the same statement: what is written into it then.
    into = ""
    writes, last = False, ""
    #: Callables that calls are to be made of, by the names of globals.
    called: list[str] = []
    returned = ""
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    #: How many instructions ago a parameter was taken.
    given = 0
    flow = _Flow(code)
    for each in instructions.instructions_of(code):
        name = each.opname
        if returned and name in ("POP_TOP", "RETURN_VALUE"):
            does.goes_on_to.add(returned)
        returned = ""
        if name in _METHODS:
            if last and (each.argval in MUTATORS or each.argval in ("set", code.co_name)):
                does.changes.add(last)
            if name == "LOAD_METHOD" or each.argrepr.startswith("NULL|") or "+ NULL" in each.argrepr:
                called.append("")
        elif name == "STORE_ATTR" and (last or flow.is_its_own):
            if flow.is_setting(each.argval):
                does.sets.add((last, each.argval))
        elif last:
            does.takes.add(last)
        if name in ("STORE_SUBSCR", "STORE_SLICE") and into:
            does.collects.add(into)
        if name == "LOAD_GLOBAL" and given == 1:
            into = each.argval
        elif name.startswith(("STORE_", "POP_TOP", "RETURN_")):
            into = ""
        if name == "STORE_GLOBAL" and flow.is_setting(each.argval):
            does.changes.add(each.argval)
        given = 1 if name == "LOAD_FAST" and each.argval in parameters else given + 1 if given else 0
        flow.go_on(each)
        if name == "PUSH_NULL":
            called.append("")
        elif name.startswith("CALL") and name not in ("CALL_INTRINSIC_1", "CALL_INTRINSIC_2"):
            returned = called.pop() if called else ""
        writes |= name in ("STORE_SUBSCR", "STORE_SLICE", "DELETE_SUBSCR")
        last = each.argval if name == "LOAD_GLOBAL" else ""
        if last and "NULL" in each.argrepr:
            called.append(last)
    return does._replace(writes=writes)


class _Flow:
    """Whether what is stored next is a setting: made of what the function is given, on whichever way; or one
    thing or another, where it does not look first at what there is, as one does that makes something when it
    is first used. Instructions are gone through in a row: which way is taken does not matter."""

    def __init__(self, code: types.CodeType) -> None:
        stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        count = code.co_argcount + code.co_kwonlyargcount + stars
        # What a method is called of is not given to it: a count that goes on is no setting.
        self._made_of_it = set(code.co_varnames[:count]) - {"self", "cls"}
        taken = (each for each in instructions.instructions_of(code) if each.opname in _LOOKS)
        self._looked_at = {each.argval for each in taken}
        self._is_of_it = self._is_constant = False
        self._first = code.co_varnames[:1]
        #: Whether the first parameter was taken last.
        self.is_its_own = False

    def is_setting(self, name: str) -> bool:
        """Of what is stored under a name, of a global or of an attribute."""
        return self._is_of_it or self._is_constant and name not in self._looked_at

    def go_on(self, instruction: dis.Instruction) -> None:
        """Goes past an instruction."""
        name, local = instruction.opname, instruction.argval
        loads = name.startswith("LOAD_FAST")
        if name == "STORE_FAST" and self._is_of_it:
            self._made_of_it.add(local)
        if loads:
            self._is_of_it |= local in self._made_of_it
        elif name.startswith(("STORE_", "POP_TOP", "RETURN_", "POP_JUMP")):
            self._is_of_it = False
        self.is_its_own = loads and (local,) == self._first
        # Whose attribute is set is loaded in between.
        if name != "LOAD_GLOBAL" and not self.is_its_own:
            self._is_constant = name == "LOAD_CONST"


_LOOKS = {"LOAD_GLOBAL", *_METHODS}
