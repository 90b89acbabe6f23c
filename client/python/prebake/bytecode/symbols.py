"""Where the values in a code object come from, as far as its bytecode shows.

The symbols that stand in place of values; `stack` makes them.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any

#: Operators that make sets of sets.
SET_OPERATORS = frozenset({"|", "&", "-", "^"})


class Symbol:
    """A value of which nothing is known."""


@dataclass(frozen=True)
class Name(Symbol):
    """A global, closure variable or import, and the attributes taken from it."""

    #: "global", "free" or "import".
    kind: str
    path: tuple[str, ...]


@dataclass(frozen=True)
class Const(Symbol):
    """A constant."""

    value: Any


@dataclass(frozen=True)
class Parameter(Symbol):
    """A parameter, or a variable that is bound more than once."""

    name: str
    #: Where it is bound.
    scope: str = ""


@dataclass(frozen=True)
class Item(Symbol):
    """What is in a named container under a key."""

    of: Name
    key: Symbol


@dataclass(frozen=True)
class Made(Symbol):
    """The result of arithmetic or of a display: never None. `display` is the operator or instruction."""

    display: str
    #: Of an operator that sets or paths have, and of texts put together.
    operands: tuple[Symbol, ...] = ()
    #: Calls whose results went into it.
    sources: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Attribute(Symbol):
    """An attribute of something that is no name."""

    of: Symbol
    name: str


@dataclass(frozen=True)
class Code(Symbol):
    """A function made here: a lambda, a comprehension, a local function."""

    code: types.CodeType


@dataclass(eq=False)
class Call(Symbol):
    """A call and what becomes of its result."""

    callee: Symbol
    #: None if arguments are unpacked.
    args: tuple[Symbol, ...] | None
    keywords: dict[str, Symbol]
    #: Calls that the result is handed to.
    consumers: list[Call] = field(default_factory=list)
    #: Calls that are handed the result, or what was worked out from it.
    told_to: list[Call] = field(default_factory=list)
    #: Calls whose results stand beside it in an operation.
    beside: list[Call] = field(default_factory=list)
    #: Whether what was worked out from it goes anywhere but to those.
    escapes: bool = False
    #: Whether its own `sort` is called.
    sorted: bool = False
    #: Whether something else is done with it than handing it to calls.
    kept: bool = False


@dataclass
class Symbols:
    """What a code object and those nested in it do with what they name."""

    calls: list[Call] = field(default_factory=list)
    #: Names whose value is used otherwise than being called or asked for an attribute.
    loaded: list[Name] = field(default_factory=list)
    #: (container, key): subscripts, and `key in container`.
    keyed: list[tuple[Symbol, Symbol]] = field(default_factory=list)
    #: Iterators that loops and comprehensions make, as calls of `iter`.
    iterators: list[Call] = field(default_factory=list)
    #: What is returned, not by code nested in it.
    returned: list[Symbol] = field(default_factory=list)
    #: What a variable that is bound more than once may stand for.
    bindings: dict[Parameter, list[Symbol]] = field(default_factory=dict)
    #: Attributes that are set, and to what.
    attributes: list[tuple[str, Symbol]] = field(default_factory=list)
    #: Containers and objects that are written into.
    written: list[Symbol] = field(default_factory=list)


def sources(symbol: Symbol) -> tuple[Call, ...]:
    """The calls whose results a symbol was worked out from."""
    if isinstance(symbol, Call):
        return (symbol,)
    if isinstance(symbol, Attribute):
        return sources(symbol.of)
    return symbol.sources if isinstance(symbol, Made) else ()


#: A value of which nothing is known, wherever it stands.
UNKNOWN = Symbol()
