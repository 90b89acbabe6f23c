"""What is known of large data sets: inputs looked at beside the job, tables edited in place."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import settle, threads

import prebake
from prebake.compute.computation import Computation
from prebake.identity import graph, snapshot
from prebake.identity.code import identify
from prebake.leases.client import LeaseClient
from prebake.leases.read_order import nothing_ahead
from prebake.runtime import daemon

#: Numbers in a table: describing it takes some ten milliseconds.
ROWS = 1_000_000
#: So often is each file an item, so that looking at all of them takes a while.
TIMES = 20_000
FILES = 20
LETTERS = "abcdefghijklmnopqrst"


def another_job() -> None:
    # What the one before holds is dropped, and tells the daemon what it learned.
    gc.collect()
    daemon._current = None


class Table:
    """A data set that holds all of its items."""

    def __init__(self) -> None:
        self.rows = list(range(ROWS))

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, i: int) -> Any:
        return np.full(3, self.rows[i])


class Listed:
    """A data set that holds the names of its files, and opens them."""

    def __init__(self, names: list[str]) -> None:
        self.names = names * (ROWS // FILES)
        self.count = len(self.names)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> Any:
        return load(self.names[i])


@prebake.pure
def load(path: str) -> Any:
    with open(path, "rb") as file:
        return np.frombuffer(file.read(), np.uint8).copy()


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Files of one letter each, that were not changed lately."""
    for i in range(FILES):
        path = tmp_path / f"{i:02}"
        path.write_text(LETTERS[i] * 8)
        settle(path)
    time.sleep(2.1)
    return sorted(map(str, tmp_path.iterdir()))


@pytest.mark.usefixtures("connected")
def test_a_table_edited_in_place_is_never_stored_as_what_it_was() -> None:
    table = Table()
    wrapped = prebake.wrap(table)
    assert [wrapped[i][0] for i in range(4)] == list(range(4))
    # Beyond what was made ahead.
    at = ROWS // 2
    table.rows[at] = -1
    assert wrapped[at][0] == -1
    another_job()
    again = prebake.wrap(Table())
    assert [again[i][0] for i in (0, at)] == [0, at]
    assert again.stats()["reused"] == 1


@pytest.mark.usefixtures("connected")
def test_files_of_a_table_edited_in_place_are_not_taken_for_those_that_were(files: list[str]) -> None:
    listed = Listed(files)
    wrapped = prebake.wrap(listed)
    assert wrapped[0][0] == ord("a")
    at = wrapped.count // 2
    listed.names[at] = files[11]
    assert wrapped[at][0] == ord("l")
    # What the items read was not mistaken either: nothing has to be refused.
    for reused in (0, 1):
        another_job()
        again = prebake.wrap(Listed(files))
        assert again[at][0] == ord(Path(files[at % FILES]).read_text()[0])
        assert again.stats()["reused"] == reused


_room = np.zeros(4, np.uint8)


@prebake.pure
def reuse(path: str) -> Any:
    """Makes every item in one array."""
    _room[:] = load(path)[0]
    return _room


@pytest.mark.usefixtures("connected")
def test_what_is_withheld_is_what_it_was_when_it_was_made(files: list[str]) -> None:
    class Items(Computation):
        def open(self, job: Any) -> Any:
            described = graph.chain([graph.files(False), graph.step(load, identify(load))])
            return job.plan(described).files(None, files)

        def compute(self, i: int) -> Any:
            return reuse(files[i])

    clients = [LeaseClient(Items(), FILES) for _ in range(2)]
    # All at once but the first, whose cost was not known.
    clients[0].many(range(FILES), nothing_ahead)
    found = clients[1].gather(range(FILES), nothing_ahead)
    assert clients[1].collection.stats()["reused"] == FILES
    assert [int(found[i][0]) for i in range(FILES)] == [ord(letter) for letter in LETTERS]


class Holder:
    def __init__(self) -> None:
        self.by = 1
        self.parts = {"a": [1, 2], "b": (3, [4])}
        self.table = list(range(100))

    def __call__(self, value: Any) -> Any:
        return value * self.by + OFFSET + len(ABSENT)


OFFSET = 7
ABSENT: list[int] = []


@pytest.mark.parametrize(
    "edit",
    [
        lambda h, space: setattr(h, "by", 2),
        lambda h, space: h.parts["b"][1].append(5),
        lambda h, space: h.parts.update(c=1),
        lambda h, space: h.table.append(1),
        lambda h, space: h.table.clear(),
        lambda h, space: space.setitem(globals(), "OFFSET", 8),
        lambda h, space: space.setitem(globals(), "len", lambda value: 5),
        lambda h, space: space.setattr(Holder.__call__, "__defaults__", (1,)),
    ],
)
def test_a_snapshot_sees_every_assignment(edit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    roots = [holder := Holder(), Holder.__call__]
    held = snapshot.Snapshot(roots)
    assert held.holds(roots)
    assert not held.holds(roots[:1])
    edit(holder, monkeypatch)
    assert not held.holds(roots)


def test_a_snapshot_does_not_look_into_what_is_installed() -> None:
    # Else each job would describe its steps twice before its first batch. NumPy makes the table when asked.
    code = """
import numpy, numpy.random
from prebake.identity import snapshot
def step(path):
    return numpy.random.default_rng(3).random()
def named(path, make=numpy.random.default_rng):
    return make(3)
held = snapshot.Snapshot([step, named])
assert len(held.reached) < 50, len(held.reached)
numpy.random.default_rng.__dict__
assert held.holds([step, named])
named.__defaults__ = (numpy.random.Generator,)
assert not held.holds([step, named])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def _sweeps() -> bool:
    """Whether a thread of this process looks at inputs."""
    return "prebake-sweep" in threads()


@pytest.mark.usefixtures("connected")
def test_what_was_edited_before_an_epoch_is_seen_in_it_however_many_inputs_there_are(
    files: list[str],
) -> None:
    next(prebake.wrap(files, [load]).batches(size=FILES))
    another_job()
    wrapped = prebake.wrap(files * TIMES, [load])
    count = len(wrapped)
    next(wrapped.batches(size=1))
    # All of them are known once the sweep is through.
    items = wrapped._pipeline.client.collection.items()
    deadline = time.monotonic() + 60
    while items.looked_at() != (count, count):
        assert time.monotonic() < deadline, items.looked_at()
        time.sleep(0.1)
    for letter in b"12":
        # Of the same size, and with the time it had.
        before = os.stat(files[-1])
        Path(files[-1]).write_bytes(bytes([letter]) * 8)
        os.utime(files[-1], ns=(before.st_atime_ns, before.st_mtime_ns))
        epoch = wrapped.batches(order=range(count - 1, -1, -1), size=8)
        assert next(epoch)[0][0] == letter
        assert items.looked_at()[0] < count, "it waited for all of them"


@pytest.mark.usefixtures("connected")
def test_a_process_forked_while_inputs_are_looked_at_has_what_it_wants(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    next(prebake.wrap(files, [load]).batches(size=FILES))
    # On a machine that stops this thread for long enough, all are looked at before it can fork.
    for more in range(4):
        another_job()
        wrapped = prebake.wrap(files * (TIMES << more), [load])
        next(wrapped.batches(size=1))
        if _sweeps():
            break
    assert _sweeps(), "nothing is tested"
    seen: list[bool] = []
    os.register_at_fork(after_in_parent=lambda: seen.append(_sweeps()))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            # Asked of what it inherited, and of what is its own.
            before = wrapped.stats()["reused"]
            same = [int(wrapped[i][0]) for i in (3, 4)] == [ord("d"), ord("e")]
            code = 0 if same and wrapped.stats()["reused"] == before + 2 else 2
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert seen[0] is False, "a child was born of a process with threads"
    killer = threading.Timer(30, os.kill, (child, 9))
    killer.start()
    assert os.waitpid(child, 0)[1] == 0
    killer.cancel()
    # The parent goes on, and its next epoch is looked at again.
    assert next(wrapped.batches(size=1))[0][0] == ord("a")
    assert pickle.loads(pickle.dumps(wrapped))[5][0] == ord("f")
