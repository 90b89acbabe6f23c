"""What yields elements, and whether they are shared."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from prebake.identity.code import Identity
from prebake.runtime.errors import Refused
from prebake.runtime.refusals import not_cached

CONTEXT = "prebake 2026 stream v1"


class Stream(Protocol):
    """What yields elements. It can be sent to another process."""

    #: Files that it is said to read.
    inputs: Sequence[str]
    #: Lists whose items are files that it is said to read when it takes them.
    path_lists: frozenset[str]

    def roots(self) -> list[Any]:
        """The objects that it runs, which must not change unseen."""
        ...

    def identity(self) -> Identity:
        """What those are, without its lists. Raises `Refused`."""
        ...

    def lists(self) -> dict[str, list[Any]]:
        """The lists that it may go through."""
        ...

    def begin(self, lists: dict[str, Any]) -> Iterator[Any]:
        """Its elements, with stand-ins for some of its lists. Inside `given` of the same."""
        ...

    def given(self, lists: dict[str, Any]) -> contextlib.AbstractContextManager[None]:
        """Puts the stand-ins in place while it runs."""
        ...


class Sharing:
    """Whether what comes next of one run of a stream is shared."""

    def __init__(self) -> None:
        #: Nothing is from here on; and why, if that holds for later runs too.
        self.is_over = False
        self.refused: Refused | None = None

    def end(self) -> None:
        """Shares nothing from here on, this time."""
        self.is_over = True

    def refuse(self, error: Exception) -> None:
        """The same, saying why."""
        not_cached(error)
        self.is_over = True
        if isinstance(error, Refused):
            self.refused = error
