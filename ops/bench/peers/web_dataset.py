"""webdataset: one tar file of elements' bytes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import webdataset
from elements import BATCH, SHAPE

import peers


class Peer(peers.Peer):
    """Read by a bare loop."""

    packages = ("webdataset", "numpy")

    def fill(self) -> None:
        with webdataset.TarWriter(str(self.place / "values.tar")) as tar:
            for i, path in enumerate(self.work.files):
                tar.write({"__key__": f"{i:06}", "value.bin": self.work.make(path).tobytes()})

    def epoch(self, order: list[int] | None) -> Iterable[Any]:
        data = webdataset.WebDataset(str(self.place / "values.tar"), shardshuffle=False)
        values = (np.frombuffer(sample["value.bin"], np.uint8).reshape(SHAPE) for sample in data)
        while batch := list(itertools.islice(values, BATCH)):
            yield np.stack(batch)
