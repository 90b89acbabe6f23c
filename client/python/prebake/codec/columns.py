"""Memory of arrays: where it lies, and arrays with gaps as bytes."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from prebake.runtime.errors import Code, Refused

#: Memory with gaps is stored with them, up to so many times what it holds.
GAPS_MAX = 4
#: Rows of an array whose gaps are told apart; all from the first byte of a longer one to its last is its own.
ROWS_MAX = 1024

#: An address, and bytes from there.
Memory = tuple[int, int]


def spans(array: Any) -> list[Memory]:
    """Where an array lies, without the gaps between its rows."""
    start, length = _extent(array)
    outer = max(range(array.ndim), key=lambda axis: abs(array.strides[axis]), default=0)
    if not has_gaps(array) or array.shape[outer] > ROWS_MAX:
        return [(start, length)]
    step, rows = abs(array.strides[outer]), array.shape[outer]
    row = length - step * (rows - 1)
    return [(start + step * i, row) for i in range(rows)] if row <= step else [(start, length)]


def merged(ranges: Iterable[Memory]) -> Iterator[Memory]:
    """The same memory, without overlaps."""
    start = end = 0
    for at, length in sorted(ranges):
        if at > end:
            yield start, end - start
            start = at
        end = max(end, at + length)
    yield start, end - start


def has_gaps(array: Any) -> bool:
    """Whether an array is no copy of what lies at its address."""
    return not (array.flags.c_contiguous or array.flags.f_contiguous)


def packed(array: Any) -> tuple[Any, ...]:
    """An array as its memory and what `unpacked` needs beside. Raises `Refused`."""
    numpy = sys.modules["numpy"]
    start, extent = _extent(array)
    if 0 in array.strides and has_gaps(array) or extent > max(GAPS_MAX * array.nbytes, array.itemsize):
        raise Refused(Code.VALUE, "an array with such gaps cannot be stored exactly; use copy()")
    memory = numpy.zeros(extent, numpy.uint8)
    how = (array.dtype, array.shape, array.__array_interface__["data"][0] - start, array.strides)
    unpacked(memory, *how, True)[...] = array
    return pickle.PickleBuffer(memory), *how, array.flags.writeable


def unpacked(
    memory: Any, dtype: Any, shape: tuple[int, ...], at: int, strides: tuple[int, ...], writeable: bool
) -> Any:
    """The array over its memory. Raises `Refused` if its bytes would be taken for addresses of objects."""
    import numpy

    if dtype.hasobject:
        raise Refused(Code.VALUE, f"an array of type {dtype} is not its bytes")

    array = numpy.ndarray(shape, dtype, memory, at, strides)
    array.flags.writeable = writeable
    return array


def _extent(array: Any) -> Memory:
    """From its first byte to its last."""
    if not array.size:
        return array.__array_interface__["data"][0], 0
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    start = array.__array_interface__["data"][0] + sum(each for each in reach if each < 0)
    return start, sum(map(abs, reach)) + array.itemsize
