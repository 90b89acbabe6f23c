"""Layouts that are JSON still, with elements as long as they say: bytes changed at random seldom are."""

from __future__ import annotations

import json
import random
from typing import Any

from check import apart, whole

from prebake.codec.reader import Reading

ELEMENT_MAX = 16_384
KINDS = [
    "ndarray",
    "scalar",
    "gapped",
    "tensor",
    "image",
    "enum",
    "object",
    "table",
    "list",
    "tuple",
    "dict",
    "nan",
    "none",
    "bool",
    "float",
    "int",
    "str",
    "bytes",
    "frozenset",
] + ["meta tensor", "named tuple", "with tables", "lazy image"]
KEYS = [
    "kind",
    "dtype",
    "shape",
    "axes",
    "fixed",
    "strides",
    "at",
    "len",
    "of",
    "class",
    "names",
    "slots",
    "sizes",
    "versions",
    "packed",
    "bytes",
    "mode",
    "size",
    "info",
    "readonly",
    "file",
    "name",
    "pixels",
    "fields",
    "held",
    "module",
    "form",
]
TEXTS = [
    "O",
    "T",
    "V8",
    "i4,O",
    "|O8",
    "<M8[ns]",
    "U9",
    "q",
    "d",
    "texts",
    "b",
    "math",
    "numpy",
    "this",
    "os",
    "builtins",
    "RGB",
    "F",
    "1",
    "uint8",
    "float32",
    "x",
]
NUMBERS = (-(1 << 63), -64, -1, 0, 1, 2, 7, 8, 64, 255, 1 << 16, 1 << 31, 1 << 40, (1 << 63) - 1, 1 << 64)


def layout_changed(layout: str, draw: random.Random) -> str:
    """A layout with something in it replaced, put in or left out."""
    try:
        node = [json.loads(layout)]
    except (ValueError, RecursionError):
        return layout
    places = list(_places(node))
    for _ in range(draw.randint(1, 3)):
        holder, key = draw.choice(places)
        try:
            _change(holder, key, places, draw)
        except (KeyError, IndexError):
            # It is gone by the change before.
            continue
    return json.dumps(node[0], sort_keys=True, separators=(",", ":")) if node else layout


def _places(node: Any) -> Any:
    keys = range(len(node)) if type(node) is list else [*node] if type(node) is dict else ()
    for key in keys:
        yield node, key
        yield from _places(node[key])


def _change(holder: Any, key: Any, places: list[Any], draw: random.Random) -> None:
    how = draw.randrange(6)
    if how == 0:
        holder[key] = draw.choice(NUMBERS)
    elif how == 1:
        holder[key] = draw.choice(KINDS if key == "kind" else TEXTS)
    elif how == 2:
        other, at = draw.choice(places)
        holder[key] = json.loads(json.dumps(other[at]))
    elif how == 3 and type(holder) is dict:
        holder[draw.choice(KEYS)] = draw.choice([*NUMBERS, *TEXTS, [], {}, None])
    elif how == 4 and len(holder) > 1:
        del holder[key]
    else:
        holder[key] = [holder[key], draw.choice(NUMBERS)] if draw.random() < 0.5 else [draw.choice(NUMBERS)]


def fitted(layout: str, element: bytes) -> bytes:
    """As many bytes as the layout says, if that is not too many."""
    reading = Reading()
    try:
        reading.reader(json.loads(layout))
    except Exception:
        return element
    return (
        element[: reading.length].ljust(reading.length, b"\1") if reading.length <= ELEMENT_MAX else element
    )


def mutated(data: bytes, seed: int, at_random: Any) -> bytes:
    """Another input: of its layout, of its element, or of its bytes by whoever calls."""
    draw = random.Random(seed)
    if data[:1] == b"\xff" or draw.random() < 0.3:
        return bytes(at_random(data))
    layout, element = apart(data)
    if draw.random() < 0.6:
        layout = layout_changed(layout, draw)
    elif element:
        element = bytes(at_random(element))
    return whole(layout, fitted(layout, element))
