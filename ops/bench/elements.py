"""What the warm rows read: elements of random bytes, made of small files, and one file of the same bytes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import default_rng

SHAPE = (224, 224, 3)
BATCH = 50
#: The file that `numpy.memmap` reads.
VALUES = "values.bin"


def element(path: str) -> Any:
    """Random bytes, the same for the same file."""
    seed = int(Path(path).read_text())
    return default_rng(seed).integers(0, 256, SHAPE, np.uint8)


def make_files(folder: Path, count: int) -> None:
    """The inputs."""
    folder.mkdir()
    for i in range(count):
        (folder / f"{i:05}.txt").write_text(str(i))


def files(folder: Path) -> list[str]:
    """The inputs, in order."""
    return sorted(str(path) for path in folder.glob("*.txt"))


def mapped(folder: Path) -> Any:
    """All elements, from the one file."""
    return np.memmap(folder / VALUES, np.uint8, "r").reshape(-1, *SHAPE)


def touch(batches: Iterable[Any]) -> int:
    """Reads every byte: the sum of all 8-byte words, which no order and no batch size changes."""
    total = 0
    for batch in batches:
        total += int(batch.reshape(-1).view(np.uint64).sum())
    return total % 2**64
