"""Hugging Face `datasets`: a CSV is loaded and mapped, and both are found again in its cache folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import numpy as np
from values import COUNT, make

PACKAGES = ("datasets", "pyarrow", "numpy")
#: Rows that it holds before it writes them: by its default all of them, and no kill would find it writing.
ROWS = 8

datasets.disable_progress_bars()


def _element(row: dict[str, Any]) -> dict[str, Any]:
    return {"value": make(row["number"])}


def store(place: Path) -> None:
    """Maps all."""
    _mapped(place)


def read(place: Path) -> list[Any]:
    """Maps again, and reads the rows as NumPy's arrays."""
    data = _mapped(place).with_format("numpy", dtype=np.uint8)
    return [row["value"] for row in data.select_columns(["value"])]


def _mapped(place: Path) -> Any:
    table = place / "inputs" / "numbers.csv"
    if not table.exists():
        table.write_text("\n".join(["number", *map(str, range(COUNT))]))
    data = datasets.load_dataset("csv", data_files=str(table), split="train", cache_dir=str(place / "cache"))
    features = datasets.Features(
        {"number": datasets.Value("int64"), "value": datasets.List(datasets.Value("uint8"))}
    )
    return data.map(_element, features=features, writer_batch_size=ROWS)
