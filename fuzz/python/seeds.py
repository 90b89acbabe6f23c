"""Writes the inputs that fuzzing begins with: `python seeds.py FOLDER`, once after a layout changed.

They are values of each kind as they are stored, and some that nobody stored: what was found once.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import pickle
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import check
import draw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from PIL import Image

from prebake import Refused
from prebake.codec import columns, named, table_makers, values

CORPUS = Path(__file__).with_name("corpus")


class _Call:
    """What a stream calls where it is read."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._parts = function, arguments

    def __reduce__(self) -> Any:
        return self._parts


def honest() -> dict[str, Any]:
    """A value of each kind."""
    frame = pd.DataFrame({"a": [1, 2], "t": ["x", "y"], "o": [{"k": 1}, None]})
    frame["when"] = pd.date_range("2020-01-01", periods=2, tz="Europe/Paris")
    slots = draw.Slots(1)
    slots.inner = "i"
    return {
        "plain": [None, True, 1, 1 << 70, 0.5, b"b", "t", math.nan, np.nan, (1,), {"k": {1: [2]}}],
        "packed": ([1, 2, 3, 4], (0.5,) * 4, ["a", "bc", "", "d"]),
        "arrays": [np.arange(6).reshape(2, 3), np.float32(1), np.arange(6).reshape(2, 3).T],
        "array": np.arange(12, dtype=">i4").reshape(3, 4),
        "record": np.zeros(2, draw.RECORD),
        "gapped": np.arange(8)[::-2],
        "image": Image.new("RGB", (3, 2), (1, 2, 3)),
        "classes": [draw.Colour.RED, draw.Pair(1, 2), draw.Sample("i", 3), slots, {draw.Colour.BLUE: 1}],
        "pandas": (frame, frame["a"].copy(), pd.Index(["i"]), pd.Timestamp("2020", tz="UTC"), pd.NaT),
        "categories": pd.Categorical(["a", "b"]),
        "polars": pl.DataFrame({"a": [1, 2], "b": ["x", None]}),
        "arrow": pa.table({"a": [1, 2], "s": ["x", "y"]}),
    }


def hostile() -> Iterator[tuple[str, str, bytes]]:
    """Layouts and elements that nobody stores."""
    form = named._form(tempfile._TemporaryFileCloser)
    closer = f'{{"form":"{form}","module":"tempfile","name":"_TemporaryFileCloser"}}'
    for name, layout, length in (
        ("objects", '{"dtype":"O","kind":"ndarray","shape":[1]}', 8),
        ("objects-inside", '{"dtype":[["a","O"]],"kind":"scalar"}', 8),
        ("objects-gapped", '{"at":0,"dtype":"O","kind":"gapped","len":8,"shape":[1],"strides":[8]}', 8),
        ("imports", '{"kind":"nan","of":"this"}', 0),
        (
            "imports-package",
            '{"kind":"with tables","of":{"kind":"none"},"sizes":[0],"versions":{"this":"1"}}',
            0,
        ),
        ("large-image", '{"info":{"kind":"none"},"kind":"image","mode":"RGB","size":[20000,20000]}', 64),
        ("cut", '{"kind":"bytes","len":1000}', 64),
        ("unknown", '{"kind":"frozenset"}', 8),
        ("finalizer", f'{{"class":{closer},"kind":"object","names":[],"of":[],"slots":[]}}', 0),
        ("texts", '{"bytes":5,"kind":"list","len":1,"packed":"texts"}', 69),
        ("no-layout", "[]", 0),
    ):
        yield name, layout, b"\1" * length
    for name, called in (
        ("stream-import", _Call(table_makers.nan, "this")),
        ("stream-array", _Call(np.ndarray, (1,), np.dtype("O"), b"\1" * 8)),
        ("stream-large", _Call(np.ndarray, (1 << 27,))),
        ("stream-unpacked", _Call(columns.unpacked, b"\1" * 8, np.dtype("O"), (1,), 0, (8,), False)),
        ("stream-system", _Call(print, "called")),
    ):
        stream = pickle.dumps([called], 5)
        layout = '{"kind":"with tables","of":{"at":0,"kind":"table"},"sizes":[%d],"versions":{}}'
        yield name, layout % len(stream), stream


def warm() -> None:
    """Reads and writes one of each kind, and imports what reading others would."""
    for name in ("torch", "torchvision.tv_tensors", "monai.data.meta_tensor"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for value in honest().values():
        values.decode(*map(_as_read, check.joined(value)))
    for data in (b"", bytes(range(256)) * 4):
        try:
            check.joined(draw.Draw(data).value())
        except Refused:
            continue


def _as_read(part: Any) -> Any:
    return bytearray(part) if type(part) is bytes else part


def main() -> None:
    """The command line."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else CORPUS
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in honest().items():
        (folder / f"seed-{name}").write_bytes(check.whole(*check.joined(value)))
    for name, layout, element in hostile():
        (folder / f"found-{name}").write_bytes(check.whole(layout, element))
    for i in range(4):
        (folder / f"drawn-{i}").write_bytes(b"\xff" + bytes((7 * i + j * j) % 256 for j in range(200)))


if __name__ == "__main__":
    main()
