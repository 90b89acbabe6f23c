"""Values that have no parts, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any


def _packed(tag: str, form: str) -> Callable[[Any], tuple[str, Any]]:
    return lambda value: (tag, struct.pack(form, value))


SCALARS: dict[type, Callable[[Any], tuple[str, Any]]] = {
    type(None): lambda _: ("none", b""),
    type(...): lambda _: ("ellipsis", b""),
    type(NotImplemented): lambda _: ("not implemented", b""),
    bool: lambda v: ("bool", b"\x01" if v else b"\x00"),
    int: lambda v: ("int", b"%d" % v if -(1 << 63) <= v < 1 << 63 else hex(v).encode()),
    float: _packed("float", ">d"),
    complex: lambda v: ("complex", struct.pack(">dd", v.real, v.imag)),
    str: lambda v: ("str", v.encode("utf-8", "surrogatepass")),
    bytes: lambda v: ("bytes", v),
    bytearray: lambda v: ("bytearray", memoryview(v)),
}
#: Of those, what never changes.
FIXED = frozenset(SCALARS) - {bytearray}
