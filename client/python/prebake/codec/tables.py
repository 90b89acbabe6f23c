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
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from prebake.codec import columns, table_makers
from prebake.codec.columns import Memory
from prebake.runtime.errors import Code, Refused
from prebake.runtime.words import words

#: What may be stored by itself, by package.
_TABLES = {
    "pandas": words(
        "DataFrame Series Index api.extensions.ExtensionArray Timestamp Timedelta Period Interval "
        "api.typing.NaTType api.typing.NAType"
    ),
    "polars": words("DataFrame Series"),
    "pyarrow": words("Table RecordBatch ChunkedArray Array"),
}
#: What may be inside, of packages that hold other things too.
_PARTS = {
    "polars": words("DataFrame Series DataType"),
    "pyarrow": words("Table RecordBatch ChunkedArray Array DataType Field Schema Buffer"),
}
_TRUSTED = frozenset(("pandas", "numpy", "datetime", "decimal", "zoneinfo"))
#: Whose versions tell how they pickle.
_VERSIONED = ("numpy", "pandas", "polars", "pyarrow")
#: The version of pandas from which on what columns share is copied before one of them is written to.
COPIES_ON_WRITE = 3
_NUMBERS = (bool, int, float, complex)
_PLAIN = frozenset(
    (type(None), *_NUMBERS, str, bytes, bytearray, tuple, list, dict, slice, pickle.PickleBuffer)
)


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
    raw = [each.raw() for each in buffers]
    return Pickled(out.getvalue(), raw, _versions(pickler.packages), pickler.memory())


def unpickled(stream: Any, buffers: list[Any], versions: dict[str, str]) -> Any:
    """The tables, over the buffers' memory. Raises `Refused` where another version of a package is installed
    than the one that wrote them."""
    for name in versions:
        if name not in _VERSIONED:
            raise Refused(Code.VALUE, f"no table is of a package {name}")
        importlib.import_module(name)
    now = _versions(versions)
    if now != versions:
        raise Refused(Code.VALUE, f"a table of {versions} cannot be read by {now}")
    try:
        return _Unpickler(io.BytesIO(stream), buffers=buffers).load()
    except BaseException as error:
        # What Polars cannot go on from is no `Exception`, and no reason for a job to end.
        if type(error).__name__ != "PanicException":
            raise
        raise Refused(Code.VALUE, f"a stored table cannot be read: {error}") from error


#: Functions that put together what these packages hold, beside those whose names say so.
_MAKING = {
    "numpy": words("_frombuffer scalar"),
    "pandas": words(""),
    "polars": words(""),
    "pyarrow": words(
        "type_for_alias field schema chunked_array list_ large_list list_view large_list_view map_ struct "
        "dictionary run_end_encoded timestamp time32 time64 duration decimal32 decimal64 decimal128 "
        "decimal256 binary dense_union sparse_union"
    ),
    "prebake": words("arrow nan pieced frame series unpacked"),
}
#: Where ours are.
_OWN_MAKERS = (columns.__name__, table_makers.__name__)
_NAMED_MAKING = re.compile(r"_\w*(unpickle|reconstruct|restore)\w*|_new_\w*Index")
#: Classes of packages that hold other things too, and what classes of pandas extend; others of its read and
#: write files.
_MADE = {"numpy": words("dtype ndarray"), "prebake": words("")}
_OF_PANDAS = words(
    "DataFrame Series Index Interval Period Timestamp Timedelta offsets.BaseOffset "
    "api.extensions.ExtensionArray api.extensions.ExtensionDtype"
)
_PANDAS_OWN = ("pandas._libs", "pandas.core.internals", "pandas.core.arrays")


class _Unpickler(pickle.Unpickler):
    """Lets through what :class:`_Pickler` writes, and nothing that could do more than make a table: whoever
    could write to a segment still cannot run what he likes in a job."""

    def find_class(self, module: str, name: str) -> Any:
        top = module.partition(".")[0]
        # Nothing is imported for its sake.
        if (top in _MAKING or top in _TRUSTED) and module in sys.modules:
            found = super().find_class(module, name)
            if self._is_known(module, name, found):
                return _instead(found) if top == "numpy" else found
        elif (module, name) == ("builtins", "slice"):
            return slice
        raise Refused(Code.VALUE, f"a stored table asks for {module}.{name}, of which none is made")

    def _is_known(self, module: str, name: str, found: Any) -> bool:
        top = module.partition(".")[0]
        if not isinstance(found, type):
            if top == "prebake" and module not in _OWN_MAKERS:
                return False
            making = _MAKING.get(top, frozenset())
            missing = top == "pandas" and found in (sys.modules["pandas"].NA, sys.modules["pandas"].NaT)
            return name in making or _NAMED_MAKING.fullmatch(name) is not None or missing
        if found.__module__.partition(".")[0] != top:
            return False
        if top == "pandas":
            return issubclass(found, _classes(top, _OF_PANDAS)) or module.startswith(_PANDAS_OWN)
        if top in _PARTS:
            return issubclass(found, _classes(top, _PARTS[top]))
        return top not in _MADE or name in _MADE[top] or issubclass(found, sys.modules["numpy"].generic)


def _instead(found: Any) -> Any:
    """Arrays are made empty and then filled from the stream. Made by their class, they could take bytes for
    addresses of objects, and all the memory that there is."""
    if found is sys.modules["numpy"].ndarray:
        return "an array"
    return _empty if getattr(found, "__name__", "") == "_reconstruct" else found


def _empty(*_: Any) -> Any:
    """What NumPy's own makes, whatever it is asked for."""
    return sys.modules["numpy"].ndarray((0,), "b")


def _versions(packages: Iterable[str]) -> dict[str, str]:
    return {name: sys.modules[name].__version__ for name in packages}


@functools.cache
def _classes(package: str, names: frozenset[str]) -> tuple[type, ...]:
    found = []
    for name in names:
        value = sys.modules[package]
        for part in name.split("."):
            # Not all versions have all of them.
            value = getattr(value, part, None)
        found.append(value)
    return tuple(each for each in found if isinstance(each, type))


#: Which no stub tells of.
_PYTHONS: Any = pickle._Pickler  # type: ignore[attr-defined]


class _Pickler(_PYTHONS):
    """Python's own, written in Python: that in C writes equal texts otherwise if they are one object, so that
    equal tables would not be equal bytes."""

    def __init__(self, out: io.BytesIO, take: Callable[[pickle.PickleBuffer], Any]) -> None:
        super().__init__(out, 5, buffer_callback=take)
        self.packages: set[str] = set()
        #: Where the memory of columns lies, by what keeps account of who shares it: it is copied before one
        #: of them writes to it, and so may be stored twice.
        self._columns: dict[int, tuple[Any, list[Memory]]] = {}
        #: And of all other arrays.
        self._arrays: dict[int, list[Memory]] = {}

    def memory(self) -> list[Memory]:
        """What nothing else may be in."""
        groups = (columns.merged(group) for _, group in self._columns.values())
        return [each for group in (*groups, *self._arrays.values()) for each in group]

    def memoize(self, value: Any) -> None:
        # Whether equal ones are one object is a matter of chance.
        # Polars does not need NumPy.
        numpy = sys.modules.get("numpy")
        if type(value) not in (str, bytes, slice) and not (numpy and isinstance(value, numpy.dtype)):
            super().memoize(value)

    def reducer_override(self, value: Any) -> Any:
        """What these packages would write otherwise than it is: a part with all it is a part of, or in one
        piece what came in several or with gaps: sums of its numbers may then differ in the last bit."""
        if type(value) in _PLAIN:
            is_nan = type(value) is float and value != value
            return (table_makers.nan, table_makers.said(value)) if is_nan else NotImplemented
        top = self._package(value)
        _refuse_lost(value, top)
        if top == "numpy":
            return self._array(value) if type(value) is sys.modules["numpy"].ndarray else NotImplemented
        if top == "pandas":
            return self._of_pandas(value)
        if top == "zoneinfo" and value.key is not None:
            # It would write a way to any attribute of anything.
            return type(value), (value.key,)
        if top == "pyarrow" and isinstance(value, sys.modules["pyarrow"].Array):
            self._share(None, [(each.address, each.size) for each in value.buffers() if each is not None])
            return table_makers.arrow, (pickle.PickleBuffer(table_makers.stream_of(value)), value.type)
        return self._of_polars(value) if top == "polars" else NotImplemented

    def _package(self, value: Any) -> str:
        """Whose a thing is; none's if it is written by its name. Raises `Refused` if that is none of the
        known."""
        kind, by_name = type(value), callable(value)
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

    def _share(self, account: Any, memory: list[Memory]) -> None:
        self._columns.setdefault(id(account), (account, []))[1].extend(memory)

    def _column(self, values: Any, account: Any) -> Any:
        """The values of a column, as an object that nothing else has."""
        if type(values) is not sys.modules["numpy"].ndarray:
            return values.copy() if hasattr(values, "dtype") else values
        mine = values.view()
        if int(sys.modules["pandas"].__version__.partition(".")[0]) < COPIES_ON_WRITE:
            account = mine
        self._share(account, columns.spans(values))
        self._arrays[id(mine)] = []
        return mine

    def _array(self, array: Any) -> Any:
        gaps = columns.has_gaps(array)
        if gaps and array.dtype.hasobject:
            raise Refused(Code.VALUE, "a table whose columns have gaps cannot be stored exactly; use copy()")
        self._arrays.setdefault(id(array), columns.spans(array))
        # Of dates there is no buffer.
        return (
            (columns.unpacked, columns.packed(array)) if gaps or array.dtype.kind in "mM" else NotImplemented
        )

    def _of_pandas(self, value: Any) -> Any:
        name = type(value).__name__
        if type(value).__module__ == "pandas.core.internals.blocks":
            # It writes a copy without gaps.
            make, (_, *others) = value.__reduce__()
            return make, (self._column(value.values, value.refs), *others)
        if name == "SingleBlockManager":
            # It writes its values twice.
            return type(value), (value.blocks[0], value.axes[0])
        if isinstance(value, sys.modules["pandas"].Index):
            make, (cls, held), *others = value.__reduce_ex__(5)
            account = getattr(value, "_references", None)
            return (
                make,
                (cls, {name: self._columns_of(each, account) for name, each in held.items()}),
                *others,
            )
        pieces = getattr(value, "_pa_array", None)
        if pieces is not None and pieces.num_chunks != 1:
            return table_makers.pieced, (type(value), {**vars(value), "_cache": {}})
        return _without_cache(value)

    def _columns_of(self, held: Any, account: Any) -> Any:
        if type(held) is list:
            return [self._columns_of(each, account) for each in held]
        return held if isinstance(held, sys.modules["pandas"].Index) else self._column(held, account)

    def _of_polars(self, value: Any) -> Any:
        if type(value).__name__ == "DataFrame" and value.width:
            return table_makers.frame, (value.get_columns(),)
        if type(value).__name__ != "Series":
            return NotImplemented
        if value.n_chunks() > 1:
            ascending, descending = (value.flags[name] for name in ("SORTED_ASC", "SORTED_DESC"))
            return table_makers.series, (value.get_chunks(), ascending, descending)
        if value.dtype.is_numeric() and len(value) and not value.null_count():
            # It may be the memory of an array of NumPy's.
            self._share(None, columns.spans(value.to_numpy(allow_copy=False)))
        return NotImplemented


def _refuse_lost(value: Any, top: str) -> None:
    """What these packages would not write."""
    name = type(value).__name__
    if top in ("pandas", "polars") and name in ("DataFrame", "Series") or name.endswith("Index"):
        own = ("_", "sortorder")
        said = [each for each in getattr(value, "__dict__", ()) if not each.startswith(own)]
        if said:
            why = f"a {name} with the attribute {said[0]} cannot be stored exactly; use attrs"
            raise Refused(Code.VALUE, why)
    lost = (
        (top == "pyarrow" and name in ("Table", "RecordBatch") and not value.num_columns and value.num_rows)
        or (name == "Timestamp" and value.fold)
        or (name in ("str_", "bytes_") and value[-1:] in ("\0", b"\0"))
        or (top == "numpy" and isinstance(value, sys.modules["numpy"].ndarray) and name != "ndarray")
    )
    if lost:
        raise Refused(Code.VALUE, f"a table that holds {value!r:.80} cannot be stored exactly")


def _without_cache(value: Any) -> Any:
    """What pandas keeps that it was asked for is no part of it."""
    parts = value.__reduce_ex__(5)
    if isinstance(parts, str) or len(parts) < 3:
        return NotImplemented
    make, arguments, state, *others = parts
    clean = tuple(map(_cleaned, state)) if type(state) is tuple else _cleaned(state) or None
    return make, arguments, clean, *others


def _cleaned(state: Any) -> Any:
    return {name: each for name, each in state.items() if name != "_cache"} if type(state) is dict else state
