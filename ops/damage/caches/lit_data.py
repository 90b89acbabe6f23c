"""litdata: chunks that `optimize` writes, read by its own data set. It is no cache that fills itself: what is
missing is for its user to make again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import litdata
import torch
from values import COUNT, make

PACKAGES = ("litdata", "torch", "numpy")
CHUNK_BYTES = "64KB"

torch.set_num_threads(1)


def _element(number: int) -> dict[str, Any]:
    return {"number": number, "value": make(number)}


def store(place: Path) -> None:
    """Writes all chunks."""
    # It gathers chunks here before it moves them: else in a folder that all its users share.
    os.environ["DATA_OPTIMIZER_CACHE_FOLDER"] = str(place / "gathered")
    os.environ["DATA_OPTIMIZER_DATA_CACHE_FOLDER"] = str(place / "gathered-data")
    litdata.optimize(
        fn=_element,
        inputs=list(range(COUNT)),
        output_dir=str(place / "cache"),
        chunk_bytes=CHUNK_BYTES,
        num_workers=1,
        # A worker that is not forked imports torch anew, which takes most of the time.
        start_method="fork",
    )


def read(place: Path) -> list[Any]:
    """Reads them in order."""
    return [element["value"] for element in litdata.StreamingDataset(str(place / "cache"))]
