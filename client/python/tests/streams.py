"""Data sets that are iterated, as people write them, for test_streams.py and its second processes."""

from __future__ import annotations

import json
import os
import random
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import prebake


def note(what: str) -> None:
    """One byte for each, of any process but a probe's."""
    if "PREBAKE_PROBE" not in os.environ:
        file = os.open(os.environ[what], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, b".")
        os.close(file)


@prebake.pure
def numbers(path: str) -> list[int]:
    """A text's characters. Reached so that the bookkeeping is no part of the fingerprint."""
    sys.modules[__name__].note("PREBAKE_TEST_READS")
    with open(path) as file:
        return [ord(each) for each in file.read()]


@prebake.cached(inputs=["path"])
@prebake.pure
def tokens(path: str) -> list[int]:
    return numbers(path)


class Packed:
    """Rows of one length, out of texts that are laid end to end: what is left of one begins the next."""

    def __init__(self, files: list[str], length: int) -> None:
        self.files = files
        self.length = length

    def read(self, path: str) -> list[int]:
        return numbers(path)

    def __iter__(self) -> Iterator[Any]:
        rest: list[int] = []
        for path in self.files:
            rest += self.read(path)
            while len(rest) >= self.length:
                yield np.array(rest[: self.length])
                del rest[: self.length]
        if rest:
            yield np.array(rest)


class PackedTokens(Packed):
    def read(self, path: str) -> list[int]:
        return tokens(path)


class Shuffled(Packed):
    """Through a buffer, drawing from the process's generator where the code does not show it."""

    def __iter__(self) -> Iterator[Any]:
        draw = _DRAWS["draw"]
        buffer: list[Any] = []
        for row in super().__iter__():
            buffer.append(row)
            if len(buffer) > 4:
                yield buffer.pop(draw(len(buffer)))
        yield from buffer


class Late(Packed):
    """Draws, but not at its beginning."""

    def __iter__(self) -> Iterator[Any]:
        for i, row in enumerate(super().__iter__()):
            yield row + (_DRAWS["draw"](9) if i > 50 else 0)


@prebake.pure
def draw(below: int) -> int:
    return random.randrange(below)


_DRAWS = {"draw": draw}


class Reused(Packed):
    """Yields one array over and over."""

    def __iter__(self) -> Iterator[Any]:
        row = np.zeros(2)
        for path in self.files:
            row += len(self.read(path))
            yield row


class Counting(Packed):
    """Remembers how often it was gone through, and yields that."""

    epoch = 0

    def __iter__(self) -> Iterator[Any]:
        self.epoch += 1
        for path in self.files:
            yield np.array([self.epoch, *self.read(path)])


class Sorting(Packed):
    """Changes the list that it goes through."""

    def __iter__(self) -> Iterator[Any]:
        self.files.sort(reverse=True)
        yield from super().__iter__()


class Growing(Packed):
    """Adds to the list that it goes through."""

    def __iter__(self) -> Iterator[Any]:
        for path in self.files:
            if len(self.files) < 30:
                self.files.append(self.files[0])
            yield np.array(self.read(path))


class Failing(Packed):
    def __iter__(self) -> Iterator[Any]:
        for i, row in enumerate(super().__iter__()):
            if i == 20:
                raise KeyError("twenty")
            yield row


class Listing(Packed):
    """Goes through a folder."""

    def __iter__(self) -> Iterator[Any]:
        for path in sorted(Path(self.files[0]).parent.iterdir()):
            yield np.array(self.read(str(path)))


class Over:
    """Takes from another."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Any]:
        for row in self.rows:
            yield row * 2


@prebake.cached(inputs=["files"])
def packed(files: list[str], length: int) -> Iterator[Any]:
    yield from Packed(files, length)


KINDS: dict[str, Any] = {
    each.__name__: each
    for each in (Packed, PackedTokens, Shuffled, Late, Reused, Counting, Sorting, Growing, Failing, Listing)
}


def taken(data: Any, write: bool) -> list[Any]:
    """Elements as they are when they are given, with what the job draws in between; and how it ended."""
    found: list[Any] = []
    try:
        for element in data:
            found.append([element.tolist(), random.random()])
            element += write
    except KeyError as error:
        found.append(str(error))
    return found


def main() -> None:
    """A job by its task (JSON): prints what it saw in two epochs, and what was said."""
    task = json.loads(os.environ["PREBAKE_TEST_TASK"])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if task["kind"] == "packed":
            make: Any = lambda: packed(list(task["files"]), 16)  # noqa: E731
        else:
            data = KINDS[task["kind"]](list(task["files"]), 16)
            data = prebake.wrap(data) if task["wrapped"] else data
            make = lambda: data  # noqa: E731
        random.seed(3)
        found = [taken(make(), write=task["kind"] != "Reused") for _ in range(2)]
        found.append(random.random())
    print(json.dumps({"found": found, "said": [str(each.message) for each in said]}))
