"""MONAI's tensors, which know where in space their numbers are: what they hold besides."""

from __future__ import annotations

import sys
from typing import Any

from prebake.runtime.errors import Code, Refused

_MODULE = "monai.data.meta_tensor"
#: What such a tensor holds. Those of other fields (later versions) are not known.
_FIELDS = frozenset({"_meta", "_applied_operations", "_pending_operations", "_is_batch", "_spatial_ndim"})


def cls() -> type | None:
    """The class; None if nobody has imported it."""
    return getattr(sys.modules.get(_MODULE), "MetaTensor", None)


def held(value: Any) -> dict[str, Any]:
    """What a tensor holds besides its numbers. Raises `Refused`."""
    fields = dict(vars(value))
    if not fields.keys() <= _FIELDS:
        other = next(iter(fields.keys() - _FIELDS))
        raise Refused(Code.VALUE, f"a MetaTensor that holds {other} cannot be stored exactly")
    return fields


def made(tensor: Any, fields: dict[str, Any]) -> Any:
    """The tensor that held them, over the memory of a plain one."""
    import monai.data.meta_tensor

    value = tensor.as_subclass(monai.data.meta_tensor.MetaTensor)
    vars(value).clear()
    vars(value).update(fields)
    return value
