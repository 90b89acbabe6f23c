"""Prebake, read by a bare loop."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from elements import BATCH
from work import Work

import peers
import prebake


class Peer(peers.Peer):
    """Read-only, as what it is compared with."""

    packages = ("prebake", "numpy")

    def __init__(self, work: Work, place: Path, variant: str) -> None:
        super().__init__(work, place, variant)
        self.data = prebake.wrap(work.files, work.steps)

    def epoch(self, order: list[int] | None) -> Iterable[Any]:
        return self.data.batches(order, BATCH, writable=False)

    def check_warm(self) -> None:
        if self.data.stats()["computed"]:
            raise RuntimeError(f"the cache was not warm: {self.data.stats()}")
