"""torch's DataLoader over a data set that makes each element anew; the variant is its number of workers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from elements import BATCH
from torch.utils.data import DataLoader
from work import Work

import peers

torch.set_num_threads(1)


class Made:
    """A data set as people write it."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __len__(self) -> int:
        return len(self._work.files)

    def __getitem__(self, i: int) -> Any:
        return torch.from_numpy(self._work.make(self._work.files[i]))


class Peer(peers.Peer):
    """In order or shuffled by the loader."""

    packages = ("torch", "numpy")

    def __init__(self, work: Work, place: Path, variant: str) -> None:
        super().__init__(work, place, variant)
        self.order: list[int] = list(range(len(work.files)))
        workers = int(variant)
        self.loader = DataLoader(
            self.data(),
            batch_size=BATCH,
            sampler=self.order,
            num_workers=workers,
            persistent_workers=workers > 0,
        )

    def data(self) -> Any:
        """What is loaded from."""
        return Made(self.work)

    def epoch(self, order: list[int] | None) -> Iterable[Any]:
        self.order[:] = range(len(self.order)) if order is None else order
        return (batch.numpy() for batch in self.loader)
