"""How the items of a collection are made in this process: what a `LeaseClient` drives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from prebake.purity import tripwire
from prebake.world.world import World


class Computation(ABC):
    """The items of one collection, numbered from 0. The user's code runs in the caller's thread only."""

    #: Whether making an item may draw random numbers. If not, whoever draws meanwhile is another thread, or
    #: told elsewhere.
    may_draw = True

    @abstractmethod
    def open(self, job: Any) -> Any:
        """The native items for a native job; None if nothing is to be cached. Called again after a fork, or
        once the daemon was lost."""

    @abstractmethod
    def compute(self, i: int) -> Any:
        """Makes item i."""

    def is_unchanged(self, closely: bool) -> bool:
        """Whether `compute` still is what the items were opened as; if asked closely, at any cost."""
        return True

    def culprit(self, i: int) -> Any:
        """What draws random numbers when item i is computed; None if nothing does."""
        return self if self.may_draw and tripwire.draws(lambda: self.compute(i)) else None

    def spent(self, i: int) -> tuple[int, int]:
        """CPU time and waiting (ns) that went into item i before `compute`."""
        return 0, 0

    def prepare(self, indices: Sequence[int]) -> None:
        """Is told which items are computed next."""
        return

    def look_up(self, indices: Sequence[int]) -> None:
        """Has known what items read that nobody asked for yet."""
        return

    def approve(self, items: Any, i: int) -> bool:
        """Whether what was just computed of item i may be stored. Raises `Refused` if no item may be."""
        return True

    def begun_in(self) -> World | None:
        """The world that items were made in, where that was before their collection is opened."""
        return None
