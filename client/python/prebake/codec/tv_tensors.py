"""torchvision's tensors: what they hold besides their numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from prebake.runtime.errors import Code, Refused

#: By class. Those of other fields (later versions) are not known.
_FIELDS: dict[str, tuple[str, ...]] = {
    "Image": (),
    "Mask": (),
    "Video": (),
    "BoundingBoxes": ("format", "canvas_size", "clamping_mode"),
    "KeyPoints": ("canvas_size",),
}


def fields(kind: type) -> tuple[str, ...] | None:
    """What a tensor of a class of torchvision's holds besides; None if it is none of those."""
    known = sys.modules.get("torchvision.tv_tensors")
    found = _FIELDS.get(kind.__name__)
    return found if known is not None and getattr(known, kind.__name__, None) is kind else None


def said(value: Any) -> dict[str, Any]:
    """The class of one of torchvision's tensors, and what it holds besides."""
    held = {}
    for name in fields(type(value)) or ():
        field = getattr(value, name)
        if name == "format":
            field = field.name
        elif name == "canvas_size":
            if type(field) is not tuple or [type(each) for each in field] != [int, int]:
                raise Refused(Code.VALUE, f"a canvas_size of {field!r} cannot be stored exactly")
            field = list(field)
        held[name] = field
    return {"class": type(value).__name__, "fields": held}


def reader(node: dict[str, Any]) -> Callable[[Any], Any]:
    """What makes a tensor one of the class it was."""
    if "class" not in node:
        return lambda tensor: tensor
    from torchvision import tv_tensors

    if node["class"] not in _FIELDS:
        raise Refused(Code.VALUE, f"a tensor of the class {node['class']} is never stored")
    kind, fields = getattr(tv_tensors, node["class"]), dict(node["fields"])
    if "format" in fields:
        fields["format"] = tv_tensors.BoundingBoxFormat[fields["format"]]
    if "canvas_size" in fields:
        fields["canvas_size"] = tuple(fields["canvas_size"])

    def read(tensor: Any) -> Any:
        made = tensor.as_subclass(kind)
        vars(made).update(fields)
        return made

    return read
