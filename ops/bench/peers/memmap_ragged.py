"""What a user writes for ragged elements: all values in one mapped file, and where each begins in another."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from elements import BATCH
from work import Work

import peers


class Peer(peers.Peer):
    """A batch is a list of views."""

    def __init__(self, work: Work, place: Path, variant: str) -> None:
        super().__init__(work, place, variant)
        if (place / "offsets.npy").exists():
            # A plain view: slices of a memmap object take several times as long.
            self.values = np.asarray(np.load(place / "values.npy", mmap_mode="r"))
            self.offsets = np.load(place / "offsets.npy").tolist()

    def fill(self) -> None:
        made = [self.work.make(path) for path in self.work.files]
        np.save(self.place / "values.npy", np.concatenate(made))
        np.save(self.place / "offsets.npy", np.cumsum([0, *map(len, made)]))

    def epoch(self, order: list[int] | None) -> Iterable[Any]:
        numbers = list(range(len(self.work.files))) if order is None else order
        values, offsets = self.values, self.offsets
        for start in range(0, len(numbers), BATCH):
            yield [values[offsets[i] : offsets[i + 1]] for i in numbers[start : start + BATCH]]
