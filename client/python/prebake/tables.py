"""Tables and columns of pandas, Polars and PyArrow as bytes, and back.

By the pickling that these packages keep up themselves, with the columns' memory beside it (protocol 5,
PEP 574), so that a hit lies in shared memory. All tables of a value are written together, so that what two of
them share (an index) they share again. Only what these packages hold is let through: a lazy table, for one,
is a plan to read files that may change.
"""

from __future__ import annotations

import functools
import importlib
import io
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from prebake.errors import Code, Refused

#: What may be stored by itself, by package.
_TABLES = {
    "pandas": ("DataFrame", "Series", "Index", "Timestamp", "Timedelta", "api.extensions.ExtensionArray"),
    "polars": ("DataFrame", "Series"),
    "pyarrow": ("Table", "RecordBatch", "ChunkedArray", "Array"),
}
#: What may be inside, of packages that hold other things too.
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

Memory = tuple[int, int]


class Pickled(NamedTuple):
    """Tables: what they are, the memory of their columns, and where that lies now."""

    stream: bytes
    buffers: list[Any]
    versions: dict[str, str]
    memory: list[Memory]


def is_one(value: Any) -> bool:
    """Whether a value is a table or a column of these packages, and none of the user's that extends one."""
    top = type(value).__module__.partition(".")[0]
    return top in _TABLES and isinstance(value, _classes(top, _TABLES[top]))


def pickled(tables: list[Any], edited: set[int]) -> Pickled:
    """Tables as bytes. Raises `Refused`, also if they hold one of the `edited`: lists and the like, by their
    address, which are written elsewhere."""
    buffers: list[pickle.PickleBuffer] = []
    out = io.BytesIO()
    pickler = _Pickler(out, buffers.append)
    try:
        pickler.dump(tables)
    except Refused:
        raise
    except Exception as error:
        raise Refused(Code.VALUE, f"a {type(tables[0]).__qualname__} cannot be stored: {error}") from error
    if not edited.isdisjoint(pickler.memo):
        raise Refused(Code.VALUE, "a table that holds what is also beside it cannot be stored; copy it")
    memory = [*_merged(pickler.columns), *pickler.cells.values()]
    return Pickled(out.getvalue(), [each.raw() for each in buffers], _versions(pickler.packages), memory)


def unpickled(stream: Any, buffers: list[Any], versions: dict[str, str]) -> Any:
    """The tables, over the buffers' memory. Raises `Refused` where another version of a package is installed
    than the one that wrote them."""
    for name in versions:
        importlib.import_module(name)
    now = _versions(versions)
    if now != versions:
        raise Refused(Code.VALUE, f"a table of {versions} cannot be read by {now}")
    return pickle.loads(stream, buffers=buffers)


def _versions(packages: Iterable[str]) -> dict[str, str]:
    return {name: sys.modules[name].__version__ for name in packages}


def _merged(ranges: Iterable[Memory]) -> Iterator[Memory]:
    """Without overlaps: columns may be one memory, which is copied before one of them is written to."""
    start = end = 0
    for at, length in sorted(ranges):
        if at > end:
            yield start, end - start
            start = at
        end = max(end, at + length)
    yield start, end - start


@functools.cache
def _classes(package: str, names: tuple[str, ...]) -> tuple[type, ...]:
    found = []
    for name in names:
        value = sys.modules[package]
        for part in name.split("."):
            value = getattr(value, part)
        found.append(value)
    return tuple(found)


class _Pickler(pickle._Pickler):  # type: ignore[name-defined]
    """Python's own, written in Python: that in C writes equal texts otherwise if they are one object, so that
    equal tables would not be equal bytes."""

    def __init__(self, out: io.BytesIO, take: Callable[[pickle.PickleBuffer], Any]) -> None:
        super().__init__(out, 5, buffer_callback=take)
        self.packages: set[str] = set()
        #: Where the memory of columns lies, and of arrays in cells.
        self.columns: list[Memory] = []
        self.cells: dict[int, Memory] = {}

    def memoize(self, value: Any) -> None:
        if type(value) not in (str, bytes):
            super().memoize(value)

    def reducer_override(self, value: Any) -> Any:
        """What these packages would write otherwise than it is: a part with all it is a part of, or in one
        piece what came in several or with gaps: sums of its numbers may then differ in the last bit."""
        if type(value) in _PLAIN:
            return NotImplemented
        top = self._package(value)
        _refuse_lost(value, top)
        if top == "numpy" and hasattr(value, "__array_interface__") and hasattr(value, "flat"):
            return self._array(value)
        if top == "pandas":
            return _of_pandas(value)
        if top == "pyarrow" and isinstance(value, sys.modules["pyarrow"].Array):
            self.columns += [(each.address, each.size) for each in value.buffers() if each is not None]
            return _arrow, (pickle.PickleBuffer(_stream(value)), value.type)
        return _of_polars(value) if top == "polars" else NotImplemented

    def _package(self, value: Any) -> str:
        """Whose a thing is. Raises `Refused` if that is none of the known."""
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
        return "" if by_name else top

    def _array(self, array: Any) -> Any:
        if array.dtype.hasobject:
            self.cells |= {id(cell): _memory(cell) for cell in array.flat if type(cell).__name__ == "ndarray"}
            return NotImplemented
        if id(array) not in self.cells:
            self.columns.append(_memory(array))
        return (_gapped, _with_gaps(array)) if _has_gaps(array) else NotImplemented


def _refuse_lost(value: Any, top: str) -> None:
    """What these packages would not write."""
    name = type(value).__name__
    if top in ("pandas", "polars") and name in ("DataFrame", "Series") or name.endswith("Index"):
        own = ("_", "sortorder")
        said = [each for each in getattr(value, "__dict__", ()) if not each.startswith(own)]
        if said:
            raise Refused(
                Code.VALUE, f"a {name} with the attribute {said[0]} cannot be stored exactly; use attrs"
            )
    lost = (
        (top == "pyarrow" and name in ("Table", "RecordBatch") and not value.num_columns and value.num_rows)
        or (name == "Timestamp" and value.fold)
        or (name in ("str_", "bytes_") and value[-1:] in ("\0", b"\0"))
        or (top == "numpy" and hasattr(value, "flat") and name not in ("ndarray", *_scalars()))
    )
    if lost:
        raise Refused(Code.VALUE, f"a table that holds {value!r:.80} cannot be stored exactly")


@functools.cache
def _scalars() -> frozenset[str]:
    return frozenset(each.__name__ for each in sys.modules["numpy"].sctypeDict.values())


def _of_pandas(value: Any) -> Any:
    if type(value).__module__ == "pandas.core.internals.blocks" and _has_gaps(value.values):
        # It writes a copy without gaps.
        make, (_, *others) = value.__reduce__()
        return make, (value.values, *others)
    pieces = getattr(value, "_pa_array", None)
    if pieces is not None and pieces.num_chunks != 1:
        return _pieced, (type(value), dict(vars(value)))
    return NotImplemented


def _pieced(cls: type, fields: dict[str, Any]) -> Any:
    column = cls.__new__(cls)
    vars(column).update(fields)
    return column


def _memory(array: Any) -> Memory:
    spans = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    start = array.__array_interface__["data"][0] + sum(span for span in spans if span < 0)
    return (start, sum(map(abs, spans)) + array.itemsize) if array.size else (start, 0)


def _has_gaps(value: Any) -> bool:
    return type(value).__name__ == "ndarray" and not (value.flags.c_contiguous or value.flags.f_contiguous)


def _with_gaps(array: Any) -> tuple[Any, ...]:
    numpy = sys.modules["numpy"]
    _, extent = _memory(array)
    if min(array.strides) <= 0 or extent > GAPS_MAX * array.nbytes:
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


def _arrow(stream: Any, of: Any) -> Any:
    import pyarrow

    column = pyarrow.ipc.open_stream(pyarrow.py_buffer(stream)).read_next_batch().column(0)
    if column.type != of:
        raise Refused(Code.VALUE, f"a column of {of} cannot be read here")
    return column


def _of_polars(value: Any) -> Any:
    if type(value).__name__ == "DataFrame" and value.width:
        return _frame, (value.get_columns(),)
    if type(value).__name__ == "Series" and value.n_chunks() > 1:
        ascending, descending = (value.flags[name] for name in ("SORTED_ASC", "SORTED_DESC"))
        return _series, (value.get_chunks(), ascending, descending)
    return NotImplemented


def _frame(columns: list[Any]) -> Any:
    import polars

    return polars.DataFrame(columns)


def _series(chunks: list[Any], ascending: bool, descending: bool) -> Any:
    import polars

    whole = polars.concat(chunks, rechunk=False)
    return whole.set_sorted(descending=descending) if ascending or descending else whole
