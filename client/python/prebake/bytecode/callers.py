"""Who calls which function with what, in all code that is looked at: what a parameter is, all callers say."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, NamedTuple

from prebake.bytecode.symbols import Call, Symbol
from prebake.runtime.errors import Refused

if TYPE_CHECKING:
    from prebake.purity.seeds import Seeds


class Wanted(NamedTuple):
    """A parameter of a function of the user's own, or an attribute of its object, that must have a value; or
    an attribute that must be a logger."""

    #: A `FunctionType`.
    function: Any
    name: str
    refused: Refused
    is_attribute: bool = False
    is_logger: bool = False


class Site(NamedTuple):
    """A call in some function's code, and how many parameters come before its arguments; None if that is not
    known."""

    seeds: Seeds
    call: Call
    skipped: int | None


class Callers:
    """Who calls what, in all code that was looked at."""

    def __init__(self) -> None:
        self.wanted: list[Wanted] = []
        #: By the code that is called, and by the name of what may be a method.
        self.sites: dict[types.CodeType | str, list[Site]] = {}
        #: What code sets attributes to, by their name.
        self.attributes: dict[str, list[tuple[Seeds, Symbol]]] = {}
        #: Whether any code tells a person of a clock.
        self.tells = False
        #: Functions that are used otherwise than being called.
        self._handed_on: set[types.CodeType] = set()

    def hands_on(self, value: Any) -> None:
        """Notes a value that is used otherwise than being called by its name."""
        function = getattr(value, "__init__", None) if issubclass(type(value), type) else value
        if type(function) is types.FunctionType:
            self._handed_on.add(function.__code__)

    def of(self, function: types.FunctionType) -> list[Site] | None:
        """All calls of a function by its name; None if there may be others."""
        return None if function.__code__ in self._handed_on else self.sites.get(function.__code__, [])
