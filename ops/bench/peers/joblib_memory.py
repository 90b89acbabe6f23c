"""joblib.Memory, whose arrays later jobs map. `batches` has a key for a batch, `items` for an element."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from elements import BATCH
from work import Work

import peers

#: Found by `many`, whose arguments are the key.
_work: Work


def many(paths: list[str]) -> Any:
    """The elements of some inputs."""
    return np.stack([_work.make(path) for path in paths])


class Peer(peers.Peer):
    """A memoized function."""

    packages = ("joblib", "numpy")

    def __init__(self, work: Work, place: Path, variant: str) -> None:
        super().__init__(work, place, variant)
        global _work
        _work = work
        self.many = joblib.Memory(str(place / "joblib"), mmap_mode="r", verbose=0).cache(many)

    def epoch(self, order: list[int] | None) -> Iterable[Any]:
        files = self.work.files if order is None else [self.work.files[i] for i in order]
        for start in range(0, len(files), BATCH):
            batch = files[start : start + BATCH]
            if self.variant == "batches":
                yield self.many(batch)
            else:
                yield np.stack([self.many([path])[0] for path in batch])
