"""What takes its order from a set, whose order is another in each process with another hash seed."""

from __future__ import annotations

import dis
import inspect
import types
from typing import TYPE_CHECKING, Any

from prebake.bytecode import symbols
from prebake.bytecode.instructions import instructions_of
from prebake.bytecode.symbols import (
    SET_OPERATORS,
    UNKNOWN,
    Attribute,
    Call,
    Const,
    Item,
    Made,
    Name,
    Parameter,
    Symbol,
)
from prebake.known import calls
from prebake.runtime import packages
from prebake.runtime.errors import Code

if TYPE_CHECKING:
    from prebake.purity.call_scan import CallScan

_ABSENT = object()
#: Steps from one call to those its result goes through.
CONSUMERS_MAX = 8
_SILENT = frozenset({"RESUME", "CACHE", "COPY_FREE_VARS", "MAKE_CELL", "EXTENDED_ARG"})
#: Functions, variables and operators followed one behind the other, to tell what something is.
STEPS_MAX = 6


class Orders:
    """The sets in one function's code."""

    def __init__(self, scan: CallScan, steps: int = STEPS_MAX) -> None:
        self.scan = scan
        self.steps = steps
        self.symbols = scan.symbols

    def judge(self) -> None:
        """Raises `Refused` if anything takes its order from a set."""
        for call in (*self.symbols.calls, *self.symbols.iterators):
            if any(self.is_set(each) for each in self._taken(call)):
                raise self.scan.refuse(Code.UNSTABLE, "the order of a set", "sort it")

    def _taken(self, call: Call) -> list[Symbol]:
        """Arguments whose order a call takes. Names of attributes among them are noted: what they are is
        known once objects are looked at."""
        callee = call.callee
        function = self._function(callee)
        if function is not None:
            named = function.__code__.co_varnames
            given = dict(zip(named, call.args or (), strict=False)) | call.keywords
            # Most arguments are no sets: only for those is the function looked at.
            return [
                each for name, each in given.items() if self.is_set(each) and self._iterates(function, name)
            ]
        if not isinstance(callee, (Name, Attribute)):
            return []
        name = callee.path[-1] if isinstance(callee, Name) else callee.name
        if name not in calls.ORDERED and not (name in calls.ORDERLESS and self._ties(call)):
            return []
        if name in calls.PASSING and (call.sorted or self.is_sorted(call)):
            return []
        for each in call.args or ():
            noted = each.callee if isinstance(each, Call) else each
            if isinstance(noted, Attribute):
                self.scan.encoder.ordered.add(noted.name)
            elif isinstance(noted, Name) and len(noted.path) > 1:
                self.scan.encoder.ordered.add(noted.path[-1])
        return list(call.args or ())

    def _iterates(self, function: types.FunctionType, parameter: str) -> bool:
        """Whether a function of the user's own takes an order from one of its parameters."""
        inner = self._inner(function)
        return inner is not None and any(
            isinstance(each, Parameter) and each.name == parameter
            for call in (*inner.symbols.calls, *inner.symbols.iterators)
            for each in inner._taken(call)
        )

    def _inner(self, function: types.FunctionType) -> Orders | None:
        return Orders(type(self.scan)(self.scan.encoder, function), self.steps - 1) if self.steps else None

    def _function(self, callee: Symbol) -> types.FunctionType | None:
        """The user's own function that is called, if it is certain."""
        if not isinstance(callee, Name):
            return None
        value, rest = self.scan.walk(callee)
        own = not rest and isinstance(value, types.FunctionType)
        return value if own and packages.owner(value.__globals__.get("__name__", "")) is None else None

    def returns_set(self) -> bool:
        """Whether the function may return one."""
        return any(map(self.is_set, self.symbols.returned))

    def is_set(self, symbol: Symbol) -> bool:
        """Whether a symbol may stand for a set whose order can be another."""
        if not self.steps:
            return False
        self.steps -= 1
        try:
            return self._is_set(symbol)
        finally:
            self.steps += 1

    def _is_set(self, symbol: Symbol) -> bool:
        if isinstance(symbol, Made):
            views = map(_is_view, symbol.operands)
            return symbol.display in SET_OPERATORS and any((*views, *map(self.is_set, symbol.operands)))
        if isinstance(symbol, Parameter):
            bound = self.symbols.bindings.get(symbol, ())
            default = self.scan.defaults.get(symbol.name) if symbol.name in self.scan.given else None
            return varies(default) or any(map(self.is_set, bound))
        if isinstance(symbol, Call):
            return self._makes_set(symbol)
        return varies(self.value(symbol))

    def value(self, symbol: Symbol) -> Any:
        """What a symbol certainly is."""
        if isinstance(symbol, Const):
            return symbol.value
        if isinstance(symbol, Name):
            value, rest = self.scan.walk(symbol)
            # What is in a class is compared, nothing deeper.
            deep = rest and not (isinstance(value, type) and len(rest) == 1)
            self.scan.encoder.watch.is_loose |= bool(deep)
            for each in rest:
                value = inspect.getattr_static(value, each, _ABSENT)
            return value
        if isinstance(symbol, Item) and isinstance(symbol.key, Const):
            container = self.value(symbol.of)
            if type(container) in (dict, list, tuple):
                try:
                    return container[symbol.key.value]
                except (LookupError, TypeError):
                    return _ABSENT
        return _ABSENT

    def _makes_set(self, call: Call) -> bool:
        callee = call.callee
        if isinstance(callee, symbols.Code):
            return callee.code.co_name == "<setcomp>"
        if isinstance(callee, Attribute):
            return callee.name in calls.SET_METHODS and self.is_set(callee.of)
        if not isinstance(callee, Name):
            return False
        function = self._function(callee)
        if function is not None:
            inner = self._inner(function)
            return inner is not None and inner.returns_set()
        if callee.path[-1] in calls.SET_METHODS and len(callee.path) > 1:
            return self.is_set(Name(callee.kind, callee.path[:-1]))
        if self.scan.walk(callee)[0] not in (set, frozenset):
            return False
        given = call.args[0] if call.args else UNKNOWN
        listed = isinstance(given, Const) and isinstance(given.value, (str, bytes, tuple, frozenset))
        return not listed or _hashes_vary(given.value)  # type: ignore[attr-defined]

    # -- what loses the order again

    def is_sorted(self, call: Call, steps: int = CONSUMERS_MAX) -> bool:
        """Whether the order of what a call yields is lost in all that it is handed to."""
        if call.sorted and steps == CONSUMERS_MAX:
            return True
        if call.kept or not call.consumers or not steps:
            return False
        return all(self._loses_order(each, steps) for each in call.consumers)

    def _loses_order(self, call: Call, steps: int) -> bool:
        callee = call.callee
        if isinstance(callee, Name):
            name = callee.path[-1]
            if name in calls.ORDERLESS:
                return not self._ties(call)
            return name in calls.PASSING and (call.sorted or self.is_sorted(call, steps - 1))
        if isinstance(callee, symbols.Code):
            return callee.code.co_name == "<setcomp>" or call.sorted or self.is_sorted(call, steps - 1)
        return False

    def _ties(self, call: Call) -> bool:
        """Whether unequal members may have one key: they stay in the order in which they came."""
        key = call.keywords.get("key", Const(None))
        if isinstance(key, Const):
            return key.value is not None
        if isinstance(key, Name) and self.scan.canonical(key) in calls.INJECTIVE:
            return False
        function = self._function(key)
        code = key.code if isinstance(key, symbols.Code) else getattr(function, "__code__", None)
        return code is None or not _is_injective(code)


def _is_view(symbol: Symbol) -> bool:
    """Whether it is what a dictionary is asked for its keys: two of them make a set."""
    callee = symbol.callee if isinstance(symbol, Call) and symbol.args == () else None
    name = callee.path[-1] if isinstance(callee, Name) else getattr(callee, "name", "")
    return name in ("keys", "items")


def varies(value: Any) -> bool:
    """Whether a value is a set whose order can be another in another process."""
    return isinstance(value, (set, frozenset)) and _hashes_vary(value)


def _hashes_vary(members: Any) -> bool:
    return len(members) > 1 and any(type(member) not in (int, float, bool, complex) for member in members)


def _is_injective(code: types.CodeType) -> bool:
    """Whether a key function plainly returns its argument, or a tuple of which that is the last part."""
    steps = [each for each in instructions_of(code) if each.opname not in _SILENT]
    names = [each.opname for each in steps]
    # With one way through it, and its argument never bound to something else.
    plain = not any("JUMP" in name or name.startswith("STORE_") for name in names)
    if not plain or code.co_argcount != 1 or names[-1:] != ["RETURN_VALUE"]:
        return False
    if names[-2:-1] == ["BUILD_TUPLE"]:
        return _is_argument(steps[-3], code)
    return len(steps) == 2 and _is_argument(steps[0], code)


def _is_argument(step: dis.Instruction, code: types.CodeType) -> bool:
    return step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) and step.argval == code.co_varnames[0]
