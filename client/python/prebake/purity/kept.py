"""Data of its module that an installed function keeps what it is given in: settings and registries."""

from __future__ import annotations

import collections
import contextvars
import dis
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from prebake import bytecode, packages
from prebake.calls import MUTATORS

#: Members of a table that a function changes.
MEMBERS_MAX = 1000
#: Functions that one goes on to, each called by the one before.
DEPTH_MAX = 3
TABLES = (dict, list, set, collections.deque)
_PLAIN = (type(None), bool, int, float, str, bytes, tuple)
_METHODS = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


class _Does(NamedTuple):
    """What code does with globals: those that it changes; those that it puts what it is given into; those
    that it takes otherwise than for an attribute; functions of which it takes nothing, or hands on what they
    return; and whether it writes into anything."""

    changes: set[str]
    collects: set[str]
    takes: set[str]
    goes_on_to: set[str]
    writes: bool


def by(function: types.FunctionType, is_for_nothing: bool = True) -> Iterator[tuple[types.ModuleType, str]]:
    """The module and the names of data that a function changes: names that it assigns, tables that it writes
    into, objects of which it sets an attribute, or calls a method that changes them or has its own name,
    context variables that it sets. Whether one counts, `counts` tells by what it is then. Where it goes on
    to functions of its module for nothing but their effect, theirs too. What others keep is no setting but
    what they found (compiled expressions, formats that were tried). So of a function that is not called for
    nothing else, only the tables that it puts what it is given into, as one that returns a handle to what it
    registered."""
    space = function.__globals__
    name = space.get("__name__")
    module = sys.modules.get(name) if type(name) is str else None
    if type(module) is not types.ModuleType or vars(module) is not space or packages.owner(name) is None:
        return
    changed = _changed(function, DEPTH_MAX) if is_for_nothing else _collects(function.__code__)
    for name in sorted(changed):
        if name in space:
            yield module, name


def counts(module: types.ModuleType, name: str) -> bool:
    """Whether a name that some function changes stands for data now. It may be made when it is first used."""
    found = vars(module).get(name)
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


def _changed(function: types.FunctionType, depth: int) -> set[str]:
    space, does = function.__globals__, _does(function.__code__)
    names = set(does.changes)
    if does.writes:
        # It may write into what another function of the module finds for it.
        names |= does.takes
        for other in _own(does.takes, space):
            names |= _does(other.__code__).takes
    if depth:
        for other in _own(does.goes_on_to, space):
            names |= _changed(other, depth - 1)
    return names


def _own(names: set[str], space: dict[str, Any]) -> Iterator[types.FunctionType]:
    """Functions of the same module."""
    for name in names:
        found = space.get(name)
        if type(found) is types.FunctionType and found.__globals__ is space:
            yield found


def _does(code: types.CodeType) -> _Does:
    does = _Does(set(), set(), set(), set(), False)
    #: The global that was taken right after a parameter, in the same statement: what is written into it then.
    into = ""
    writes, last = False, ""
    #: Callables that calls are to be made of, by the names of globals.
    called: list[str] = []
    returned = ""
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    #: How many instructions ago a parameter was taken. What a function makes itself is made when it is first
    #: used: no setting.
    given = 0
    for each in bytecode.instructions_of(code):
        name = each.opname
        if returned and name in ("POP_TOP", "RETURN_VALUE"):
            does.goes_on_to.add(returned)
        returned = ""
        if name in _METHODS:
            if last and (each.argval in MUTATORS or each.argval in ("set", code.co_name)):
                does.changes.add(last)
            if name == "LOAD_METHOD" or each.argrepr.startswith("NULL|") or "+ NULL" in each.argrepr:
                called.append("")
        elif last and name == "STORE_ATTR":
            if given == 2:
                does.changes.add(last)
        elif last:
            does.takes.add(last)
        if name == "STORE_SUBSCR" and into:
            does.collects.add(into)
        if name == "LOAD_GLOBAL" and given == 1:
            into = each.argval
        elif name.startswith(("STORE_", "POP_TOP", "RETURN_")):
            into = ""
        if name == "STORE_GLOBAL" and given == 1:
            does.changes.add(each.argval)
        given = 1 if name == "LOAD_FAST" and each.argval in parameters else given + 1 if given else 0
        if name == "PUSH_NULL":
            called.append("")
        elif name.startswith("CALL") and name not in ("CALL_INTRINSIC_1", "CALL_INTRINSIC_2"):
            returned = called.pop() if called else ""
        writes |= name in ("STORE_SUBSCR", "DELETE_SUBSCR")
        last = each.argval if name == "LOAD_GLOBAL" else ""
        if last and "NULL" in each.argrepr:
            called.append(last)
    return does._replace(writes=writes)
