"""A job of the mix: `python jobs.py KIND FOLDER` runs one pipeline over every file of a folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

import prebake


def read(path: str) -> bytes:
    return Path(path).read_bytes()


def histogram(text: bytes) -> np.ndarray:
    """Enough work to be worth sharing: some milliseconds for each file."""
    counts = np.zeros(256, np.int64)
    for _ in range(20):
        for byte in text:
            counts[byte] += 1
    return counts


def spread(text: bytes, size: int) -> np.ndarray:
    """So many bytes of little cost, of which LZ4 makes no fewer."""
    numbers = np.arange(size // 8, dtype=np.uint64) + np.uint64(int.from_bytes(text[:4], "little"))
    return (numbers * numbers * np.uint64(0x9E3779B97F4A7C15)).view(np.uint8)


def cheap(text: bytes) -> np.ndarray:
    """1 MiB at no cost: the first to go."""
    return spread(text, 1 << 20)


def dear(text: bytes) -> np.ndarray:
    """1 MiB that is worth keeping."""
    return spread(histogram(text).tobytes() + text, 1 << 20)


def inflate(text: bytes) -> np.ndarray:
    """32 MiB: more than the test's whole SSD tier."""
    return spread(text, 32 << 20)


@prebake.pure
def drifting(text: bytes) -> int:
    """Reads what its user vouched it would not: it does not reproduce."""
    return len(text) + sys.modules["__main__"].drift()


def drift() -> int:
    return int(os.environ["PREBAKE_TEST_DRIFT"])


PIPELINES = {
    "drifting": [read, drifting],
    "share": [read, histogram],
    "cheap": [read, cheap],
    "dear": [read, dear],
    "large": [read, inflate],
}


def main() -> None:
    kind, folder = sys.argv[1:]
    files = sorted(str(path) for path in Path(folder).iterdir())
    wrapped = prebake.wrap(files, PIPELINES[kind])
    for _ in wrapped.batches(size=5):
        pass
    print(wrapped.stats())


if __name__ == "__main__":
    main()
