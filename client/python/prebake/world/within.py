"""The `with` statements that a call is made in. What one of them sets is often hidden in a package
(`sympy.evaluate(False)`, `mock.patch(...)`): so a call inside is made in another world than one outside.

Where a statement is tells it from others, and so do the values of the names that it is made of: their plain
parts, since a description of all that they are would take longer than the call.
"""

from __future__ import annotations

import dis
import enum
import sys
import types
from typing import Any

from prebake.runtime import packages

#: Callers that are gone through. Those of a test runner are some sixty.
CALLERS_MAX = 128
#: Places of calls that are kept: a job's code has some hundred.
CALLS_MAX = 4096
#: How deep values are looked into, at how many members of each, and at how much of a text.
DEPTH_MAX, MEMBERS_MAX, TEXT_MAX = 3, 16, 256
#: Types whose text is all that they are.
_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})
_WITH = dis.opmap["WITH_EXCEPT_START"]
_CACHE = dis.opmap["CACHE"]
_UNIT = 2

#: Each by its place, and the names that its expression is made of.
Statements = tuple[tuple[str, tuple[str, ...]], ...]


def statements(frame: types.FrameType | None, depth: int = DEPTH_MAX, only_users: bool = False) -> list[str]:
    """The `with` statements around what a frame and its callers do, by the function and the place in it."""
    found: list[str] = []
    left = CALLERS_MAX
    while frame is not None and left:
        left -= 1
        code = frame.f_code
        if code.co_exceptiontable:
            # By its address: to hash a code object takes as long as all else here.
            at = id(code), frame.f_lasti
            known = _calls.get(at)
            if known is None:
                if len(_calls) >= CALLS_MAX:
                    _calls.clear()
                known = _calls[at] = code, _around(code, frame.f_lasti)
            if known[1]:
                is_users = _is_users(frame)
                for place, names in known[1] if is_users or not only_users else ():
                    found.append(place + _given(frame, names, depth) if names and is_users else place)
        frame = frame.f_back
    return found


#: What is around places of calls; each code object is kept alive so that its address stays its own.
_calls: dict[tuple[int, int], tuple[types.CodeType, Statements]] = {}


def of_caller() -> list[str]:
    """Those around the caller of who asks."""
    return statements(sys._getframe(2))


def of_request(between: int = 0) -> list[str]:
    """The same of who asks a data set for elements, again and again in one statement: only the user's own
    statements, since loaders have some that come and go, and of names only plain values, since a timer or a
    trainer holds others each time.

    `between` are callers that are known to be Prebake's, which are not gone through: to make an object of a
    frame takes a fifth of all this."""
    try:
        frame = sys._getframe(2 + between)
    except ValueError:
        # Compiled code asks, in a thread of its own.
        return []
    return statements(frame, 0, True)


def _is_users(frame: types.FrameType) -> bool:
    """Whether it is the user who says what the manager is given: packages hold locks, and count. What makes a
    decorator of a manager calls it for the user."""
    name = frame.f_globals.get("__name__")
    return name == "contextlib" or type(name) is str and packages.owner(name) is None


def _given(frame: types.FrameType, names: tuple[str, ...], depth: int) -> str:
    """What names stand for in a frame, as text."""
    here, above = frame.f_locals, frame.f_globals
    said = ((name, _told(here.get(name, above.get(name)), depth)) for name in names)
    return "".join(f" {name}={text}" for name, text in said if text)


def _told(value: Any, depth: int) -> str:
    """The plain parts of a value; empty if there are none. None of the user's code is run."""
    kind = type(value)
    if kind in _PLAIN:
        return repr(value) if kind not in (str, bytes) else repr(value[:TEXT_MAX])
    if issubclass(kind, (types.ModuleType, type, types.BuiltinFunctionType)) or not depth:
        return ""
    if issubclass(kind, enum.Enum):
        return str(value._name_)
    if kind is dict:
        parts = [_told(each, depth - 1) for item in list(value.items())[:MEMBERS_MAX] for each in item]
    elif kind in (list, tuple):
        parts = [_told(each, depth - 1) for each in value[:MEMBERS_MAX]]
    elif kind is types.FunctionType:
        cells = [each.cell_contents for each in value.__closure__ or () if each != _EMPTY]
        parts = [value.__qualname__, *(_told(each, depth - 1) for each in cells)]
    else:
        try:
            fields = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return _number(value)
        parts = [kind.__qualname__, *(_told(each, depth - 1) for each in list(fields.values())[:MEMBERS_MAX])]
    return f"({','.join(parts)})" if any(parts) else ""


def _number(value: Any) -> str:
    """Of what is compiled: what it says of itself, as members of its enumerations do by a number."""
    try:
        return f"{type(value).__qualname__}{int(value)}"
    except Exception:
        said = "" if type(value).__flags__ & packages.HEAP_TYPE else repr(value)
        return "" if " at 0x" in said else said[:TEXT_MAX]


_EMPTY = types.CellType()


def _around(code: types.CodeType, at: int) -> Statements:
    """Statements around a place, and the names that their expressions are made of. Handlers lie within those
    further out: each tells the next."""
    entries = list(dis._parse_exception_table(code))  # type: ignore[attr-defined]
    found: list[tuple[str, tuple[str, ...]]] = []
    seen = set()
    while at not in seen:
        seen.add(at)
        handler = next((each.target for each in entries if each.start <= at < each.end), None)
        if handler is None:
            break
        if _WITH in code.co_code[handler : handler + 2 * _UNIT : _UNIT]:
            begun = min(each.start for each in entries if each.target == handler)
            found.append((f"{code.co_qualname}+{handler}", _names(code, begun)))
        at = handler
    return tuple(found)


def _names(code: types.CodeType, begun: int) -> tuple[str, ...]:
    """The names in the expression of a statement, whose body begins there."""
    before = [each for each in dis.get_instructions(code) if each.offset < begun]
    enters = next((each for each in reversed(before) if each.opname in _ENTERS), None)
    if enters is None or enters.positions is None:
        return ()
    names: dict[str, None] = {}
    for each in reversed(before[: before.index(enters)]):
        is_within = _lies_in(each.positions, enters.positions)
        if each.opname == _STORES_AND_LOADS:
            # Where it is written says where the first is; what is loaded right before is the expression's.
            names[each.argval[1]] = None
        elif is_within and each.opname.startswith("LOAD_") and each.opname not in _NO_NAMES:
            told = each.argval if isinstance(each.argval, tuple) else (each.argval,)
            names |= dict.fromkeys(name for name in told if isinstance(name, str))
        if not is_within:
            break
    return tuple(names)


#: What enters a context manager.
_ENTERS = ("BEFORE_WITH", "BEFORE_ASYNC_WITH")
#: Of CPython 3.13: what another manager is called, and is then taken for the next.
_STORES_AND_LOADS = "STORE_FAST_LOAD_FAST"
#: These load no variable.
_NO_NAMES = ("LOAD_CONST", "LOAD_ATTR", "LOAD_METHOD")


def _lies_in(inner: dis.Positions | None, outer: dis.Positions) -> bool:
    if inner is None or None in (inner.lineno, inner.col_offset, outer.lineno, outer.end_lineno):
        return False
    begin, end = (outer.lineno, outer.col_offset), (outer.end_lineno, outer.end_col_offset)
    return begin <= (inner.lineno, inner.col_offset) and (inner.end_lineno, inner.end_col_offset) <= end
