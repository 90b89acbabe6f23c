"""A job of the soak: `python soak_job.py FOLDER`, with the number of its pipeline on standard input.

The number is told there since arguments and variables are part of the world that values are proven in. The
last line of output is what it did, JSON. A value that is another than it computes by itself is an error.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import default_rng

import prebake

#: Bytes of a value: of small ones, and of such as go across the daemon's blocks of 4 MiB.
SIZES = (3_000, 90_000, 700_000)


def value(path: str, number: int) -> Any:
    """Random bytes, others for each file and pipeline."""
    item = int(Path(path).read_text())
    size = SIZES[number % len(SIZES)]
    made = default_rng([number, item]).integers(0, 256, size, np.uint8)
    # Of every second pipeline they can be compressed.
    return made if number % 2 else made.astype(np.int64)[: size // 8]


@prebake.pure
def make(path: str, number: int) -> Any:
    """The step that is cached."""
    return value(path, number)


def main() -> None:
    """The command line."""
    paths = sorted(str(path) for path in Path(sys.argv[1]).glob("*.txt"))
    number = int(sys.stdin.readline())
    wrapped = prebake.wrap(paths, [functools.partial(make, number=number)])
    order = default_rng(number + len(paths)).permutation(len(paths))
    for i in order:
        got, wanted = wrapped[int(i)], value(paths[i], number)
        if got.dtype != wanted.dtype or not np.array_equal(got, wanted):
            sys.exit(f"WRONG: item {i} of pipeline {number}")
    print(json.dumps(wrapped.stats()))


if __name__ == "__main__":
    main()
