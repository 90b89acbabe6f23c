"""Readers that no process can be sent, which data sets open at first use and keep. One is left out of what a
data set is only if each answer depends on what it is asked, and not on what it was asked before."""

from __future__ import annotations

import pickle
import sqlite3
import sys
from collections.abc import Iterator
from typing import Any

from prebake.identity.code import identify
from prebake.runtime.errors import Code, Refused

#: Classes that are asked by name, number or key. Others may give one thing after the other, as a cursor does.
ADDRESSED = (
    "h5py.File",
    "lmdb.Environment",
    "netCDF4.Dataset",
    "openslide.OpenSlide",
    "pyarrow.ipc.RecordBatchFileReader",
    "pyarrow.parquet.ParquetFile",
    "rasterio.DatasetReader",
    "safetensors.safe_open",
    "sqlite3.Connection",
    "tables.File",
    "tarfile.TarFile",
    "zipfile.ZipFile",
)
#: What a process can be sent is written within so much of it.
PICKLED_BYTES_MAX = 1 << 20
CONTAINERS = {each.__name__: each for each in (dict, list, set)}


def is_open(value: Any) -> bool:
    """Whether no process can be sent it."""
    try:
        identify(value, "a field")
        pickle.Pickler(_Bounded()).dump(value)
    except Refused as refused:
        return refused.code is Code.OPAQUE
    except _Enough:
        return False
    except Exception:
        return True
    return False


def is_reader(value: Any) -> bool:
    """Whether it, or all that a container holds, is of the kinds that are left out."""
    held = list(_held(value))
    return bool(held) and all(
        _is_movable(each) or type(each) in _addressed() and _is_plain(each) for each in held
    )


def fields(value: Any) -> list[dict[str, Any]]:
    """What readers keep in fields, for `same_fields`."""
    found = (getattr(each, "__dict__", None) for each in _held(value))
    return [
        {name: (field, _size(field)) for name, field in each.items()} for each in found if type(each) is dict
    ]


def same_fields(was: list[dict[str, Any]], now: list[dict[str, Any]]) -> bool:
    """Whether readers keep the same there: what an item changes, a later one may depend on."""
    return len(was) == len(now) and all(
        old.keys() == new.keys() and all(_is_same(old[name], new[name]) for name in old)
        for old, new in zip(was, now, strict=True)
    )


def _is_same(was: tuple[Any, int], now: tuple[Any, int]) -> bool:
    # Held, so that nothing new lies where it lay.
    is_number = type(now[0]) in (bool, int, float, str, bytes) and type(was[0]) is type(now[0])
    return was[1] == now[1] and (was[0] is now[0] or is_number and was[0] == now[0])


def _size(field: Any) -> int:
    return len(field) if type(field) in (list, dict, set, tuple) else 0


def _is_plain(value: Any) -> bool:
    """Whether a connection is as its library makes them: functions that its user gives it may count calls,
    and tables of its own are in no file."""
    if not isinstance(value, sqlite3.Connection):
        return True
    is_own = value.row_factory in (None, sqlite3.Row) and value.text_factory in (str, bytes)
    if not is_own or value.in_transaction or value.execute("select 1 from sqlite_temp_master").fetchone():
        return False
    fresh = sqlite3.connect(":memory:")
    asked = ("select name, narg from pragma_function_list", "select name from pragma_collation_list")
    try:
        return all(set(value.execute(each)) <= set(fresh.execute(each)) for each in asked)
    finally:
        fresh.close()


def disturb(value: Any, turn: int) -> None:
    """Leaves it as if it had been used: files are read next in the middle, one byte later, or at the end.
    What an item reads must be the same after. Raises whatever that raises."""
    for each in _held(value):
        if _is_movable(each):
            each.seek(0, 2)
            if turn < END:
                each.seek(each.tell() // 2 + turn)
        elif type(each).__name__ == "TarFile":
            # It has gone through all of its members.
            each.getmembers()


#: Turns of `disturb`: of lines that are all the same, one place of two is within one.
END, TURNS = 2, 3


def _held(value: Any) -> Iterator[Any]:
    if type(value) in CONTAINERS.values():
        yield from value.values() if type(value) is dict else value
    else:
        yield value


def _is_movable(value: Any) -> bool:
    """A file that has a place at which it is read."""
    try:
        return callable(value.seek) and callable(value.tell) and bool(value.seekable())
    except Exception:
        return False


def _addressed() -> set[Any]:
    pairs = (name.rpartition(".") for name in ADDRESSED)
    return {getattr(sys.modules.get(module), name, None) for module, _, name in pairs} - {None}


class _Enough(Exception):
    pass


class _Bounded:
    """Takes so much."""

    def __init__(self) -> None:
        self._rest = PICKLED_BYTES_MAX

    def write(self, data: Any) -> int:
        count = memoryview(data).nbytes
        self._rest -= count
        if self._rest < 0:
            raise _Enough
        return count
