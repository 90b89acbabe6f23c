"""The native module by itself: buffers, leases and errors as Python sees them."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prebake.demo.daemon import PrivateDaemon

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
    counters = native.Counters()
    items.count_into(counters)
    stats = counters.read()
    assert stats["computed"] == COUNT and stats["bytes_ram"] == 2 * COUNT * SIZE


def test_what_need_not_be_written_to_cannot_be(native: Any, daemon: PrivateDaemon, paths: list[str]) -> None:
    items = open_items(native, daemon, paths)
    everything = list(range(COUNT))
    fill(items, everything)
    expected = np.repeat(np.arange(COUNT, dtype=np.uint8), SIZE)
    written = np.frombuffer(items.batch(everything)[0], np.uint8)
    written[:] = 255
    # Side by side and not; several at once, while another array over the same bytes is written to.
    for order in (everything, everything[::-1]):
        views = [items.batch(order, writable=False)[0] for _ in range(2)]
        for array in (np.frombuffer(view, np.uint8) for view in views):
            assert not array.flags.writeable
            assert (array.reshape(-1, SIZE)[np.argsort(order)].reshape(-1) == expected).all()
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
    assert (written == 255).all()


def test_spans_are_read_by_another_connection(native: Any, daemon: PrivateDaemon, paths: list[str]) -> None:
    items = open_items(native, daemon, paths)
    assert items.spans([0, 1]) is None
    fill(items, list(range(COUNT)))
    spans, layout = items.spans([5, 1, 2])
    assert layout == "layout" and len(spans) == 2
    other = native.connect(str(daemon.folder / "cache"), "other", False)
    view = np.frombuffer(other.gather(spans), np.uint8)
    assert view.flags.writeable and (view.reshape(-1, SIZE)[:, 0] == [5, 1, 2]).all()
    assert other.gather([(spans[0][0] + 99, 0, 64)]) is None and len(other.gather([])) == 0
    for wrong in [(spans[0][0], 9, 3), (spans[0][0], 0, 2**63)]:
        with pytest.raises(native.Error, match="past the end"):
            other.gather([wrong])


class Holder:
    def __init__(self, held: Any) -> None:
        self.held = held


ABSENT = object()


def look(native: Any, roots: Any = (), objects: Any = (), referents: Any = (), **others: Any) -> Any:
    given = {"spaces": [], "values": [], "calls": [], "variables": None, "dictionaries": []}
    given |= {"modules": {}, "folder": None, **others}
    return native.Look(list(roots), list(objects), list(referents), absent=ABSENT, **given)


def test_what_objects_refer_to_is_compared_as_python_tells_it(native: Any) -> None:
    def step(x: Any = COUNT) -> Any:
        return x, holder

    holder = Holder([1, {"a": (2.5, "text")}])
    objects = [holder, holder.held, holder.held[1], step, step.__closure__, int, 7, "text", {1, 2}, (), len]
    referents = gc.get_referents(*objects)
    seen = look(native, objects=objects, referents=referents)
    assert seen.holds([])
    assert not look(native, objects=objects, referents=referents[:-1]).holds([])
    assert not look(native, objects=objects, referents=[*referents, 1]).holds([])
    assert not look(native, objects=objects[::-1], referents=referents).holds([])
    holder.held = [1, {"a": (2.5, "text")}]
    assert not seen.holds([])
    holder.held = objects[1]
    assert seen.holds([])
    holder.__class__ = type("Other", (Holder,), {})
    assert not seen.holds([])


def test_what_is_under_names_is_compared(native: Any) -> None:
    space = {"a": test_what_is_under_names_is_compared}
    spaces = [(space, ("a", "c")), (vars(np), ("sum",))]
    values = [space["a"], ABSENT, np.sum]
    seen = look(native, spaces=spaces, values=values)
    assert seen.holds([])
    assert not look(native, spaces=spaces, values=[values[0], np.sum, np.sum]).holds([])
    assert not look(native, spaces=spaces, values=values[:2]).holds([])
    space["c"] = 1
    assert not seen.holds([])
    del space["c"]
    assert seen.holds([])
    del space["a"]
    assert not seen.holds([])


def test_roots_are_the_same_objects_in_a_list_that_is_as_long(native: Any) -> None:
    roots = [Holder(1), Holder(2)]
    seen = look(native, roots=roots)
    assert seen.holds(list(roots))
    for other in ([], roots[:1], roots[::-1], [*roots, roots[0]], [roots[0], Holder(2)]):
        assert not seen.holds(other)


def test_variables_are_compared_whatever_their_order(native: Any) -> None:
    variables = {b"A": b"1", b"B": bytes([200, 201])}
    seen = look(native, variables=variables)
    assert seen.holds([])
    for change in ({b"A": b"2"}, {b"C": b""}, {}):
        before = dict(variables)
        variables.update(change)
        if not change:
            del variables[b"B"]
        assert not seen.holds([])
        variables.clear()
        variables.update(before)
        assert seen.holds([])
    # Set anew to what it was, and so the last; another object.
    del variables[b"A"]
    variables[b"A"] = b"1"
    variables[b"B"] = bytes([200, 201])
    assert seen.holds([])


def test_calls_modules_and_the_folder_are_compared(
    native: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    yields, modules = [1000], {"a": 1}
    monkeypatch.chdir(tmp_path)
    seen = look(
        native, calls=[(lambda: yields[0] + 0, 1000)], modules=modules, folder=os.fsencode(tmp_path.resolve())
    )
    assert seen.holds([])
    yields[0] = 1001
    assert not seen.holds([])
    yields[0] = 1000
    modules["b"] = 2
    assert not seen.holds([])
    del modules["b"]
    assert seen.holds([])
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert not seen.holds([])
    (tmp_path / "other").rmdir()
    assert not seen.holds([])


def test_all_that_is_in_a_dictionary_is_compared(native: Any) -> None:
    held = Holder(None)
    space = {"first": held, "last": COUNT}

    def seen() -> Any:
        return look(native, dictionaries=[({}, {}), (space, dict(space))])

    assert seen().holds([])
    for edit in (
        lambda: space.update(first=Holder(None)),
        lambda: space.update(more=1),
        lambda: space.pop("more"),
        # The same under another name, in its place.
        lambda: space.update(other=space.pop("last")),
        lambda: space.update(first=space.pop("first")),
    ):
        before = seen()
        edit()
        assert not before.holds([]) and seen().holds([])


def test_a_look_is_no_leak(native: Any) -> None:
    holder = Holder(None)
    holder.held = look(native, roots=[holder])
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


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


def test_what_comes_later_is_asked_for_where_it_is_needed(
    native: Any, daemon: PrivateDaemon, paths: list[str]
) -> None:
    asked: list[int] = []

    def later() -> list[int]:
        asked.append(1)
        return [5, 6]

    first = open_items(native, daemon, paths)
    assert first.acquire([0], later, 8)[0] == [0]
    # Nothing was there: what comes later is told before others could be waited for.
    assert asked == [1]
    first.put(0, "layout", [b"zero"], 1, 0)
    first.commit()
    again = open_items(native, daemon, paths)
    assert again.acquire([0], later, 8) == ([], {})
    assert asked == [1]
    # Held by another: then it counts what else is to be done, also in a first question.
    assert first.acquire([1], [], 1)[0] == [1]
    other = open_items(native, daemon, paths)
    assert sorted(other.acquire([1], later, 8)[0]) == [5, 6]
    assert asked == [1, 1]
    with pytest.raises(ZeroDivisionError):
        open_items(native, daemon, paths).acquire([1], lambda: [1 // 0], 8)
    with pytest.raises(native.Error):
        open_items(native, daemon, paths).acquire([1], lambda: [COUNT], 8)


def test_paths_are_taken_at_once_where_they_are_texts_of_absolute_ones(
    native: Any, daemon: PrivateDaemon, paths: list[str]
) -> None:
    fill(open_items(native, daemon, paths), [3, 7])
    taken = native.files(paths)
    paths[3] = paths[4]
    job = native.connect(str(daemon.folder / "cache"), "test", False)
    items = job.plan(GRAPH).files(None, taken)
    assert len(items) == COUNT
    # As they were when they were taken, and named alike.
    assert items.acquire([3, 7], [], 2) == ([], {})
    assert bytes(items.get(3)[0]) == bytes([3]) * SIZE
    odd = ["relative", "", "s3://bucket/key", "/\u00fc", "/\udc80", Path("/a"), b"/a", None]
    assert all(native.files(["/a", each]) is None for each in odd)
    assert native.files([]) is not None


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
