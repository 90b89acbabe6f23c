"""How a value becomes an element's bytes, and back, exactly.

A value is its layout (JSON: types, shapes, lengths) and its leaves' bytes in order, each leaf on a 64-byte
boundary of the element. What would not come back as the same type with the same content is refused. Values of
NumPy, PyTorch and Pillow are known without importing them: whoever holds one has imported its package.
"""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from prebake.codec import dtypes
from prebake.codec.reader import Reading
from prebake.codec.writer import TENSOR_DTYPES, Node, Writer
from prebake.runtime.errors import Code, Refused

#: Decoders kept, by layout. A pipeline has few layouts unless its shapes vary.
DECODERS_MAX = 4096

#: What the layout of a lone array or tensor says.
_PLAIN = {"kind", "dtype", "shape"}
#: Type and shape.
Form = tuple[Any, tuple[int, ...]]


class Encoded(NamedTuple):
    """A value as an element: layout, and buffers to be laid side by side."""

    layout: str
    parts: list[Any]


def encode(value: Any) -> Encoded:
    """A value's layout and bytes; the bytes are the value's own where possible. Raises `Refused`."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(value) is numpy.ndarray and value.flags.carray:
        return Encoded(_array_layout(value.dtype, value.shape), [dtypes.bytes_of(value)])
    writer = Writer()
    return Encoded(_text(writer.whole(value)), writer.parts)


def decode(layout: str, view: Any) -> Any:
    """The value of an element. Arrays and tensors lie in the view's memory; all else is copied. Raises
    `Refused`, and nothing else, if it cannot be read here."""
    try:
        read, length = _decoder(layout)
        if len(view) != length:
            raise Refused(Code.VALUE, f"an element of {len(view)} bytes is not one of {length}")
        return read(view)
    except Refused:
        raise
    except Exception as error:
        # Its class may not be there, a package may be another one, or it is nothing that was ever written.
        why = f"{type(error).__name__}: {error}"
        raise Refused(Code.VALUE, f"a stored value cannot be read: {why}") from error


def copied(value: Any) -> Any:
    """An equal value that shares nothing with it. Raises `Refused` if it cannot be an element."""
    layout, parts = encode(value)
    return decode(layout, bytearray(b"".join(parts)))


def decode_batch(view: Any, layout: str, count: int) -> Any:
    """Elements side by side as one array; None if they are not lone C-ordered arrays, or if stacking them
    would change their type (NumPy makes byte orders native, for one)."""
    form = stacked_form(layout)
    if form is None or not _fill(view, form, count):
        return None
    dtype, shape = form
    return sys.modules["numpy"].ndarray((count, *shape), dtype, view)


def _fill(view: Any, form: Form, count: int) -> bool:
    """Whether so many elements are as much as there is."""
    dtype, shape = form
    return len(view) == count * dtype.itemsize * math.prod(shape)


def array_form(layout: str) -> Form | None:
    """Type and shape of elements of this layout, if they are lone C-ordered arrays."""
    node = _described(layout)
    return _form(node) if node.keys() == _PLAIN and node["kind"] == "ndarray" else None


def _form(node: dict[str, Any]) -> Form | None:
    """Type and shape of an array; None if they are none that was ever written."""
    try:
        dtype = dtypes.dtype_of(node["dtype"])
    except Exception:
        # NumPy raises errors of many types.
        return None
    return (dtype, tuple(node["shape"])) if _is_shape(node["shape"]) else None


def _is_shape(shape: Any) -> bool:
    return type(shape) is list and all(type(each) is int and each >= 0 for each in shape)


def decode_tensors(view: Any, layout: str, count: int) -> Any:
    """Elements side by side as the one tensor that torch's `default_collate` makes of them; None if they are
    neither lone C-ordered arrays nor lone contiguous tensors, or of a type that torch has not."""
    if not has_tensors(layout):
        return None
    import torch

    # Not by functions that put it on another device by default: what came from a worker is on the CPU.
    plain = _plain_tensor(layout)
    if plain is None:
        array = decode_batch(view, layout, count)
        return None if array is None else torch.from_numpy(array)
    if not _fill(view, plain, count):
        return None
    dtype, shape = plain
    memory = sys.modules["numpy"].ndarray(len(view), "u1", view)
    return torch.from_numpy(memory).view(dtype).reshape(count, *shape)


@functools.lru_cache(maxsize=DECODERS_MAX)
def has_tensors(layout: str) -> bool:
    """Whether `decode_tensors` makes one of elements of this layout."""
    plain = stacked_form(layout)
    if plain is None:
        return _plain_tensor(layout) is not None
    import torch

    try:
        torch.from_numpy(sys.modules["numpy"].empty(0, plain[0]))
    except TypeError:
        return False
    return True


@functools.lru_cache(maxsize=DECODERS_MAX)
def stacked_form(layout: str) -> Form | None:
    """Type and shape of each element, if those of this layout make one array as they lie side by side."""
    node = _described(layout)
    form = _form(node) if node.get("kind") == "ndarray" and node.keys() - {"fixed"} == _PLAIN else None
    if form is None:
        return None
    dtype = form[0]
    stacked = sys.modules["numpy"].promote_types(dtype, dtype)
    if stacked != dtype or stacked.isalignedstruct != dtype.isalignedstruct:
        return None
    return form


@functools.lru_cache(maxsize=DECODERS_MAX)
def _plain_tensor(layout: str) -> Form | None:
    node = _described(layout)
    if node.keys() != _PLAIN or node["kind"] != "tensor" or not _is_shape(node["shape"]):
        return None
    if node["dtype"] not in [*TENSOR_DTYPES] or 0 in node["shape"]:
        return None
    return getattr(sys.modules["torch"], node["dtype"]), tuple(node["shape"])


@functools.lru_cache(maxsize=DECODERS_MAX)
def _decoder(layout: str) -> tuple[Callable[[Any], Any], int]:
    """A function from an element's memory to its value, and how many bytes that memory has."""
    reading = Reading()
    return reading.reader(json.loads(layout)), reading.length


def _described(layout: str) -> dict[str, Any]:
    """What a layout says; nothing if it is none."""
    try:
        node = json.loads(layout)
    except (ValueError, RecursionError):
        return {}
    return node if type(node) is dict else {}


def _text(node: Node) -> str:
    return json.dumps(node, sort_keys=True, separators=(",", ":"))


@functools.lru_cache(maxsize=DECODERS_MAX)
def _array_layout(dtype: Any, shape: tuple[int, ...]) -> str:
    return _text({"kind": "ndarray", "dtype": dtypes.described(dtype), "shape": list(shape)})
