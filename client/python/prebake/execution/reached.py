"""What a description is made of: code objects and variables."""

from __future__ import annotations

import types
from typing import Any


class Reached:
    """Code objects and variables that a description is made of. Two descriptions are equal whatever objects
    hold their code, so that this takes no part in comparisons."""

    __slots__ = ("_codes", "may_draw", "memos", "variables")

    def __init__(self) -> None:
        #: By id; each is kept alive so that its id stays its own.
        self._codes: dict[int, types.CodeType] = {}
        self.variables: frozenset[str] = frozenset()
        #: Functions that keep what they returned.
        self.memos: list[Any] = []
        #: Whether installed code may come upon code that draws or asks the time, and is none of these: only
        #: the element that it does it for shows it.
        self.may_draw = False

    def add(self, code: types.CodeType) -> None:
        """Takes a code object and those nested in it."""
        self._codes[id(code)] = code
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self.add(constant)

    def codes(self) -> set[types.CodeType]:
        """All of them, by what they are."""
        return set(self._codes.values())

    def mark(self) -> int:
        """For `forget_since`."""
        return len(self._codes)

    def forget_since(self, mark: int) -> None:
        """Forgets what was added since."""
        while len(self._codes) > mark:
            self._codes.popitem()

    def update(self, other: Reached) -> None:
        """Takes what another description is made of."""
        self._codes.update(other._codes)
        self.variables |= other.variables
        self.memos += other.memos
        self.may_draw |= other.may_draw

    def __contains__(self, code: types.CodeType) -> bool:
        return id(code) in self._codes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reached)

    def __hash__(self) -> int:
        return 0
