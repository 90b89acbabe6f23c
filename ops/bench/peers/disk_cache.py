"""diskcache: SQLite, and a file for each large value: a batch (`batches`) or an element (`items`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import diskcache
import numpy as np
from elements import BATCH
from work import Work

import peers

#: All must fit: its default is 1 GiB.
SIZE_LIMIT = 4 << 30


class Peer(peers.Peer):
    """Get, or make and set."""

    packages = ("diskcache", "numpy")

    def __init__(self, work: Work, place: Path, variant: str) -> None:
        super().__init__(work, place, variant)
        self.cache = diskcache.Cache(str(place / "diskcache"), size_limit=SIZE_LIMIT)

    def epoch(self, order: list[int] | None) -> Iterable[Any]:
        numbers = list(range(len(self.work.files))) if order is None else order
        for start in range(0, len(numbers), BATCH):
            batch = numbers[start : start + BATCH]
            yield (
                self.get(batch) if self.variant == "batches" else np.stack([self.get([i])[0] for i in batch])
            )

    def get(self, batch: list[int]) -> Any:
        """The elements of some inputs, under one key."""
        value = self.cache.get(tuple(batch))
        if value is None:
            value = np.stack([self.work.make(self.work.files[i]) for i in batch])
            self.cache.set(tuple(batch), value)
        return value
