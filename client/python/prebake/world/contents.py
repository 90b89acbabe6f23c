"""What an object holds that no reference shows: bytes of arrays, pixels, what torch counts.

A snapshot compares it before each item, so that each is told in some microseconds and runs nothing of the
user's.
"""

from __future__ import annotations

import array
import decimal
import sys
from collections.abc import Callable
from typing import Any

#: Bytes of an array that are compared, for some 15 us.
ARRAY_BYTES_MAX = 1 << 18
#: Pixels of an image, for some 30 us.
PIXELS_MAX = 1 << 14


def of(value: Any) -> Any:
    """What tells that an object is as it was whose content no reference shows, also of a class that extends
    its own; None if it is none, or too large."""
    kind = type(value)
    # Each in one call: a buffer that is lent while another thread runs could not be resized by it. And by the
    # class that has the content, which runs nothing of the user's.
    if issubclass(kind, bytearray):
        return bytearray.copy(value) if bytearray.__len__(value) <= ARRAY_BYTES_MAX else None
    if issubclass(kind, array.array):
        size = array.array.__len__(value) * _ITEM_SIZE(value)
        return array.array.tobytes(value) if size <= ARRAY_BYTES_MAX else None
    if issubclass(kind, decimal.Context):
        return decimal.Context.__reduce__(value)
    for (module, name), tells in _TELLS.items():
        if issubclass(kind, _class(module, name)):
            return tells(value)
    return None


_ITEM_SIZE = vars(array.array)["itemsize"].__get__


def plain_array(value: Any) -> Any:
    """An array without what a class of the user's makes of it; None if it is no array."""
    base = _class("numpy", "ndarray")
    if not issubclass(type(value), base):
        return None
    return value if type(value) is base else base.view(value, base)


def _class(module: str, name: str) -> Any:
    """A class as it is in its module, since to ask some modules for a name imports them; no class before that
    is imported."""
    found = getattr(sys.modules.get(module), "__dict__", {}).get(name)
    return found if isinstance(found, type) else ()


def _array(value: Any) -> Any:
    plain = plain_array(value)
    if plain.nbytes > ARRAY_BYTES_MAX:
        return None
    kind = plain.dtype
    # Texts of any length lie elsewhere; of objects these are the addresses.
    content = plain.tolist() if kind.kind == "T" else plain.tobytes()
    return kind, kind.names, plain.shape, plain.strides, plain.flags.writeable, content


def _record(value: Any) -> Any:
    return value.dtype, value.dtype.names, sys.modules["numpy"].void.tobytes(value)


def _tensor(value: Any) -> Any:
    """Its bytes too, if they are few: torch counts what is done to a tensor in place, but not what is done
    through `.data`, by an array that shares its memory, or to one that is made to be read."""
    return _told(value, True)


def counted(value: Any) -> Any:
    """What torch counts of a tensor, and how it lies, which tells most without its bytes; None of others."""
    return _told(value, False) if issubclass(type(value), _class("torch", "Tensor")) else None


def _told(value: Any, is_whole: bool) -> Any:
    torch, content = sys.modules["torch"], None
    # A class of the user's may have its say about each of these.
    with torch._C.DisableTorchFunctionSubclass():
        try:
            version = value._version
        except Exception:
            # One that is made to be read is not counted.
            version = None
        try:
            layout = value.data_ptr(), value.shape, value.stride(), value.is_conj(), value.is_neg()
            if is_whole and value.is_cpu and value.nbytes <= ARRAY_BYTES_MAX and _has_memory(value):
                content = _bytes(torch, value)
        except Exception:
            # One that is sparse, or has no shape yet.
            layout = None
        return version, value.requires_grad, layout, content


def _has_memory(value: Any) -> bool:
    """Whether its bytes lie in its storage, which may have been cut."""
    last = sum((length - 1) * step for length, step in zip(value.shape, value.stride(), strict=True))
    return (value.storage_offset() + last + 1) * value.itemsize <= value.untyped_storage().nbytes()


def _bytes(torch: Any, value: Any) -> bytes | None:
    tensor = torch.Tensor
    try:
        array = tensor.numpy(value, force=True)
    except TypeError:
        # Of a type that arrays do not have.
        array = tensor.numpy(tensor.view(tensor.reshape(tensor.detach(value), (-1,)), torch.uint8))
    except Exception:
        return None
    return bytes(array.tobytes())


def _pixels(value: Any) -> Any:
    """Those of an image that is loaded: to look at another would load it."""
    image = sys.modules["PIL.Image"].Image
    try:
        fields, (width, height) = vars(value), image.size.fget(value)
        is_loaded = fields.get("_im", fields.get("im")) is not None and not fields.get("tile")
        return image.tobytes(value) if is_loaded and width * height <= PIXELS_MAX else None
    except Exception:
        # Of a kind that is not written as bytes, or an odd class of the user's.
        return None


#: By module and class.
_TELLS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("numpy", "ndarray"): _array,
    ("numpy", "void"): _record,
    ("torch", "Tensor"): _tensor,
    ("PIL.Image", "Image"): _pixels,
}
