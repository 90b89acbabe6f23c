"""The native module by itself: buffers, leases and errors as Python sees them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prebake._demo_daemon import PrivateDaemon

GRAPH = json.dumps(
    {
        "version": 1,
        "operators": [
            {"id": "s", "name": "files", "source": {"files": {}}, "determinism": {"deterministic": True}},
            {
                "id": "d",
                "name": "decode",
                "inputs": [{"operator": "s"}],
                "determinism": {"deterministic": True},
            },
        ],
        "output": "d",
    }
)
COUNT = 20
SIZE = 10_001


@pytest.fixture
def native(daemon: PrivateDaemon) -> Iterator[Any]:
    from prebake import _native

    yield _native


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    folder = tmp_path / "data"
    folder.mkdir()
    for i in range(COUNT):
        (folder / str(i)).write_bytes(bytes([i]))
    return [str(folder / str(i)) for i in range(COUNT)]


def open_items(native: Any, daemon: PrivateDaemon, paths: list[str]) -> Any:
    job = native.connect(str(daemon.folder / "cache"), "test", False)
    return job.plan(GRAPH).files(os.path.dirname(paths[0]), paths)


def fill(items: Any, wanted: list[int]) -> list[int]:
    """Computes what is leased until all can be read; which items were."""
    computed: list[int] = []
    while True:
        leased, bypass = items.acquire(wanted, [])
        assert not bypass
        if not leased:
            return computed
        for i in leased:
            assert items.put(i, "layout", [bytes([i]), np.full(SIZE - 1, i, np.uint8)], 1, 0)
        items.commit()
        computed += leased


def test_elements_come_back_and_edits_of_them_do_not(
    native: Any, daemon: PrivateDaemon, paths: list[str]
) -> None:
    items = open_items(native, daemon, paths)
    everything = list(range(COUNT))
    assert sorted(fill(items, everything)) == everything
    for _ in range(2):
        view, layout, count = items.batch(everything)
        array = np.frombuffer(view, np.uint8).reshape(count, SIZE)
        assert layout == "layout"
        assert (array == np.arange(COUNT, dtype=np.uint8)[:, None]).all()
        array[:] = 255
        del view, array
    stats = items.stats()
    assert stats["computed"] == COUNT and stats["bytes_ram"] == 2 * COUNT * SIZE


def test_an_array_keeps_its_bytes_after_everything_else_is_gone(
    native: Any, daemon: PrivateDaemon, paths: list[str]
) -> None:
    items = open_items(native, daemon, paths)
    fill(items, [3])
    view, _ = items.get(3)
    array = np.frombuffer(view, np.uint8)
    del view, items
    assert array.flags.writeable and (array == 3).all()


def test_parts_may_be_any_contiguous_buffer(native: Any, daemon: PrivateDaemon, paths: list[str]) -> None:
    items = open_items(native, daemon, paths)
    leased, _ = items.acquire([0, 1], [])
    assert leased == [0, 1]
    fortran = np.asfortranarray(np.arange(6, dtype="<i4").reshape(2, 3))
    assert items.put(0, "layout", [fortran, b"", memoryview(b"end")], 1, 0)
    with pytest.raises(BufferError):
        items.put(1, "layout", [np.arange(10)[::2]], 1, 0)
    with pytest.raises(TypeError):
        items.put(1, "layout", ["text"], 1, 0)
    items.commit()
    items.release([1])
    assert items.acquire([0], []) == ([], {})
    assert bytes(items.get(0)[0]) == fortran.tobytes("A") + b"end"


def test_errors_have_codes(native: Any, daemon: PrivateDaemon, paths: list[str], tmp_path: Path) -> None:
    def code(call: Any, *args: Any) -> str:
        with pytest.raises(native.Error) as error:
            call(*args)
        assert str(error.value)
        return error.value.code

    assert code(native.connect, str(tmp_path / "nobody"), "test", False) == "daemon-absent"
    assert code(native.connect, "/" + "x" * 100, "test", False) == "socket-path-too-long"
    job = native.connect(str(daemon.folder / "cache"), "test", False)
    assert code(job.plan, "{") == "bad-graph"
    assert code(job.plan, GRAPH.replace('"operator": "s"', '"operator": "d"')) == "bad-graph"
    assert code(job.plan(GRAPH).call, "name", b"short", []) == "invalid"
    assert code(native.hash_file, str(tmp_path / "nothing")) == "input-missing"


def test_ctrl_c_ends_a_wait(native: Any, daemon: PrivateDaemon, paths: list[str]) -> None:
    holder, waiter = (open_items(native, daemon, paths) for _ in range(2))
    assert holder.acquire([0], [])[0] == [0]

    def interrupt(*_: Any) -> None:
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(InterruptedError):
            waiter.acquire([0], [])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_forked_child_neither_uses_nor_keeps_its_parents_session(
    native: Any, daemon: PrivateDaemon, paths: list[str]
) -> None:
    items = open_items(native, daemon, paths)
    fill(items, [0])
    view, _ = items.get(0)

    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "failed"
        try:
            before = _socket_count()
            native.after_fork()
            # Other tests' sessions may be open still; each has two.
            closed = before - _socket_count() >= 2
            try:
                items.get(0)
            except native.Error as error:
                answer = f"{error.code} {closed}"
            assert (np.frombuffer(view, np.uint8) == 0).all()
            again = open_items(native, daemon, paths)
            answer += f" {fill(again, [0])}"
        finally:
            os.write(write, answer.encode())
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100).decode() == "forked True []"
    os.close(read)
    os.close(write)
    # The parent's session goes on.
    assert fill(items, [0, 1]) == [1]


def _socket_count() -> int:
    count = 0
    for fd in os.listdir("/proc/self/fd"):
        # The listing's own descriptor is gone by now.
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
    return count
