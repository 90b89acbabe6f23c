"""The values that every cache is given: known from their numbers, so that any process can judge them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

#: How many values a cache holds.
COUNT = 64
#: Bytes of a value. One in eight is large: diskcache gives values from 32 KiB on files of their own.
SIZE, LARGE_SIZE = 3_000, 40_000
#: Names the file that grows by a byte for each value that is made, in whichever process.
MADE = "DAMAGE_MADE"
#: Opened once: Prebake does not cache a function that is seen to open a file for writing.
_MADE_NOTE = os.open(os.environ.get(MADE, os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def value(number: int) -> Any:
    """Random bytes; those of the second half can be compressed."""
    size = LARGE_SIZE if number % 8 == 0 else SIZE
    made = np.random.default_rng([7, number]).integers(0, 256, size, np.uint8)
    return made if number < COUNT // 2 else np.repeat(made[: size // 8], 8)


def make(number: int) -> Any:
    """The work that a cache saves: the value, and a note that it was made."""
    os.write(_MADE_NOTE, b".")
    return value(number)


def inputs(place: Path) -> list[Path]:
    """A file for each value, which holds the number; they are written once and never damaged."""
    folder = place / "inputs"
    paths = [folder / f"{number:03}.txt" for number in range(COUNT)]
    if not folder.exists():
        folder.mkdir()
        for number, path in enumerate(paths):
            path.write_text(str(number))
    return paths


def judge(got: Sequence[Any]) -> tuple[str, str]:
    """`right` or `wrong`, and what is wrong. Fewer values than were stored are wrong too: nobody was told."""
    found = [(array.dtype.str, array.shape, array.tobytes()) for array in map(np.asarray, got)]
    wanted = [(array.dtype.str, array.shape, array.tobytes()) for array in map(value, range(COUNT))]
    if found == wanted:
        return "right", ""
    if sorted(found) == sorted(wanted):
        return "wrong", "all values, in another order"
    strange = sum(each not in wanted for each in found)
    return "wrong", f"{len(found)} values of {COUNT}, {strange} of which nobody stored"
