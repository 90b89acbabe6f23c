"""Data sets that open something when they are first used, and keep it, as many loaders do."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lazy_data_sets import ITEMS, KINDS, Connected, Lines, Sized, pq, write

import prebake
from prebake.runtime import daemon

#: By then a later write could be told by a file's stats.
SETTLED_SECONDS = 2.1

pytestmark = [
    pytest.mark.usefixtures("connected", "folder"),
    pytest.mark.filterwarnings("ignore::prebake.PrebakeWarning"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(1)
    time.sleep(SETTLED_SECONDS)
    return tmp_path


def plain(dataset: Any) -> list[Any]:
    return [dataset[i] for i in range(len(dataset))]


def job(dataset: Any) -> tuple[list[Any], int]:
    daemon._current = None
    wrapped = prebake.wrap(dataset)
    return plain(wrapped), wrapped.stats()["reused"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_opened_at_first_use_is_reused_until_its_file_is_edited(kind: str) -> None:
    for value in (1, 2):
        if value == 2:
            write(2)
            time.sleep(SETTLED_SECONDS)
        expected = plain(KINDS[kind]())
        assert json.dumps(expected) != "[]"
        for reused in (0, ITEMS):
            assert job(KINDS[kind]()) == (expected, reused)


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_its_user_puts_there_counts(when: str) -> None:
    Path("other.txt").write_text("".join(f"other {i}\n" for i in range(ITEMS)))
    assert job(Lines()) == (plain(Lines()), 0)
    daemon._current = None
    dataset = Lines()
    if when == "before":
        dataset.file = open("other.txt", "rb")  # noqa: SIM115
    wrapped = prebake.wrap(dataset)
    if when == "after":
        assert wrapped[0] == Lines()[0]
        dataset.file = open("other.txt", "rb")  # noqa: SIM115
    assert plain(wrapped) == [f"other {i}\n" for i in range(ITEMS)]
    dataset.file.close()


class Once(Connected):
    """Refuses to be opened a second time in a process, as LMDB does."""

    is_open = False

    def connect(self) -> sqlite3.Connection:
        if Once.is_open:
            raise OSError("it is open already")
        Once.is_open = True
        return super().connect()


class Counting(Lines):
    """Counts its items, too."""

    count = 0

    def __getitem__(self, i: int) -> Any:
        self.count = self.count + 1 if self.count else 1
        return super().__getitem__(i)


def test_what_can_be_opened_once_goes_on_as_without() -> None:
    expected = plain(Connected())
    dataset = Once()
    assert dataset[3] == expected[3]
    assert job(dataset)[0] == expected


def test_what_changes_itself_beside_goes_on_as_without() -> None:
    dataset = Counting()
    assert job(dataset)[0] == plain(Lines()) and dataset.count == ITEMS


class Deleted(Lines):
    def __del__(self) -> None:
        if self.file is not None:
            self.file.close()


class Asked(Lines):
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"there is no {name}")


class Made(Lines):
    def __new__(cls, count: int) -> Made:
        return super().__new__(cls)

    def __init__(self, count: int) -> None:
        super().__init__()


class Unsent(Lines):
    def __getstate__(self) -> Any:
        raise RuntimeError("it is not to be sent")

    def __setstate__(self, state: Any) -> None:
        raise RuntimeError("it is not to be sent")


class Growing:
    """Fills its table when it is first asked how long that is."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.is_filled = False

    def __len__(self) -> int:
        if not self.is_filled:
            self.rows += range(ITEMS)
            self.is_filled = True
        return len(self.rows)

    def __getitem__(self, i: int) -> int:
        return self.rows[i]


@pytest.mark.parametrize("make", [Deleted, Asked, lambda: Made(3), Unsent, Growing])
def test_what_is_no_more_than_its_fields_only_is_copied(make: Callable[[], Any]) -> None:
    expected = plain(make())
    assert len(expected) == ITEMS
    for _ in range(2):
        assert job(make())[0] == expected


class InTurn(Lines):
    """Gives one line after the other, of which the first are the same."""

    def __getitem__(self, i: int) -> Any:
        if self.file is None:
            self.file = open("turns.txt", "rb")  # noqa: SIM115
        return self.file.readline().decode() or self.again()

    def again(self) -> str:
        self.file.seek(0)
        return self.file.readline().decode()


class InTurnByRows(Connected):
    """The same with a cursor."""

    def connect(self) -> Any:
        return sqlite3.connect("data.db").execute("select v / 100 from t")

    def __getitem__(self, i: int) -> Any:
        if self.base is None:
            self.base = self.connect()
        return self.base.fetchone()[0]


class Told(Sized):
    """Says what is sent of it; its user tells the reader what to give."""

    def __init__(self) -> None:
        self.base = sqlite3.connect("data.db")

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "base": None}

    def __getitem__(self, i: int) -> Any:
        if self.base is None:
            self.base = sqlite3.connect("data.db")
        return self.base.execute("select v || '' from t limit 1 offset ?", (i,)).fetchone()[0]


def told() -> Any:
    made = Told()
    made.base.text_factory = bytes
    return made


class Reader:
    """Reads one line after the other, too."""

    def __init__(self) -> None:
        self.file = open("turns.txt", "rb")  # noqa: SIM115

    def read(self) -> str:
        return self.file.readline().decode()


class WithReader(Sized):
    reader: Reader | None = None

    def __getitem__(self, i: int) -> Any:
        self.reader = self.reader or Reader()
        return self.reader.read()


class Calls:
    count = 0

    def __call__(self) -> int:
        self.count += 1
        return int(self.count > ITEMS - 3)


class WithFunction(Connected):
    """A connection that counts."""

    def __getitem__(self, i: int) -> Any:
        if self.base is None:
            self.base = self.connect()
            self.base.create_function("late", 0, Calls())
        return self.base.execute("select v, late() from t limit 1 offset ?", (i,)).fetchone()


class WithCount(Sized):
    """A reader on which it counts."""

    archive: Any = None

    def __getitem__(self, i: int) -> Any:
        if self.archive is None:
            self.archive = zipfile.ZipFile("turns.zip")
            self.archive.left = ITEMS - 2
        self.archive.left -= 1
        return [self.archive.read("turns.txt")[:3], self.archive.left > 0]


@pytest.mark.parametrize("make", [InTurn, InTurnByRows, told, WithReader, WithFunction, WithCount])
def test_a_reader_that_gives_what_it_was_told_before_is_not_left_out(make: Callable[[], Any]) -> None:
    Path("turns.txt").write_text("the same\n" * (ITEMS - 2) + "another\n" * 2)
    with zipfile.ZipFile("turns.zip", "w") as archive:
        archive.write("turns.txt")
    expected = plain(make())
    for _ in range(2):
        assert job(make())[0] == expected


class Indexed(Lines):
    """An index that is dear, beside a file."""

    index: Any = None

    def __getitem__(self, i: int) -> Any:
        if self.index is None:
            sys.audit("lazy_fields.index")
            self.index = self.make()
        return [super().__getitem__(i), self.index[i]]

    def make(self) -> list[int]:
        return sorted(range(200_000), key=str)[:ITEMS]


class Waiting(Indexed):
    """The same; it takes no time of a processor."""

    def make(self) -> list[int]:
        time.sleep(0.1)
        return [*range(ITEMS)]


@pytest.mark.parametrize("kind", [Indexed, Waiting])
def test_what_is_dear_to_make_anew_is_made_once(kind: type[Indexed]) -> None:
    expected = plain(kind())
    made: list[str] = []
    sys.addaudithook(lambda event, _: made.append(event) if event == "lazy_fields.index" else None)
    assert job(kind())[0] == expected
    assert len(made) <= 2


def test_a_length_that_is_read_once_is_read_once() -> None:
    class Table:
        reads = 0
        _rows: Any = None

        def rows(self) -> Any:
            if self._rows is None:
                type(self).reads += 1
                self._rows = pq.read_table("data.parquet")["v"].to_pylist()
            return self._rows

        def __len__(self) -> int:
            return len(self.rows())

        def __getitem__(self, i: int) -> Any:
            return self.rows()[i]

    assert job(Table())[0] == plain(Table())
    assert Table.reads == 2
