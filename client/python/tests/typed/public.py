"""What a user writes with all that is public: `make lint` checks it strictly, and nothing runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, assert_type

import numpy as np

import prebake
from prebake import Dataset, PrebakeWarning, Refused


class Words:
    """A data set that is asked for item i."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> str:
        return "word"


class Lines:
    """A data set that is iterated."""

    def __iter__(self) -> Iterator[bytes]:
        return iter([b""])


class Reader:
    @prebake.cached(inputs=["path"])
    def size(self, path: str, scale: float = 1.0) -> float:
        return len(path) * scale

    @prebake.random
    def shaken(self, x: int) -> int:
        return x

    @prebake.pure(tolerance=1e-6)
    def scaled(self, x: float, *, by: int = 2) -> float:
        return x * by


@prebake.pure
class Resized:
    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, x: str) -> str:
        return x


@prebake.cached
def counted(text: str, *, times: int = 1) -> dict[str, int]:
    return {text: times}


@prebake.cached(inputs=["folder", Path("words.txt")])
def vocabulary(folder: str, size: int) -> list[str]:
    return [folder] * size


@prebake.cached()
def numbers(count: int) -> Iterator[int]:
    yield count


@prebake.random
def flipped(image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return image[:, ::-1]


def data_sets(images: list[Path]) -> None:
    words = prebake.wrap(Words())
    assert_type(words, Dataset[str])
    assert_type(words[0], str)
    assert_type(words.__getitems__([0, 1]), list[str])
    assert_type(len(words), int)
    assert_type(words.knows, str)
    assert_type(prebake.wrap(Words(), prebake.split(1), path=False, reuse=2), Dataset[str])
    batches = words.batches(order=[1, 0], size=2, writable=False)
    assert_type(batches, Iterator[np.ndarray[Any, Any] | list[str]])
    assert_type(prebake.wrap(Lines(), inputs=["lines.txt"]), Lines)
    # What a list of transforms yields, no type says.
    files: Dataset[np.ndarray[Any, Any]] = prebake.wrap(
        images, [Path.read_bytes, Resized(2), prebake.split(1), flipped], root="images"
    )
    assert_type(files[0], np.ndarray[Any, Any])
    assert_type(prebake.wrap(Words(), inputs=lambda i: [f"{i}.txt"]), Dataset[str])


def functions(reader: Reader) -> None:
    assert_type(counted("a", times=2), dict[str, int])
    assert_type(vocabulary("texts", size=3), list[str])
    assert_type(list(numbers(3)), list[int])
    assert_type(reader.size("a", scale=2.0), float)
    assert_type(reader.shaken(1), int)
    assert_type(reader.scaled(1.0, by=3), float)
    assert_type(Resized(3).size, int)
    plain: Callable[[str, int], list[str]] = vocabulary
    assert_type(plain("texts", 1), list[str])


def mistakes(reader: Reader) -> None:
    # Each is an error, which is not reported where it is expected: the check warns of one that is none.
    counted(1)  # type: ignore[arg-type]
    counted("a", time=2)  # type: ignore[call-arg]
    vocabulary("texts")  # type: ignore[call-arg]
    reader.size(2)  # type: ignore[arg-type]
    prebake.register(Words, "sometimes")  # type: ignore[arg-type]
    prebake.wrap(3)  # type: ignore[call-overload]
    prebake.nothing  # type: ignore[attr-defined]  # noqa: B018


def others() -> str:
    prebake.register(Words, "deterministic")
    try:
        assert_type(prebake.fingerprint(counted), str)
    except Refused as refused:
        assert_type(refused.reason, str)
        return f"{refused.code}: {refused.reason}"
    assert_type(prebake.__version__, str)
    return PrebakeWarning.__name__


class Rows:
    """As `datasets.Dataset`."""

    def map(self, function: Callable[[dict[str, int]], dict[str, int]], batched: bool = False) -> Rows:
        return self


def shims() -> None:
    assert_type(prebake.hf.map(Rows(), counted, batched=True), Rows)
    assert_type(prebake.tf.cache()(Rows()), Rows)
    stage = prebake.wds.cached(decoded)
    assert_type(stage([1]), Iterator[str])


def decoded(samples: Iterable[Any]) -> Iterator[str]:
    return map(str, samples)
