"""Files that compiled code opens are heard where the C library is called, as those that Python opens."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import prebake
from prebake.reads import compiled_opens, open_records
from prebake.reads.record import Record, stat_of
from prebake.reads.recorder import Recorder
from prebake.reads.stat_observations import Look
from prebake.runtime import daemon

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyarrow.csv")
pytest.importorskip("pyarrow.feather")
pytest.importorskip("pyarrow.fs")

#: More than are looked at closely when a data set is first tried.
ITEMS = 30
#: By then a later write could be told by a file's stats.
SETTLED_SECONDS = 2.1

WRITERS: dict[str, Callable[[Any, str], Any]] = {
    "csv": pl.DataFrame.write_csv,
    "parquet": pl.DataFrame.write_parquet,
    "arrow": lambda table, path: pa.feather.write_feather(table.to_arrow(), path),
}
READERS: dict[str, tuple[str, Callable[[str], int]]] = {
    "polars csv": ("csv", lambda path: pl.read_csv(path)["v"].sum()),
    "polars lazy": ("csv", lambda path: pl.scan_csv(path).select(pl.col("v").sum()).collect()["v"][0]),
    "polars parquet": ("parquet", lambda path: pl.read_parquet(path)["v"].sum()),
    "polars threads": ("parquet", lambda path: pl.scan_parquet([path, path]).collect()["v"].sum()),
    "arrow csv": ("csv", lambda path: sum(pa.csv.read_csv(path)["v"].to_pylist())),
    "arrow parquet": ("parquet", lambda path: sum(pq.ParquetFile(path).read()["v"].to_pylist())),
    "arrow mapped": (
        "arrow",
        lambda path: sum(pa.ipc.open_file(pa.memory_map(path)).read_all()["v"].to_pylist()),
    ),
    "arrow feather": ("arrow", lambda path: sum(pa.feather.read_table(path)["v"].to_pylist())),
}


def write(path: str, value: int) -> None:
    WRITERS[path.rpartition(".")[2]](pl.DataFrame({"v": [value, 1]}), path)


def recorded(make: Callable[[], Any]) -> Record:
    with Recorder() as record:
        make()
    return record


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("is_absolute", [False, True])
def test_what_is_read_is_told_as_it_was(reader: str, is_absolute: bool, folder: Path) -> None:
    kind, read = READERS[reader]
    name = str(folder / f"a.{kind}") if is_absolute else f"a.{kind}"
    write(name, 5)
    before = stat_of(name)
    record = recorded(lambda: read(name))
    assert record.incomplete is None and record.stats == {str(folder / f"a.{kind}"): before}


def test_what_is_written_and_listed_is_told(folder: Path) -> None:
    write("a.csv", 5)
    written = recorded(lambda: pl.DataFrame({"v": [1]}).write_csv("made.csv"))
    assert written.effects() == [str(folder / "made.csv")] and not written.reads
    listed = recorded(lambda: pl.scan_csv("*.csv").collect())
    assert [os.path.normpath(path) for path in listed.listed] == [str(folder)]


def test_what_is_read_before_it_is_written_is_read(folder: Path) -> None:
    write("a.csv", 5)
    before = stat_of("a.csv")

    def make() -> None:
        pl.read_csv("a.csv")
        Path("a.csv").write_text("v\n7\n")

    record = recorded(make)
    assert record.stats == {str(folder / "a.csv"): before}
    assert record.effects() == [str(folder / "a.csv")]


@pytest.mark.parametrize("first", ["compiled", "python"])
def test_a_file_that_is_changed_between_two_looks_at_it_is_not_known(first: str, folder: Path) -> None:
    write("a.csv", 5)
    ways = [lambda: pl.read_csv("a.csv"), Path("a.csv").read_text]

    def make() -> None:
        one, other = ways if first == "compiled" else ways[::-1]
        one()
        # Unheard by Python, as what another process does.
        ctypes.CDLL(None).truncate(b"a.csv", 2)
        other()

    assert recorded(make).incomplete


@pytest.mark.parametrize("does", ["select v from t", "insert into t values (1)"])
def test_what_may_be_written_is_an_effect_if_it_was(does: str, folder: Path) -> None:
    with sqlite3.connect("data.db") as base:
        base.execute("create table t (v)")
    base.close()

    def make() -> None:
        with sqlite3.connect("data.db") as base:
            base.execute(does)
        base.close()

    record = recorded(make)
    assert str(folder / "data.db") in record.stats
    assert record.effects() == ([] if does.startswith("select") else [str(folder / "data.db")])


@pytest.mark.parametrize("changed", ["long before", "just before", "since"])
def test_a_folder_that_may_have_changed_since_it_was_listed_is_not_known(changed: str, folder: Path) -> None:
    write("a.csv", 5)
    if changed != "just before":
        time.sleep(SETTLED_SECONDS)
    # Deferred, so that Python's own listing is none of it.
    frame = pl.scan_csv("*.csv")
    with Recorder() as record:
        frame.collect()
        if changed == "since":
            # Unheard by Python, as what another process does.
            ctypes.CDLL(None).rename(b"a.csv", b"b.csv")
    assert str(folder) in map(os.path.normpath, record.listed)
    assert (record.incomplete is None) == (changed == "long before")


@pytest.mark.parametrize("is_apart", [False, True])
def test_random_bytes_that_a_library_draws_for_itself_are_none_of_an_element(is_apart: bool) -> None:
    def make() -> None:
        if is_apart:
            open_records.draws_apart()
        pa.OSFile("/dev/urandom").close()

    assert (recorded(make).incomplete is None) == is_apart


@pytest.mark.parametrize("edit", ["grown", "removed", "touched", "made", "filled"])
def test_what_is_looked_at_and_not_opened_is_told(edit: str, folder: Path) -> None:
    """Whether it is there, of which kind, and how large: what a folder holds is asked for by listing it."""
    write("a.csv", 5)
    os.mkdir("sub")
    asked = ["made.csv" if edit == "made" else "sub" if edit == "filled" else "a.csv"]
    record = recorded(lambda: pa.fs.LocalFileSystem().get_file_info(asked))
    looks = [Look.of(name) for name in record.facts()]
    assert str(folder / asked[0]) in [look.path for look in looks] and record.incomplete is None
    before = [look.shows() for look in looks]
    if edit == "touched":
        os.utime("a.csv", (1, 1))
    elif edit == "removed":
        os.remove("a.csv")
    else:
        write("sub/a.csv" if edit == "filled" else "made.csv" if edit == "made" else "a.csv", 55)
    assert (before == [look.shows() for look in looks]) == (edit in ("touched", "filled"))


def test_data_beside_code_is_data(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_opens, "ROOTS", (str(folder / "lib") + "/",))
    os.mkdir("lib")
    write("lib/a.csv", 5)
    assert list(recorded(lambda: pl.read_csv("lib/a.csv")).reads) == [str(folder / "lib/a.csv")]


def test_libraries_that_another_thread_loads_meanwhile_are_waited_for(folder: Path) -> None:
    """Without the interpreter's lock, as compiled code does: one that is half loaded ends who touches it."""
    with open("/proc/self/maps") as file:
        library = next(line.split()[-1] for line in file if "libstdc++" in line)
    (folder / "main.py").write_text(LOADING.format(library=library))
    ran = subprocess.run([sys.executable, "main.py"], capture_output=True, text=True, timeout=300)
    assert (ran.returncode, ran.stdout) == (0, "loaded\n"), ran.stderr


LOADING = """
import ctypes, shutil, threading
from prebake.reads.recorder import Recorder
from prebake.reads.stat_observations import Look
loader = ctypes.CDLL(None)
loader.dlopen.restype = ctypes.c_void_p
loader.dlclose.argtypes = [ctypes.c_void_p]
names = [f"./lib{{i}}.so".encode() for i in range(20)]
for name in names:
    shutil.copy({library!r}, name.decode())
def load():
    for _ in range(10):
        for handle in [loader.dlopen(name, 2) for name in names]:
            assert handle
            loader.dlclose(handle)
thread = threading.Thread(target=load)
thread.start()
while thread.is_alive():
    with Recorder():
        pass
print("loaded")
"""


def test_one_thread_takes_nothing_that_is_told_to_another(folder: Path) -> None:
    for name in ("a.csv", "b.csv"):
        write(name, 5)
    inside, opened, taken = threading.Event(), threading.Event(), threading.Event()
    records: list[Record] = []

    def other() -> None:
        with Recorder() as record:
            inside.wait()
            pa.OSFile("b.csv").close()
            opened.set()
            taken.wait()
        records.append(record)

    thread = threading.Thread(target=other)
    thread.start()
    with Recorder() as record:
        inside.set()
        pa.OSFile("a.csv").close()
        opened.wait()
        opens, _ = compiled_opens._native.take_opens(0, list(open_records.by_thread))
        taken.set()
        thread.join()
    assert {os.path.basename(path) for _, path, _, _ in opens} == {"a.csv"}
    assert list(records[0].stats) == [str(folder / "b.csv")] and not record.reads


def test_who_is_interrupted_while_told_does_not_know_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.csv", 5)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(compiled_opens, "_tell", interrupted)
    with pytest.raises(KeyboardInterrupt), Recorder() as record:
        pl.read_csv("a.csv")
        compiled_opens.take(0)
    assert record.incomplete


@pytest.mark.parametrize("name", ["a.pem", "a.lock", "a-shm", "lock.mdb"])
def test_what_is_called_as_if_it_were_no_data_is_data(name: str, folder: Path) -> None:
    Path(name).write_text("v\n5\n")
    assert list(recorded(lambda: pl.read_csv(name)).reads) == [str(folder / name)]


def test_what_another_thread_opens_meanwhile_is_none_of_an_element(folder: Path) -> None:
    write("a.csv", 5)
    write("b.csv", 6)
    inside, done = threading.Event(), threading.Event()

    def other() -> None:
        with Recorder() as record:
            inside.wait()
            pl.read_csv("b.csv")
            done.set()
        records.append(record)

    records: list[Record] = []
    thread = threading.Thread(target=other)
    thread.start()
    with Recorder() as record:
        inside.set()
        done.wait()
        pl.read_csv("a.csv")
    thread.join()
    assert "b.csv" in " ".join(records[0].reads) and "a.csv" in " ".join(record.reads)


def test_a_forked_process_hears_its_own(folder: Path) -> None:
    write("a.csv", 5)
    write("b.parquet", 6)
    recorded(lambda: pq.ParquetFile("b.parquet").read())
    child = os.fork()
    if child == 0:
        record = recorded(lambda: pq.ParquetFile("b.parquet").read())
        is_own = list(record.stats) == [str(folder / "b.parquet")] and record.incomplete is None
        os._exit(0 if is_own else 1)
    assert os.waitpid(child, 0)[1] == 0


class Files:
    """Items with a file each, of which those from `first` on are read by compiled code."""

    def __init__(self, reader: str, first: int) -> None:
        self.reader, self.first = reader, first
        self.kind = READERS[reader][0]

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, i: int) -> Any:
        path = f"{i}.{self.kind}"
        if i < self.first:
            with open(path, "rb") as file:
                return [len(file.read())]
        return [int(READERS[self.reader][1](path))]


def plain(dataset: Any) -> list[Any]:
    return [dataset[i] for i in range(ITEMS)]


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("first", [0, ITEMS - 1])
@pytest.mark.parametrize("reader", ["polars csv", "polars threads", "arrow parquet", "arrow mapped"])
def test_an_item_is_made_again_once_its_file_is_edited_and_not_before(reader: str, first: int) -> None:
    for i in range(ITEMS):
        write(f"{i}.{READERS[reader][0]}", i)
    time.sleep(SETTLED_SECONDS)
    for edited in (0, 1):
        if edited:
            write(f"{ITEMS - 1}.{READERS[reader][0]}", 100)
            time.sleep(SETTLED_SECONDS)
        expected = plain(Files(reader, first))
        for known in (ITEMS - 1 if edited else 0, ITEMS):
            daemon._current = None
            wrapped = prebake.wrap(Files(reader, first))
            assert plain(wrapped) == expected
            # Variables that polars asks for once in a process are known from the second process on.
            assert first or wrapped.stats()["reused"] == known


@pytest.mark.usefixtures("connected")
def test_a_stream_whose_reader_may_read_ahead_is_refused(folder: Path) -> None:
    """What threads of its own open while one element is made may be of a later one."""
    write("a.parquet", 5)

    @prebake.cached
    def each() -> Iterator[int]:
        for batch in pq.ParquetFile("a.parquet").iter_batches(1):
            yield batch["v"][0].as_py()

    with pytest.warns(prebake.PrebakeWarning, match="perhaps ahead"):
        assert list(each()) == [5, 1]
