"""What a record tells of a fill: every file and folder that goes through Python, and nothing else."""

import ctypes
import multiprocessing
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from prebake.execution.reached import Reached
from prebake.reads import audit_events
from prebake.reads.recorder import Recorder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a file in it, as working directory."""
    (tmp_path / "a").write_bytes(b"a")
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def opened(path: object, **how: str) -> None:
    with open(path, **how):  # type: ignore[call-overload]
        pass


def test_every_way_to_open_a_file(here: Path) -> None:
    np.save("n.npy", np.zeros(3))
    Image.new("L", (2, 2)).save("i.png")
    ways = {
        "a": [
            lambda: opened("a"),
            lambda: opened(b"a"),
            lambda: opened(Path("a")),
            lambda: opened(here / "a", mode="rb"),
            lambda: opened("a", mode="r+"),
            lambda: opened("a", mode="a+"),
            lambda: Path("a").read_bytes(),
            lambda: os.close(os.open(here / "a", os.O_RDONLY)),
        ],
        "n.npy": [
            lambda: np.load("n.npy"),
            lambda: np.load("n.npy", mmap_mode="r"),
            lambda: np.fromfile("n.npy"),
        ],
        "i.png": [lambda: Image.open("i.png").load()],
    }
    for name, each in ways.items():
        for way in each:
            with Recorder() as record:
                way()
            assert list(record.reads) == [str(here / name)]
            assert record.incomplete is None and not record.listed


def test_what_is_not_there_was_read_too(here: Path) -> None:
    with Recorder() as record, pytest.raises(FileNotFoundError):
        opened("gone")
    assert list(record.reads) == [str(here / "gone")]


def test_what_is_written_is_not_read(here: Path) -> None:
    with Recorder() as record:
        opened("w", mode="w")
        opened("a", mode="a")
        opened("w")
        with tempfile.NamedTemporaryFile() as made:
            opened(made.name)
        opened(os.devnull)
    assert not record.reads
    with Recorder() as record:
        opened("a")
        opened("a", mode="w")
        opened("a")
    assert list(record.reads) == [str(here / "a")]


def test_names_that_are_not_text(here: Path) -> None:
    name = os.fsencode(here) + b"/\xff\xfe.bin"
    Path(os.fsdecode(name)).write_bytes(b"x")
    with Recorder() as record:
        opened(name)
        opened(os.fsdecode(name))
    assert [os.fsencode(path) for path in record.reads] == [name]


def test_paths_are_as_they_were_then(here: Path) -> None:
    (here / "sub").mkdir()
    (here / "link").symlink_to("sub")
    with Recorder() as record:
        os.chdir("sub")
        opened("../a")
        os.chdir("..")
        with pytest.raises(FileNotFoundError):
            opened("link/../b")
    # With the dots: after a link they lead elsewhere than they seem to.
    assert list(record.reads) == [str(here / "sub/../a"), str(here / "link/../b")]


def test_relative_to_a_folder_that_the_hook_is_not_told(here: Path) -> None:
    folder = os.open(here, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with Recorder() as record:
            os.close(os.open("a", os.O_RDONLY, dir_fd=folder))
    finally:
        os.close(folder)
    assert record.incomplete and "relative" in record.incomplete


def test_folders(here: Path) -> None:
    (here / "sub").mkdir()
    folder = os.open(here / "sub", os.O_RDONLY)
    ways = [lambda: os.listdir(), lambda: list(os.scandir(".")), lambda: list(Path().glob("*"))]
    for way in ways:
        with Recorder() as record:
            way()
        assert {os.path.normpath(path) for path in record.listed} == {str(here)} and not record.reads
    with Recorder() as record:
        os.listdir(folder)
    assert list(record.listed) == [str(here / "sub")]
    with Recorder() as record:
        list(os.walk(here))
    assert set(record.listed) == {str(here), str(here / "sub")}
    os.close(folder)


def test_databases_are_their_files(here: Path) -> None:
    (here / "e f").write_bytes(b"")
    with Recorder() as record:
        sqlite3.connect("d").close()
        sqlite3.connect(f"file:{here}/e%20f?mode=ro&immutable=1", uri=True).close()
        sqlite3.connect(":memory:").close()
    ends = ("", "-wal", "-journal")
    assert list(record.reads) == [f"{here}/{name}{end}" for name in ("d", "e f") for end in ends]


def test_code_that_is_imported_is_told_apart(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "mine_for_reads.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(here)
    sys.modules.pop("mine_for_reads", None)
    sys.modules.pop("colorsys", None)
    recorder = Recorder()
    with recorder as record:
        import colorsys  # noqa: F401

        import mine_for_reads  # noqa: F401
    assert not record.reads and not record.listed
    assert recorder.scope.files(Reached()) == [str(here / "mine_for_reads.py")]
    # The same file as data is data.
    with Recorder() as record:
        opened("mine_for_reads.py")
    assert list(record.reads) == [str(here / "mine_for_reads.py")]


def test_a_library_of_the_user_s(here: Path) -> None:
    with Recorder() as record, pytest.raises(OSError):
        ctypes.CDLL("./mine.so")
    assert list(record.reads) == [f"{here}/./mine.so"]
    with Recorder() as record:
        ctypes.CDLL("libc.so.6")
    assert not record.reads


def test_other_threads(here: Path) -> None:
    def in_a_thread(work: object) -> None:
        thread = threading.Thread(target=work)  # type: ignore[arg-type]
        thread.start()
        thread.join()

    with Recorder() as record:
        in_a_thread(lambda: opened("a"))
    assert not record.reads and record.incomplete and str(here / "a") in record.incomplete
    with Recorder() as record:
        in_a_thread(lambda: opened("log", mode="w"))
    assert record.incomplete is None
    # A thread that records for itself, beside one that does so too.
    inner = []

    def recorded() -> None:
        with Recorder() as mine:
            opened("a")
        inner.append(mine)

    there = threading.Event()
    waits = threading.Thread(target=lambda: (there.wait(10), recorded()))
    waits.start()
    with Recorder() as record:
        there.set()
        waits.join()
    assert not record.reads and record.incomplete is None
    assert list(inner[0].reads) == [str(here / "a")]
    # One that is started meanwhile may work for it.
    with Recorder() as record:
        in_a_thread(recorded)
    assert not record.reads and "started for it" in (record.incomplete or "")


class Opens:
    """Opens a file when it is sent on."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        opened("a")
        return (Opens, ())


def test_a_thread_that_sends_on_what_was_made_is_no_helper(here: Path) -> None:
    # As a loader's worker does while it loads its next batch.
    queue = multiprocessing.get_context("spawn").Queue()
    with Recorder() as record:
        queue.put(Opens())
        assert isinstance(queue.get(timeout=10), Opens)
    queue.close()
    assert record.incomplete is None and not record.reads


def test_the_main_thread_is_no_helper_of_a_fill(here: Path) -> None:
    inside, done = threading.Event(), threading.Event()
    found = []

    def fill() -> None:
        with Recorder() as record:
            inside.set()
            done.wait(10)
        found.append(record)

    thread = threading.Thread(target=fill)
    thread.start()
    inside.wait(10)
    opened("a")
    done.set()
    thread.join()
    assert not found[0].reads and found[0].incomplete is None


def test_fills_inside_fills(here: Path) -> None:
    with Recorder() as outer:
        with Recorder() as inner:
            opened("a")
            os.listdir()
        with pytest.raises(FileNotFoundError):
            opened("b")
    assert list(inner.reads) == [str(here / "a")]
    assert list(outer.reads) == [str(here / "a"), str(here / "b")] and outer.listed
    with Recorder() as record:
        pass
    opened("a")
    assert not record.reads


def test_network_and_programs(here: Path) -> None:
    with Recorder() as record, socket.socket() as link, pytest.raises(OSError):
        link.connect(("127.0.0.1", 1))
    assert record.network and "127.0.0.1" in record.network and record.process is None
    with Recorder() as record:
        socket.getaddrinfo("localhost", 1)
    assert record.network
    with Recorder() as record:
        subprocess.run(["true"], check=True)
    assert record.process and "true" in record.process and record.network is None


def test_records_are_bounded(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prebake.reads.record.PATHS_MAX", 3)
    with Recorder() as record:
        for name in "bcde":
            with pytest.raises(FileNotFoundError):
                opened(name)
    assert len(record.reads) == 3 and record.incomplete


def test_an_error_in_the_hook_is_not_the_user_s(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: object) -> str:
        raise RuntimeError

    monkeypatch.setattr(audit_events, "absolute", fails)
    with Recorder() as record:
        opened("a")
    assert record.incomplete


@pytest.mark.parametrize("error", ["RuntimeError", "ValueError"])
def test_a_hook_that_another_keeps_out_is_told(here: Path, error: str) -> None:
    """The first is passed over by Python without a word, the second would be the user's."""
    program = f"""
import sys
def refuses(event, arguments):
    if event == "sys.addaudithook":
        raise {error}
sys.addaudithook(refuses)
from prebake.reads.recorder import Recorder
for _ in range(2):
    with Recorder() as record:
        open("a").close()
    print(record.incomplete)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.count("refuses Prebake's") == 2
