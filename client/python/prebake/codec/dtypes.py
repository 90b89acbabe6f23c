"""NumPy's types as JSON, where that says all there is to them."""

from __future__ import annotations

import sys
from typing import Any

from prebake.runtime.errors import Code, Refused

#: Element types that are their bytes. Objects and variable strings are pointers.
_DTYPE_KINDS = frozenset("biufcmMSUV")


def described(dtype: Any) -> Any:
    """A NumPy type as JSON, only if that says all there is to it."""
    descr = dtype.str if dtype.fields is None else [list(field) for field in dtype.descr]
    if dtype.kind not in _DTYPE_KINDS or dtype.hasobject or dtype.metadata or not _round_trips(dtype, descr):
        raise Refused(Code.VALUE, f"an array of type {dtype} cannot be stored exactly")
    return descr


def _round_trips(dtype: Any, descr: Any) -> bool:
    try:
        back = dtype_of(descr)
    except (TypeError, ValueError):
        return False
    return back == dtype and back.isalignedstruct == dtype.isalignedstruct


def dtype_of(descr: Any) -> Any:
    import numpy

    if isinstance(descr, str):
        dtype = numpy.dtype(descr)
    else:
        dtype = numpy.dtype([(name, form, *(tuple(shape) for shape in rest)) for name, form, *rest in descr])
    if dtype.kind not in _DTYPE_KINDS or dtype.hasobject:
        # Bytes that are read would be taken for addresses of objects.
        raise Refused(Code.VALUE, f"an array of type {dtype} is not its bytes")
    return dtype


def bytes_of(array: Any) -> Any:
    """The bytes of a contiguous array, without a copy. Its own buffer would refuse dates, for one."""
    return array.reshape(-1).view(sys.modules["numpy"].uint8)
