"""What must hold of the reader of stored values, whatever bytes it is given: functions of the bytes alone."""

from __future__ import annotations

import re
import sys
import warnings
from typing import Any

import guard
from draw import Draw
from guard import Broken, Guard

from prebake import Refused
from prebake.codec import tables, values

#: Between the layout and the element: no layout has it.
END = b"\0"
#: Why a value is refused that may hold addresses for bytes, or may do something when it ends.
_OF_NO_VALUE = re.compile("a value of type|of type (object|StringDType|.*'O')|array of references")


def joined(value: Any) -> tuple[str, bytes]:
    """A value as an element. Raises `Refused`."""
    layout, parts = values.encode(value)
    return layout, b"".join(bytes(memoryview(part).cast("B")) for part in parts)


def whole(layout: str, element: bytes) -> bytes:
    """Both as the bytes of one input."""
    return layout.encode() + END + element


def apart(data: bytes) -> tuple[str, bytes]:
    """And back, of any bytes."""
    layout, _, element = data.partition(END)
    return layout.decode("utf-8", "replace"), element


def read(layout: str, element: bytes) -> Any:
    """The value, or `Refused`: the error, not raised. Raises `Broken` if it was neither."""
    for kept in (values._decoder, values.stacked_form, values._plain_tensor, values.has_tensors):
        kept.cache_clear()
    with Guard():
        try:
            found = values.decode(layout, bytearray(element))
        except Refused as refused:
            found = refused
        except Exception as error:
            raise Broken(f"it raised {type(error).__name__}: {error}") from error
    return found


def stacked(layout: str, element: bytes) -> None:
    """What is asked of a layout by itself, and of elements side by side, raises nothing."""
    with Guard():
        values.array_form(layout)
        for count in (0, 1, 2):
            values.decode_batch(element * count, layout, count)
            if "torch" in sys.modules:
                values.decode_tensors(bytearray(element * count), layout, count)


def any_bytes(data: bytes) -> None:
    """Reads what may never have been written."""
    layout, element = apart(data)
    found = read(layout, element)
    stacked(layout, element)
    if isinstance(found, Refused) or "with tables" in layout:
        # Packages' own columns believe what they are told of their memory.
        return
    try:
        again = joined(found)
    except Refused as refused:
        if _OF_NO_VALUE.search(refused.reason):
            raise Broken(f"{layout:.200} is read as what no value is: {refused}") from refused
        # Written by nobody, such as a text of NumPy's that ends with a zero.
        return
    if joined(read(*again)) != again:
        raise Broken(f"{layout:.200} is read as another value each time")


def drawn(data: bytes) -> None:
    """A value that was stored comes back."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = Draw(data).value()
        try:
            element = joined(value)
        except Refused:
            return
    guard.honest.append(True)
    try:
        back = read(*element)
    finally:
        guard.honest.clear()
    if isinstance(back, Refused):
        raise Broken(f"{value!r:.200} was stored and is not read: {back}")
    if not tables.is_one(value) and type(back) is not type(value):
        raise Broken(f"{value!r:.200} came back as a {type(back).__name__}")
    if joined(back) != element:
        raise Broken(f"{value!r:.200} came back as {back!r:.200}")


def run(data: bytes) -> None:
    """Both, as the first byte says."""
    (drawn if data[:1] == b"\xff" else any_bytes)(data.removeprefix(b"\xff"))
