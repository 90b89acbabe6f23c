"""Values made of drawn bytes: of each kind that can be stored, inside each other."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from PIL import Image

DEPTH_MAX = 4
MEMBERS_MAX = 6
DTYPES = [
    "|u1",
    "|i1",
    "|b1",
    "<i2",
    ">i4",
    "<u8",
    "<f2",
    "<f4",
    ">f8",
    "<c16",
    "<M8[ns]",
    "<m8[s]",
    "|S3",
    "<U2",
    "|V5",
]
RECORD = np.dtype([("a", "<i4"), ("b", ">f8", (2,))])


class Colour(enum.Enum):
    """An enumeration of the user's."""

    RED = 1
    BLUE = "b"


class Pair(NamedTuple):
    """A named tuple of the user's."""

    left: Any
    right: Any


@dataclasses.dataclass
class Sample:
    """A dataclass of the user's."""

    image: Any
    label: Any = None


class _Slotted:
    __slots__ = ("inner",)


@dataclasses.dataclass
class Slots(_Slotted):
    """One with a field in a slot."""

    __slots__ = ("outer",)
    outer: Any


class Draw:
    """Takes bytes for choices; zeros once there are no more."""

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)

    def taken(self, count: int) -> bytes:
        """So many bytes."""
        found, self.data = bytes(self.data[:count]), self.data[count:]
        return found.ljust(count, b"\0")

    def below(self, bound: int) -> int:
        """A number."""
        return int.from_bytes(self.taken(2), "little") % bound

    def text(self) -> str:
        """A text, with halves of letters in it."""
        return self.taken(self.below(20)).decode("utf-8", "surrogateescape")

    def value(self, depth: int = 0) -> Any:
        """A value, of values while it is not too deep."""
        kinds = [*_LEAVES, *(_NODES if depth < DEPTH_MAX else ())]
        return kinds[self.below(len(kinds))](self, depth)

    def members(self, depth: int) -> list[Any]:
        """Some values."""
        return [self.value(depth + 1) for _ in range(self.below(MEMBERS_MAX))]

    def shape(self) -> tuple[int, ...]:
        """Of an array."""
        return tuple(self.below(5) for _ in range(self.below(4)))


def _int(draw: Draw, depth: int) -> int:
    return int.from_bytes(draw.taken(draw.below(12)), "little", signed=True)


def _float(draw: Draw, depth: int) -> float:
    return (math.nan, math.inf, float(np.frombuffer(draw.taken(8), "<f8")[0]))[draw.below(3)]


def _array(draw: Draw, depth: int) -> Any:
    shape, which = draw.shape(), draw.below(len(DTYPES) + 1)
    dtype = RECORD if which == len(DTYPES) else np.dtype(DTYPES[which])
    raw = bytearray(draw.taken(dtype.itemsize * math.prod(shape)))
    if dtype.kind == "b":
        raw = bytearray(each & 1 for each in raw)
    array = np.ndarray(shape, dtype, raw)
    how = draw.below(5)
    if how == 1 and 1 not in shape:
        # Where there is one, it does not matter how far the next would be.
        array = array.T
    elif how == 2 and array.ndim:
        array = array[::-2]
    elif how == 3:
        array.flags.writeable = False
    return array


def _scalar(draw: Draw, depth: int) -> Any:
    return np.frombuffer(draw.taken(8), "<i8").astype(("<i8", "<f4", "<u2")[draw.below(3)])[0]


def _image(draw: Draw, depth: int) -> Any:
    mode, size = ("L", "RGB", "RGBA", "1", "F")[draw.below(5)], (1 + draw.below(9), 1 + draw.below(9))
    image = Image.new(mode, size)
    image.info = {draw.text().encode(errors="replace").decode(): draw.below(9)}
    return image


def _packed(draw: Draw, depth: int) -> list[Any]:
    of = (_int, lambda draw, depth: draw.text(), _scalar_float)[draw.below(3)]
    return [of(draw, depth) for _ in range(4 + draw.below(4))]


def _scalar_float(draw: Draw, depth: int) -> float:
    return draw.below(1 << 16) / 3


def _dict(draw: Draw, depth: int) -> dict[Any, Any]:
    keys = (None, True, Colour.RED, "text", draw.below(99), "\u00e9")
    return {keys[draw.below(len(keys))]: draw.value(depth + 1) for _ in range(draw.below(MEMBERS_MAX))}


def _slots(draw: Draw, depth: int) -> Slots:
    made = Slots(draw.value(depth + 1))
    made.inner = draw.value(depth + 1)
    return made


def _frame(draw: Draw, depth: int) -> Any:
    rows = draw.below(5)
    frame = pd.DataFrame({"i": np.arange(rows), "t": [draw.text().encode(errors="replace").decode()] * rows})
    frame["when"] = pd.Timestamp("2020-01-01", tz="Europe/Paris")
    frame["kind"] = pd.Categorical(["ab"[i % 2] for i in range(rows)])
    return (frame, frame["i"].copy(), frame.index.copy())[draw.below(3)]


def _other_table(draw: Draw, depth: int) -> Any:
    numbers = [draw.below(99) for _ in range(draw.below(5))]
    return (pl.DataFrame({"a": numbers}), pa.table({"a": numbers}), pa.array(numbers, pa.int64()))[
        draw.below(3)
    ]


_LEAVES = (
    lambda draw, depth: None,
    lambda draw, depth: draw.below(2) == 1,
    lambda draw, depth: draw.taken(draw.below(70)),
    lambda draw, depth: draw.text(),
    lambda draw, depth: (Colour.RED, Colour.BLUE)[draw.below(2)],
    *(_int, _float, _array, _scalar, _image, _packed),
)
_NODES = (
    lambda draw, depth: draw.members(depth),
    lambda draw, depth: tuple(draw.members(depth)),
    lambda draw, depth: Pair(draw.value(depth + 1), draw.value(depth + 1)),
    lambda draw, depth: Sample(draw.value(depth + 1), draw.value(depth + 1)),
    *(_dict, _slots, _frame, _other_table),
)
