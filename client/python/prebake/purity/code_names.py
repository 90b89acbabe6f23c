"""The names that one function's code sees, and what they stand for."""

from __future__ import annotations

import builtins
import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

from prebake.bytecode import abstract_interpreter
from prebake.bytecode.symbols import Name
from prebake.known.lookup import covers, dotted_of, public
from prebake.runtime import packages
from prebake.runtime.errors import Code, Refused

if TYPE_CHECKING:
    from prebake.encoding.encoder import Encoder

#: Nothing has that name.
ABSENT = object()
_WORDS = {
    Code.RANDOM: "draws random numbers",
    Code.CLOCK: "reads the clock, or names something anew each time",
    Code.NETWORK: "talks to the network",
    Code.UNDECLARED: "reads what nothing tells of",
    Code.ENVIRONMENT: "reads the surroundings of the job; pass the value as a parameter",
    Code.DYNAMIC: "reaches names that cannot be seen in its code",
    Code.EFFECT: "sets something for the whole process, as a hit would not",
    Code.UNSTABLE: "depends on the hash seed of the process",
}


def _imported(name: str) -> Any:
    """A module that code imports, or `ABSENT`; an installed one is imported now, as the code would."""
    if name not in sys.modules and not name.startswith(".") and packages.owner(name) is not None:
        try:
            importlib.import_module(name)
        except Exception:
            return ABSENT
    return sys.modules.get(name, ABSENT)


def _attribute(module: types.ModuleType, name: str, installed: bool) -> Any:
    """What a module holds, or `ABSENT`. What an installed one loads when it is first asked for is loaded, as
    the code would: its identity must not be another one before and after the code's first call.
    """
    after = vars(module).get(name, ABSENT)
    if after is not ABSENT or not installed:
        return after
    try:
        return getattr(module, name)
    except Exception:
        return ABSENT


class CodeNames:
    """One function's code, with the names that it sees."""

    def __init__(self, encoder: Encoder, function: types.FunctionType) -> None:
        self.encoder = encoder
        self.function = function
        self.name = function.__code__.co_name
        self.symbols = abstract_interpreter.of(function.__code__)
        self.free = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
        #: What it takes from installed modules, by dotted name.
        self.taken: dict[str, Any] = {}

    def refuse(self, code: Code, what: str, remedy: str = "") -> Refused:
        place = self.encoder.place(self.function.__code__)
        text = f"uses {what}, which {_WORDS[code]}" + (f" ({place})" if place else "")
        return self.encoder.refuse(code, text + (f"; {remedy}" if remedy else ""))

    def _value(self, name: Name) -> Any:
        """What the first part of a name stands for; `ABSENT` if nothing."""
        root = name.path[0]
        if name.kind == "global":
            namespace = self.function.__globals__
            if root not in namespace:
                self.encoder.watch.looked_up(vars(builtins), root)
            return namespace.get(root, getattr(builtins, root, ABSENT))
        if name.kind == "free":
            try:
                return self.free[root].cell_contents
            except (KeyError, ValueError):
                return ABSENT
        self.encoder.watch.is_loose = True
        return _imported(root)

    def walk(self, name: Name) -> tuple[Any, tuple[str, ...]]:
        """The last module, or what is found in one, on the way; and the attributes that are left."""
        value, rest, _ = self._way(name)
        return value, rest

    def _way(self, name: Name) -> tuple[Any, tuple[str, ...], str]:
        """The same, and under which name an installed module holds it."""
        value, rest, known = self._value(name), name.path[1:], ""
        while rest and isinstance(value, types.ModuleType):
            installed = packages.owner(value.__name__) is not None
            if installed:
                self.encoder.watch.looked_up(vars(value), rest[0])
            else:
                self.encoder.watch.is_loose = True
            after = _attribute(value, rest[0], installed)
            if after is ABSENT and name.kind == "import" and hasattr(value, "__path__"):
                after = _imported(f"{value.__name__}.{rest[0]}")
            if rest[0] == "__dict__":
                raise self.refuse(Code.DYNAMIC, f"{value.__name__}.__dict__")
            if installed and rest[0] not in vars(value):
                # It is made when it is asked for, if it is there.
                self.encoder.watch.is_loose = True
            if after is ABSENT:
                break
            if installed and not covers(after):
                self.taken[f"{value.__name__}.{rest[0]}"] = after
            known = f"{public(value.__name__)}.{rest[0]}" if installed else ""
            value, rest = after, rest[1:]
        return value, rest, known

    def canonical(self, name: Name) -> str:
        """The name in the table; empty for the user's own."""
        value, rest, known = self._way(name)
        if value is ABSENT:
            return ".".join(name.path) if name.kind == "import" else ""
        own = dotted_of(value) if isinstance(value, types.ModuleType) or not known else known
        return ".".join((own, *rest)) if own else ""
