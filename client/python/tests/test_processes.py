"""Worker processes share the cache like any other job, and touch nothing of their parent."""

import contextlib
import multiprocessing
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import prebake
from prebake.demo.daemon import PrivateDaemon, find_daemon
from prebake.proof.canaries import CANARIES_MAX
from prebake.runtime import daemon as runtime_daemon


def note_decode() -> None:
    """One byte for each decode."""
    count = os.open(os.environ["PREBAKE_TEST_DECODES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(count, b".")
    os.close(count)


@prebake.pure
def decode(path: str) -> np.ndarray:
    # Reached so that the bookkeeping, which reads the environment, is no part of the fingerprint.
    sys.modules[__name__].note_decode()
    return np.asarray(Image.open(path).convert("RGB"))


class Worker:
    """What a pool's worker calls; a data set cannot be a global of a spawned one."""

    def __init__(self, dataset: prebake.Dataset) -> None:
        self.dataset = dataset

    def __call__(self, i: int) -> np.ndarray:
        return self.dataset[i]


@pytest.fixture
def connected(daemon: PrivateDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """This process uses the daemon; the file that counts decodes."""
    for name, value in {
        "PREBAKE": "on",
        "PREBAKE_DIR": daemon.folder / "cache",
        "PREBAKE_TEST_DECODES": tmp_path / "n",
    }.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(runtime_daemon, "_autostart", False)
    monkeypatch.setattr(runtime_daemon, "_current", None)
    monkeypatch.setattr(runtime_daemon, "_retry_at", 0.0)
    runtime_daemon.native.cache_clear()
    yield tmp_path / "n"


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_pools(connected: Path, images: list[str], method: str) -> None:
    plain = [np.asarray(Image.open(path).convert("RGB")) for path in images]
    dataset = prebake.wrap(images, [decode])
    assert np.array_equal(dataset[0], plain[0])
    with multiprocessing.get_context(method).Pool(2) as pool:
        got = pool.map(Worker(dataset), range(len(images)), chunksize=5)
    assert all(np.array_equal(a, b) for a, b in zip(got, plain, strict=True))
    assert all(np.array_equal(dataset[i], plain[i]) for i in range(len(images)))
    # Those that are spawned have not imported what pytest has: each compares a few of what there is.
    compared = 2 * CANARIES_MAX if method == "spawn" else 0
    assert len(images) <= connected.stat().st_size <= len(images) + compared


def test_a_fork_in_the_middle_of_an_epoch(connected: Path, images: list[str]) -> None:
    plain = [np.asarray(Image.open(path).convert("RGB")) for path in images]
    dataset = prebake.wrap(images, [decode])
    batches = dataset.batches(size=8)
    first = next(batches)
    child = os.fork()
    if not child:
        # What was mapped stays readable in the child, and the rest comes over a connection of its own.
        rest = [first, *batches]
        os._exit(0 if np.array_equal(np.concatenate(rest), plain) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.array_equal(np.concatenate([first, *batches]), plain)
    assert connected.stat().st_size == len(images)


class Decoded:
    """A data set that has to be watched to know what it reads."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> np.ndarray:
        return np.asarray(Image.open(self.paths[i]).convert("RGB"))


def test_a_fork_of_a_job_that_finds_out_what_items_read(connected: Path, images: list[str]) -> None:
    # What was written just now may be written again unseen: it is not stored.
    time.sleep(2.1)
    dataset = prebake.wrap(Decoded(images))
    half = len(images) // 2
    plain = [Decoded(images)[i] for i in range(len(images))]
    assert all(np.array_equal(dataset[i], plain[i]) for i in range(half))
    child = os.fork()
    if not child:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            equal = all(np.array_equal(dataset[i], plain[i]) for i in range(len(images)))
        # Not one item more than the parent left: it uses the cache, over a connection of its own.
        stats = dataset.stats()
        shared = stats["computed"] == len(images) and stats["reused"] >= half
        os._exit(0 if equal and shared and not said else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def read(dataset: prebake.Dataset, places: list[int]) -> None:
    """What a process does that reads some items one by one."""
    for i in places:
        dataset[i]


def read_and_die(dataset: prebake.Dataset, places: list[int]) -> None:
    """And one that is killed then."""
    read(dataset, places)
    os.kill(os.getpid(), signal.SIGKILL)


def read_with_a_child(dataset: prebake.Dataset, places: list[int], method: str) -> None:
    """And one whose child reads half of them."""
    half = len(places) // 2
    read(dataset, places[:half])
    in_process(method, read, dataset, places[half:])


def in_process(method: str, work: Any, *given: Any) -> int | None:
    """Its exit code."""
    process: Any = multiprocessing.get_context(method).Process(target=work, args=given)
    process.start()
    process.join()
    return process.exitcode  # type: ignore[no-any-return]


def served(stats: prebake.Stats) -> int:
    """Elements that were asked for, however they came."""
    return stats["computed"] + stats["reused"] + stats["followed"] + stats["bypassed"]


METHODS = pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
FORKS = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@METHODS
@FORKS
def test_what_workers_read_is_counted(connected: Path, images: list[str], method: str) -> None:
    dataset, seen = prebake.wrap(images, [decode]), [0]
    assert not any(dataset.stats().values())
    for _ in range(3):
        with multiprocessing.get_context(method).Pool(2) as pool:
            pool.map(Worker(dataset), range(len(images)), chunksize=5)
        seen.append(served(dataset.stats()))
    stats = dataset.stats()
    assert stats["computed"] == len(images) and stats["bypassed"] == 0
    # Of the first, one may have computed what the other asked for.
    assert seen[1] >= len(images) and seen[2] == seen[1] + len(images) and seen[3] == seen[2] + len(images)
    assert stats["bytes_ram"] >= 2 * sum(np.asarray(Image.open(path)).nbytes for path in images)


@METHODS
@FORKS
def test_what_a_worker_read_that_was_killed_is_counted(
    connected: Path, images: list[str], method: str
) -> None:
    dataset = prebake.wrap(images, [decode])
    assert in_process(method, read, dataset, list(range(len(images)))) == 0
    before = dataset.stats()
    assert before["computed"] == len(images)
    assert in_process(method, read_and_die, dataset, [3, 1, 4, 1, 5]) == -signal.SIGKILL
    assert dataset.stats()["reused"] == before["reused"] + 5


@pytest.mark.parametrize("inner", ["fork", "spawn"])
@pytest.mark.parametrize("outer", ["fork", "spawn"])
@FORKS
def test_what_a_childs_child_read_is_counted(
    connected: Path, images: list[str], outer: str, inner: str
) -> None:
    dataset, places = prebake.wrap(images, [decode]), list(range(len(images)))
    for _ in range(2):
        before = served(dataset.stats())
        assert in_process(outer, read_with_a_child, dataset, places, inner) == 0
    assert served(dataset.stats()) == before + len(images)
    assert dataset.stats()["computed"] == len(images)


def read_in_random_turns(dataset: prebake.Dataset, seed: int) -> None:
    """All items, and some of them again: one by one, some at once, and in batches."""
    numbers = random.Random(seed)
    for _ in range(numbers.randint(1, 3)):
        order = numbers.sample(range(len(dataset)), len(dataset))
        while order:
            some, order = order[: (size := numbers.randint(1, 12))], order[size:]
            kind = numbers.randrange(3)
            if kind == 0:
                read(dataset, some)
            elif kind == 1:
                dataset.__getitems__(some)
            else:
                list(dataset.batches(some, numbers.randint(1, 5)))


@pytest.mark.parametrize("seed", range(8))
@FORKS
def test_all_that_processes_read_is_counted(connected: Path, images: list[str], seed: int) -> None:
    numbers = random.Random(seed)
    dataset = prebake.wrap(images, [decode])
    seeds = [numbers.randrange(1 << 30) for _ in range(numbers.randint(1, 4))]
    expected = sum(random.Random(each).randint(1, 3) for each in seeds) * len(images)
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=read_in_random_turns, args=(dataset, each)) for each in seeds[1:]]
    for worker in workers:
        worker.start()
    read_in_random_turns(dataset, seeds[0])
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert served(dataset.stats()) == expected
    assert dataset.stats()["computed"] == len(images)


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.torch
def test_the_loader_of_torch(connected: Path, images: list[str], method: str) -> None:
    data = pytest.importorskip("torch.utils.data")
    import torch

    plain = {path: np.asarray(Image.open(path).convert("RGB")).tobytes() for path in images}
    dataset = prebake.wrap(images, [decode])
    loader: Any = data.DataLoader(
        dataset, batch_size=8, shuffle=True, num_workers=2, multiprocessing_context=method
    )
    seen = []
    for _ in range(2):
        got = torch.cat(list(loader)).numpy()
        assert sorted(element.tobytes() for element in got) == sorted(plain.values())
        seen.append(served(dataset.stats()))
    assert connected.stat().st_size == len(images)
    assert dataset.stats()["computed"] == len(images) and seen[1] == seen[0] + len(images)


def connections(folder: Path) -> int:
    """Sockets of this process that are connected to a daemon's."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            copy = os.dup(int(name))
            try:
                with socket.socket(fileno=copy) as each:
                    found += str(each.getpeername()).startswith(str(folder))
            except OSError:
                os.close(copy)
    return found


def test_a_forked_child_holds_no_connection_of_its_parent(
    connected: Path, daemon: PrivateDaemon, images: list[str]
) -> None:
    dataset = prebake.wrap(images, [decode])
    assert dataset[0] is not None and connections(daemon.folder) == 2
    child = os.fork()
    if not child:
        # Else the daemon would take the parent for alive as long as its child is.
        os._exit(connections(daemon.folder))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_daemon_that_does_not_answer_is_asked_less_and_less_often(
    connected: Path, images: list[str], daemon: PrivateDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_daemon, "_silences", 0)
    dataset = prebake.wrap(images, [decode])
    plain = np.asarray(Image.open(images[0]).convert("RGB"))
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        # Told once all of its threads have stopped: the signal is only sent, and one may still answer.
        os.waitid(os.P_PID, daemon.process.pid, os.WSTOPPED)
        for silences, pause in enumerate([20.0, 80.0], start=1):
            # A thread that an earlier test left may have connected before it stopped.
            monkeypatch.setattr(runtime_daemon, "_current", None)
            monkeypatch.setattr(runtime_daemon, "_retry_at", 0.0)
            assert runtime_daemon.connection() is None and runtime_daemon._silences == silences
            left = runtime_daemon._retry_at - time.monotonic()
            assert pause / 2 < left <= pause, "it is waited for again too soon"
            assert np.array_equal(dataset[0], plain)
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    monkeypatch.setattr(runtime_daemon, "_retry_at", 0.0)
    assert runtime_daemon.connection() is not None and runtime_daemon._silences == 0


def test_a_daemon_keeps_nothing_open_of_who_started_it() -> None:
    kept, given = os.pipe()
    with tempfile.TemporaryDirectory(prefix="prebake-") as folder:
        command = [find_daemon(), "--dir", os.path.join(folder, "cache")]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, pass_fds=[given]) as started:
            os.close(given)
            try:
                # A job's pipe ends with the job, whatever its daemon does.
                assert select.select([kept], [], [], 20)[0], "the pipe is still open"
                assert os.read(kept, 1) == b""
                assert started.poll() is None
            finally:
                started.terminate()
    os.close(kept)
