"""What puts stored tables together again, by name: unpickling calls these, and nothing else of ours."""

from __future__ import annotations

import importlib
import math
import struct
import sys
from typing import Any

from prebake.runtime.errors import Code, Refused


def pieced(cls: Any, fields: dict[str, Any]) -> Any:
    column = cls.__new__(cls)
    vars(column).update(fields)
    return column


def said(nan: float) -> tuple[str | bytes]:
    """That of `math` and that of NumPy are known by what they are, as a set and a list know them."""
    numpy = sys.modules.get("numpy")
    if nan is math.nan:
        return ("math",)
    return ("numpy",) if numpy is not None and nan is numpy.nan else (struct.pack("<d", nan),)


def nan(said: str | bytes) -> float:
    if isinstance(said, bytes):
        return float(struct.unpack("<d", said)[0])
    return nan_of(said)


def nan_of(module: str) -> float:
    """That of `math` or of NumPy. Raises `Refused` for others: nothing else is imported because a value says
    so."""
    if module not in ("math", "numpy"):
        raise Refused(Code.VALUE, f"{module} has no NaN that is known")
    found: float = importlib.import_module(module).nan
    return found


def stream_of(array: Any) -> Any:
    """One array by itself: a part of a larger one without the rest."""
    pyarrow = sys.modules["pyarrow"]
    batch = pyarrow.RecordBatch.from_arrays([array], ["value"])
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def arrow(stream: Any, of: Any) -> Any:
    import pyarrow

    column = pyarrow.ipc.open_stream(pyarrow.py_buffer(stream)).read_next_batch().column(0)
    if column.type != of:
        raise Refused(Code.VALUE, f"a column of {of} cannot be read here")
    return column


def frame(columns: list[Any]) -> Any:
    import polars

    return polars.DataFrame(columns)


def series(chunks: list[Any], ascending: bool, descending: bool) -> Any:
    import polars

    whole = polars.concat(chunks, rechunk=False)
    return whole.set_sorted(descending=descending) if ascending or descending else whole
