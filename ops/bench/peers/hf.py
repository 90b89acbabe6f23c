"""Hugging Face `datasets.map`, whose cache file later jobs map.

`bytes` keeps elements as binary and views Arrow's buffer, the fastest way there is; `array` is what its pages
show, an Array3D read in NumPy's format.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from elements import BATCH, SHAPE
from work import Work

import peers

datasets.disable_progress_bars()


class Peer(peers.Peer):
    """A data set of paths, mapped by batches."""

    packages = ("datasets", "pyarrow", "numpy")

    def __init__(self, work: Work, place: Path, variant: str) -> None:
        super().__init__(work, place, variant)
        paths = place / "paths.csv"
        if not paths.exists():
            paths.write_text("\n".join(["path", *work.files]))
        data = datasets.load_dataset("csv", data_files=str(paths), split="train", cache_dir=str(place / "hf"))
        make = work.make
        if variant == "array":
            features = datasets.Features(
                {"path": datasets.Value("string"), "value": datasets.Array3D(SHAPE, "uint8")}
            )
            data = data.map(
                lambda rows: {"value": np.stack([make(path) for path in rows["path"]])},
                batched=True,
                batch_size=BATCH,
                writer_batch_size=BATCH,
                features=features,
            ).with_format("numpy", dtype=np.uint8)
        else:
            data = data.map(
                lambda rows: {"value": [make(path).tobytes() for path in rows["path"]]},
                batched=True,
                batch_size=BATCH,
                writer_batch_size=BATCH,
            ).with_format("arrow")
        self.data = data.select_columns(["value"])

    def epoch(self, order: list[int] | None) -> Iterable[Any]:
        for start in range(0, len(self.data), BATCH):
            rows = (
                self.data[start : start + BATCH] if order is None else self.data[order[start : start + BATCH]]
            )
            yield rows["value"] if self.variant == "array" else _viewed(rows.column("value"))


def _viewed(column: Any) -> Any:
    values = column.combine_chunks()
    values = values.chunk(0) if hasattr(values, "num_chunks") else values
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    return np.frombuffer(values.buffers()[2], np.uint8)[offsets[0] : offsets[-1]].reshape(-1, *SHAPE)
