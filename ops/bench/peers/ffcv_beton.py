"""FFCV: its file of elements as they are, read by its own loader (one thread)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from elements import BATCH, SHAPE
from ffcv.fields import NDArrayField
from ffcv.fields.decoders import NDArrayDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.writer import DatasetWriter
from work import Work

import peers


class Tuples:
    """It stores tuples."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __len__(self) -> int:
        return len(self._work.files)

    def __getitem__(self, i: int) -> Any:
        return (self._work.make(self._work.files[i]),)


class Peer(peers.Peer):
    """All of it stays in the page cache."""

    packages = ("ffcv", "numba", "torch", "numpy")

    def __init__(self, work: Work, place: Path, variant: str) -> None:
        super().__init__(work, place, variant)
        self.loader: Any = None

    def fill(self) -> None:
        field = NDArrayField(np.dtype(np.uint8), SHAPE)
        writer = DatasetWriter(str(self.place / "values.beton"), {"value": field}, num_workers=1)
        writer.from_indexed_dataset(Tuples(self.work))

    def epoch(self, order: list[int] | None) -> Iterable[Any]:
        if self.loader is None:
            self.loader = Loader(
                str(self.place / "values.beton"),
                batch_size=BATCH,
                num_workers=1,
                order=OrderOption.SEQUENTIAL,
                os_cache=True,
                pipelines={"value": [NDArrayDecoder()]},
            )
        return (values.numpy() if hasattr(values, "numpy") else values for (values,) in self.loader)
