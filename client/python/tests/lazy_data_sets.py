"""Data sets that open a file of the working folder when they are first used."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ITEMS = 12


def write(value: int) -> None:
    """The files, of which the last item is another one with each value."""
    values = [*range(ITEMS - 1), 100 + value]
    Path("data.txt").write_text("".join(f"line {each}\n" for each in values))
    pq.write_table(pa.table({"v": values}), "data.parquet", row_group_size=1)
    Path("data.db").unlink(missing_ok=True)
    with sqlite3.connect("data.db") as base:
        base.execute("create table t (v)")
        base.executemany("insert into t values (?)", [(each,) for each in values])
    base.close()


class Sized:
    def __len__(self) -> int:
        return ITEMS


class Lines(Sized):
    """Keeps a file open."""

    def __init__(self) -> None:
        self.file: Any = None

    def __getitem__(self, i: int) -> Any:
        if self.file is None:
            self.file = open("data.txt", "rb")  # noqa: SIM115
        self.file.seek(0)
        return self.file.read().decode().splitlines(keepends=True)[i]


class Handles(Sized):
    """Keeps files in a table."""

    def __init__(self) -> None:
        self.handles: dict[str, Any] = {}

    def __getitem__(self, i: int) -> Any:
        if "data.txt" not in self.handles:
            self.handles["data.txt"] = open("data.txt", "rb")  # noqa: SIM115
        self.handles["data.txt"].seek(0)
        return self.handles["data.txt"].read().decode().splitlines()[i]


class Connected(Sized):
    """A connection that its class says is not there yet."""

    base: Any = None

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect("data.db")

    def __getitem__(self, i: int) -> Any:
        if self.base is None:
            self.base = self.connect()
        return self.base.execute("select v from t limit 1 offset ?", (i,)).fetchone()[0]


class Groups:
    """A reader that is made to tell the length."""

    def __init__(self) -> None:
        self._file: Any = None

    @property
    def file(self) -> Any:
        if self._file is None:
            self._file = pq.ParquetFile("data.parquet")
        return self._file

    def __len__(self) -> int:
        return int(self.file.num_row_groups)

    def __getitem__(self, i: int) -> Any:
        return self.file.read_row_group(i)["v"].to_pylist()


KINDS: dict[str, Callable[[], Any]] = {each.__name__: each for each in (Lines, Handles, Connected, Groups)}
