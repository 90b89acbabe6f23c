"""Tables and columns of pandas, Polars and PyArrow as bytes, and back.

By the pickling that these packages keep up themselves, with the columns' memory beside it (protocol 5,
PEP 574), so that a hit lies in shared memory. Equal tables are equal bytes: nothing is said once for two that
share it. Only what these packages hold is let through: a lazy table, for one, is a plan to read files that
may change.
"""

from __future__ import annotations

import functools
import importlib
import io
import pickle
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from prebake.errors import Code, Refused

#: What may be stored by itself, by package.
_TABLES = {
    "pandas": ("DataFrame", "Series", "Index", "Timestamp", "Timedelta", "api.extensions.ExtensionArray"),
    "polars": ("DataFrame", "Series"),
    "pyarrow": ("Table", "RecordBatch", "ChunkedArray", "Array"),
}
#: What may be inside, besides what stands for itself.
_PARTS = {
    "polars": ("DataFrame", "Series", "DataType"),
    "pyarrow": ("Table", "RecordBatch", "ChunkedArray", "Array", "DataType", "Field", "Schema", "Buffer"),
}
_TRUSTED = frozenset(("pandas", "numpy", "datetime", "decimal", "zoneinfo"))
#: Whose versions tell how they pickle.
_VERSIONED = ("numpy", "pandas", "polars", "pyarrow")
_PLAIN = frozenset(
    (
        str,
        bytes,
        bytearray,
        int,
        float,
        complex,
        bool,
        type(None),
        tuple,
        list,
        dict,
        slice,
        pickle.PickleBuffer,
    )
)
#: Memory with gaps is stored with them, up to so many times what it holds.
GAPS_MAX = 4


class Pickled(NamedTuple):
    """A table: what it is, and the memory of its columns."""

    stream: bytes
    buffers: list[Any]
    versions: dict[str, str]


def is_one(value: Any) -> bool:
    """Whether a value is a table or a column of these packages, and none of the user's that extends one."""
    top = type(value).__module__.partition(".")[0]
    return top in _TABLES and isinstance(value, _classes(top, _TABLES[top]))


def pickled(value: Any) -> Pickled:
    """A table as bytes. Raises `Refused`."""
    buffers: list[pickle.PickleBuffer] = []
    out = io.BytesIO()
    pickler = _Pickler(out, buffers.append)
    try:
        pickler.dump(value)
    except Refused:
        raise
    except Exception as error:
        raise Refused(Code.VALUE, f"a {type(value).__qualname__} cannot be stored: {error}") from error
    return Pickled(out.getvalue(), [each.raw() for each in buffers], _versions(pickler.packages))


def unpickled(stream: Any, buffers: list[Any], versions: dict[str, str]) -> Any:
    """The table, over the buffers' memory. Raises `Refused` where another version of its package is
    installed than the one that wrote it."""
    for name in versions:
        importlib.import_module(name)
    now = _versions(versions)
    if now != versions:
        raise Refused(Code.VALUE, f"a table of {versions} cannot be read by {now}")
    return pickle.loads(stream, buffers=buffers)


def _versions(packages: Iterable[str]) -> dict[str, str]:
    return {name: sys.modules[name].__version__ for name in packages}


@functools.cache
def _classes(package: str, names: tuple[str, ...]) -> tuple[type, ...]:
    found = []
    for name in names:
        value = sys.modules[package]
        for part in name.split("."):
            value = getattr(value, part)
        found.append(value)
    return tuple(found)


class _Pickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO, take: Callable[[pickle.PickleBuffer], Any]) -> None:
        super().__init__(out, 5, buffer_callback=take)
        # Without it, two equal texts would be written otherwise than one that is there twice.
        self.fast = True
        self.packages: set[str] = set()
        #: Cells that can be edited in place.
        self._mutable: set[int] = set()

    def persistent_id(self, value: Any) -> None:
        """Looks at all that is written."""
        if type(value) not in _PLAIN:
            self._refuse_foreign(value)
            self._refuse_shared(getattr(value, "attrs", None))
            if getattr(getattr(value, "dtype", None), "hasobject", False) and hasattr(value, "flat"):
                for cell in value.flat:
                    self._refuse_shared(cell)
            _refuse_pieces(value)

    def _refuse_shared(self, cell: Any) -> None:
        """One that is there twice would come back as two."""
        if type(cell) not in (list, dict, tuple, bytearray):
            return
        if type(cell) is not tuple:
            if id(cell) in self._mutable:
                raise Refused(
                    Code.VALUE, f"a table that holds one {type(cell).__name__} twice cannot be stored"
                )
            self._mutable.add(id(cell))
        if type(cell) is not bytearray:
            for each in cell.values() if type(cell) is dict else cell:
                self._refuse_shared(each)

    def _refuse_foreign(self, value: Any) -> None:
        kind = type(value)
        # A function or class is written by its name.
        by_name = callable(value)
        of = (
            getattr(value, "__module__", None) or type(value.__self__).__module__
            if by_name
            else kind.__module__
        )
        top = of.partition(".")[0]
        if top in _VERSIONED:
            self.packages.add(top)
        known = (
            top in _TRUSTED or top in _PARTS and (by_name or isinstance(value, _classes(top, _PARTS[top])))
        )
        if not known and not (by_name and (top in ("builtins", "prebake") or top.startswith("_cython"))):
            name = f"{kind.__module__}.{kind.__qualname__}"
            raise Refused(Code.VALUE, f"a table that holds a {name} cannot be stored exactly")

    def reducer_override(self, value: Any) -> Any:
        """What these packages would write otherwise than it is: a part with all it is a part of, or in one
        piece what came in several or with gaps: sums of its numbers may then differ in the last bit."""
        polars, pyarrow = sys.modules.get("polars"), sys.modules.get("pyarrow")
        if type(value).__module__ == "pandas.core.internals.blocks" and _has_gaps(value.values):
            # It writes a copy without gaps.
            make, (_, *others) = value.__reduce__()
            return make, (value.values, *others)
        if _has_gaps(value):
            return _gapped, _with_gaps(value)
        if pyarrow is not None and isinstance(value, pyarrow.Array):
            return _arrow, (pickle.PickleBuffer(_stream(value)),)
        if polars is not None and type(value) is polars.DataFrame and value.width:
            return _frame, (value.get_columns(),)
        if polars is not None and type(value) is polars.Series and value.n_chunks() > 1:
            return _series, (value.get_chunks(), value.flags["SORTED_ASC"], value.flags["SORTED_DESC"])
        return NotImplemented


def _refuse_pieces(value: Any) -> None:
    pieces = getattr(value, "_pa_array", None)
    if pieces is not None and pieces.num_chunks > 1 and sys.modules["pyarrow"].types.is_floating(pieces.type):
        raise Refused(Code.VALUE, "a column of numbers in pieces cannot be stored exactly; use copy()")


def _has_gaps(value: Any) -> bool:
    return type(value).__name__ == "ndarray" and not (value.flags.c_contiguous or value.flags.f_contiguous)


def _with_gaps(array: Any) -> tuple[Any, ...]:
    numpy = sys.modules["numpy"]
    extent = array.itemsize + sum(
        (n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)
    )
    if array.dtype.hasobject or min(array.strides) < 0 or extent > GAPS_MAX * array.nbytes:
        raise Refused(Code.VALUE, "a table whose columns have gaps cannot be stored exactly; use copy()")
    memory = numpy.zeros(extent, numpy.uint8)
    _gapped(memory, array.dtype, array.shape, array.strides)[...] = array
    return pickle.PickleBuffer(memory), array.dtype, array.shape, array.strides


def _gapped(memory: Any, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    import numpy

    return numpy.ndarray(shape, dtype, memory, 0, strides)


def _stream(array: Any) -> Any:
    """One array by itself: a part of a larger one without the rest."""
    pyarrow = sys.modules["pyarrow"]
    batch = pyarrow.RecordBatch.from_arrays([array], ["value"])
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def _arrow(stream: Any) -> Any:
    import pyarrow

    return pyarrow.ipc.open_stream(pyarrow.py_buffer(stream)).read_next_batch().column(0)


def _frame(columns: list[Any]) -> Any:
    import polars

    return polars.DataFrame(columns)


def _series(chunks: list[Any], ascending: bool, descending: bool) -> Any:
    import polars

    whole = polars.concat(chunks, rechunk=False)
    return whole.set_sorted(descending=descending) if ascending or descending else whole
