"""What people use to share preprocessed data, each in a file of its own and behind the same few calls.

A file has a class `Peer` and, if the peer has servers, `serve(work, place)`, which runs them until it is
ended. Each runs in an environment of its own (`../environments`): no file imports another's peer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from work import Work

#: Where a server's file says how it is reached.
ADDRESS = "address"
#: Passes of a job over everything.
PASSES = 6


class Peer(ABC):
    """One way to share what jobs make. It is made within the clock: the first request after the imports."""

    #: Distributions whose versions a figure depends on.
    packages: ClassVar[tuple[str, ...]] = ("numpy",)

    def __init__(self, work: Work, place: Path, variant: str) -> None:
        """`place` is the folder that all jobs share; `variant` chooses among ways to use the same peer."""
        self.work = work
        self.place = place
        self.variant = variant

    def fill(self) -> None:
        """Makes everything, so that later jobs find it."""
        for _ in self.epoch(None):
            pass

    @abstractmethod
    def epoch(self, order: list[int] | None) -> Iterable[Any]:
        """One pass in an order, or as the inputs lie. Yields batches: arrays (n, 224, 224, 3) of uint8, or
        lists of ragged elements."""

    def check_warm(self) -> None:
        """Raises if anything was computed, where the peer can tell."""
        return
