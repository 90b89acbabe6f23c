"""The steps of pipelines. Each depends on something else than its arguments, which an edit may change."""

from __future__ import annotations

import dataclasses
import functools
import os
import random
from collections.abc import Callable, Sequence
from typing import Any

import helper
import numpy as np
import settings
from PIL import Image

#: Behind a global: a number, a small array, an object, and a table with parts of all depths.
FACTOR = 1
THRESHOLDS = np.full(3, 7)
CONFIG: Any = {
    "scale": 2.0,
    "table": np.arange(256, dtype=np.uint8),
    "deep": {"a": [1, 2, {"b": 3}]},
}
#: What a closure captures.
CELL = {"v": 1}


class Constants:
    size = 40
    gamma = 1.0


@dataclasses.dataclass
class Options:
    a: int = 1
    b: tuple[int, ...] = (1, 2)


OPTIONS = Options()


class Called:
    """A step whose work and whose constant are inherited."""

    factor = 3

    def __call__(self, x: Any) -> Any:
        return self.f(np.asarray(x))

    def f(self, a: Any) -> Any:
        raise NotImplementedError


class Holding(Called):
    """Holds one of each: a number, a long table, an array, an object, nested containers."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.table = list(range(300))
        self.array = np.arange(5.0)
        self.options = Options()
        self.nested = {"x": {"y": [1, 2]}}

    def f(self, a: Any) -> Any:
        held = self.n + self.table[7] + self.array[2] + self.options.a + self.nested["x"]["y"][1]
        return a.astype(np.float32) * self.factor + held + helper.BIAS + Constants.gamma * CONFIG["scale"]


class WithProperty(Called):
    def __init__(self) -> None:
        self._v = 3

    @property
    def v(self) -> int:
        return self._v + settings.NUM

    def f(self, a: Any) -> Any:
        return a + self.v


class WithSlots:
    __slots__ = ("q",)

    def __init__(self) -> None:
        self.q = 5

    def __call__(self, x: Any) -> Any:
        return np.asarray(x) * 1.0 + self.q


class Bound:
    """Its method is a step, and is called by another."""

    def __init__(self) -> None:
        self.c = 1

    def go(self, x: Any) -> Any:
        return np.asarray(x) + self.c + settings.NUM


BOUND = Bound()


class PythonNoise:
    def __call__(self, x: Any) -> Any:
        return x + random.random()


class NumpyNoise:
    def __call__(self, x: Any) -> Any:
        return np.asarray(x, dtype=np.float32) + np.random.rand()


def look_up(x: Any) -> Any:
    return Image.fromarray(CONFIG["table"][np.asarray(x)])


def call_helper(x: Any) -> Any:
    return helper.shift(x)


def shrink(x: Any) -> Any:
    return x.resize((20, 18))


def to_array(x: Any) -> Any:
    return np.ascontiguousarray(np.asarray(x))


def add_nested(x: Any) -> Any:
    return np.asarray(x) + CONFIG["deep"]["a"][2]["b"]


def scale_by_global(x: Any) -> Any:
    return np.asarray(x) * FACTOR + THRESHOLDS[0]


def add_option(x: Any) -> Any:
    return np.asarray(x) + OPTIONS.a


def add_chained(x: Any) -> Any:
    return np.asarray(x) + settings.inner.VALUE


def add_variable(x: Any) -> Any:
    return np.asarray(x) + int(os.environ.get("FUZZ_OFFSET", "0"))


def call_inner(x: Any) -> Any:
    def inner(y: Any) -> Any:
        return y + helper.BIAS

    return inner(np.asarray(x))


def add_constant(x: Any) -> Any:
    return np.asarray(x) + Constants.size


def call_bound(x: Any) -> Any:
    return BOUND.go(x)


@functools.cache
def remembered() -> int:
    return settings.NUM * 2


def add_remembered(x: Any) -> Any:
    return np.asarray(x) + remembered()


def add_default(x: Any, *, offsets: list[int] = [1, 2]) -> Any:  # noqa: B006
    return np.asarray(x) + offsets[0]


def closure(cell: dict[str, int]) -> Callable[[Any], Any]:
    def add_cell(x: Any) -> Any:
        return np.asarray(x) + cell["v"]

    return add_cell


class Compose:
    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, x: Any) -> Any:
        for step in self.transforms:
            x = step(x)
        return x
