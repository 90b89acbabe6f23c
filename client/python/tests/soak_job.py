"""A job of the soak: `python soak_job.py NUMBER FOLDER ROUNDS`.

Reads a data set in every way there is, writes to what it got, holds on to some of it, and checks every byte.
Each file holds a number whose remainder is its place, and each element is random bytes of that number. Job 0
edits files between its epochs and must see exactly what they hold then; the others must see some state of
each.
"""

from __future__ import annotations

import os
import random
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import prebake

#: 36 MB of elements: more than the least memory budget holds of blocks.
FILES = 240
ELEMENT_BYTES = 150_001
HELD_MAX = 3


def element(path: str) -> Any:
    """The number's random bytes, behind the number itself."""
    number = int(Path(path).read_text())
    made = np.random.default_rng(number).integers(0, 256, ELEMENT_BYTES, np.uint8)
    made[:8] = np.frombuffer(np.int64(number).tobytes(), np.uint8)
    return made


def text(number: int) -> bytes:
    """A file's content: always as long, so that one write replaces it."""
    return f"{number:012}".encode()


class Soak:
    def __init__(self, job: int, folder: Path) -> None:
        self.paths = [folder / f"{i:03}" for i in range(FILES)]
        self.exact = [int(path.read_text()) for path in self.paths] if job == 0 else None
        self.numbers = random.Random(job)
        self.dataset = prebake.wrap([str(path) for path in self.paths], [element])
        self.sums: dict[int, int] = {}
        self.held: list[Any] = []

    def round(self) -> None:
        """Some edits, an epoch or part of one, and some single elements."""
        if self.exact is not None:
            self.edit(self.exact)
        order = list(range(FILES))
        if self.numbers.random() < 0.5:
            self.numbers.shuffle(order)
        order = order[: self.numbers.choice([FILES, FILES, FILES // 3])]
        places = iter(order)
        for batch in self.dataset.batches(order, self.numbers.choice([7, 25, 50])):
            for got in batch:
                self.check(got, next(places))
            self.use(batch)
        for i in self.numbers.sample(range(FILES), 10):
            got = self.dataset[i]
            self.check(got, i)
            self.use(got)

    def edit(self, exact: list[int]) -> None:
        for i in self.numbers.sample(range(FILES), self.numbers.randint(0, 3)):
            exact[i] += FILES
            path = self.paths[i]
            if self.numbers.random() < 0.5:
                with path.open("r+b", buffering=0) as file:
                    file.write(text(exact[i]))
            else:
                new = path.with_suffix(".new")
                new.write_bytes(text(exact[i]))
                os.replace(new, path)

    def check(self, got: Any, i: int) -> None:
        number = int(np.frombuffer(got[:8].tobytes(), np.int64)[0])
        if number not in self.sums:
            made = np.random.default_rng(number).integers(0, 256, ELEMENT_BYTES, np.uint8)
            self.sums[number] = zlib.crc32(made[8:].tobytes())
        assert zlib.crc32(got[8:].tobytes()) == self.sums[number], f"item {i} is torn or was written to"
        assert number % FILES == i, f"item {i} is of file {number % FILES}"
        assert self.exact is None or number == self.exact[i], f"item {i} is {number}, not {self.exact[i]}"

    def use(self, got: Any) -> None:
        """What a job may do with its arrays."""
        if self.numbers.random() < 0.4:
            got[..., self.numbers.randrange(ELEMENT_BYTES)] ^= 255
        if self.numbers.random() < 0.1:
            got += 1
        if self.numbers.random() < 0.1:
            self.held.append(got)
        if len(self.held) > HELD_MAX:
            self.held.pop(self.numbers.randrange(HELD_MAX))


if __name__ == "__main__":
    soak = Soak(int(sys.argv[1]), Path(sys.argv[2]))
    for _ in range(int(sys.argv[3])):
        soak.round()
    print(soak.dataset.stats()["reused"])
