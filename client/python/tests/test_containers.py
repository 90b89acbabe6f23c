"""Data sets whose items all lie in one file: read by Python or by compiled code, and named as it may be."""

from __future__ import annotations

import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prebake
from prebake.runtime import daemon

ITEMS = 12
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

#: By then a later write could be told by a file's stats.
SETTLED_SECONDS = 2.1


class Members:
    """Items of an archive, read by Python."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, i: int) -> Any:
        with zipfile.ZipFile(self.path) as archive:
            return np.frombuffer(archive.read(str(i)), np.uint8) // 2

    @staticmethod
    def write(path: str, first: int) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            for i in range(ITEMS):
                archive.writestr(str(i), bytes([first if i == 0 else i]) * 5000)


class Groups(Members):
    """Row groups of a table, read by compiled code, which also asks for the time zones once in a process."""

    def __getitem__(self, i: int) -> Any:
        with pq.ParquetFile(self.path) as file:
            return np.sort(file.read_row_group(i)["v"].to_numpy()) // 2

    @staticmethod
    def write(path: str, first: int) -> None:
        values = [first if i == 0 else i for i in range(ITEMS) for _ in range(1000)]
        pq.write_table(pa.table({"v": values}), path, row_group_size=1000)


def plain(dataset: Any) -> list[Any]:
    return [dataset[i].tolist() for i in range(ITEMS)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("is_absolute", [False, True])
@pytest.mark.parametrize(("kind", "name"), [(Members, "a.zip"), (Groups, "t.parquet")])
def test_items_of_one_file_are_stored_by_the_first_job_and_made_anew_once_it_is_edited(
    folder: Path, kind: type[Members], name: str, is_absolute: bool
) -> None:
    path = str(folder / name) if is_absolute else name
    kind.write(path, 7)
    time.sleep(SETTLED_SECONDS)
    for edited in (False, True):
        if edited:
            kind.write(path, 9)
            time.sleep(SETTLED_SECONDS)
        expected = plain(kind(path))
        for reused in (0, ITEMS):
            daemon._current = None
            wrapped = prebake.wrap(kind(path))
            assert plain(wrapped) == expected
            stats = wrapped.stats()
            assert stats["reused"] == reused and stats["computed"] == ITEMS - reused
