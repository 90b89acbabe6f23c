"""Bad input costs the cache, never the job: it gets what it would get without, and one warning."""

from __future__ import annotations

import os
import re
import resource
import shutil
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import settle

import prebake
from prebake.runtime import daemon

COUNT = 6
GIB = 1 << 30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Some files with different content."""
    made = tmp_path / "data"
    made.mkdir()
    for i in range(COUNT):
        (made / f"{i}.txt").write_text(f"file {i}")
        settle(made / f"{i}.txt")
    time.sleep(RACY_SECONDS)
    return made


#: Files just written are read again, since a later write could not be told.
RACY_SECONDS = 2.1


def read(path: Any) -> np.ndarray:
    with open(path, "rb") as file:
        return np.frombuffer(file.read(), np.uint8).copy()


def first_bytes(path: Any) -> np.ndarray:
    """Of a folder, its name."""
    return np.array([len(str(path))]) if os.path.isdir(path) else read(path)


class Texts:
    """A data set of files."""

    def __init__(self, folder: Path, **held: Any) -> None:
        self.names = sorted(str(path) for path in folder.iterdir())
        vars(self).update(held)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: int) -> Any:
        return read(self.names[i])


Outcome = tuple[str, Any]


def outcome(get: Callable[[], Any]) -> Outcome:
    """What comes of a call: its value, or the error that the caller sees."""
    try:
        value = get()
    except Exception as error:
        return type(error).__name__, str(error)
    return "value", value.tolist() if isinstance(value, np.ndarray) else value


def outcomes(dataset: Any, indices: Any) -> list[Outcome]:
    return [outcome(lambda: dataset[i]) for i in indices]  # noqa: B023


def check(plain: Any, wrap: Callable[[], Any], indices: Any = range(COUNT)) -> list[str]:
    """Two jobs, one after the other, get what they would get without Prebake. What each said."""
    expected = outcomes(plain, indices)
    first: list[str] = []
    for _ in range(2):
        daemon._current = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert outcomes(wrap(), indices) == expected
        said = [str(each.message) for each in caught if issubclass(each.category, prebake.PrebakeWarning)]
        first = first or said
    return first


def refused(said: list[str], code: str) -> None:
    """One warning, with a code."""
    assert len(said) == 1, said
    assert re.match(rf"not cached: {code} ", said[0]), said


class Listed:
    """A list of files as a data set."""

    def __init__(self, files: list[Any], step: Callable[[Any], Any]) -> None:
        self.files, self.step = files, step

    def __getitem__(self, i: int) -> Any:
        return self.step(self.files[i])


def nested(levels: int) -> list[Any]:
    """As many paths as two to the power of its levels."""
    made: list[Any] = [0]
    for _ in range(levels):
        made = [made, made]
    return made


def wide(levels: int) -> list[Any]:
    """More paths than anyone can walk, through lists long enough to be walked natively."""
    made: list[Any] = [0] * 80
    for _ in range(levels):
        made = [made] * 80
    return made


class Node:
    def __init__(self, after: list[Node]) -> None:
        self.after = after


def dense(count: int) -> Node:
    """Each node knows all that were made before it."""
    nodes: list[Node] = []
    for _ in range(count):
        nodes.append(Node(list(nodes)))
    return nodes[-1]


def inside_itself() -> list[Any]:
    made: list[Any] = [1]
    made.append(made)
    return made


def itself() -> Node:
    node = Node([])
    node.after.append(node)
    return node


@pytest.mark.usefixtures("connected")
def test_a_data_set_that_cannot_be_pickled(folder: Path) -> None:
    refused(check(Texts(folder), lambda: prebake.wrap(Texts(folder, own=threading.local()))), "R31")


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("make", [itself, inside_itself, lambda: dense(300), lambda: nested(20)])
def test_graphs_of_objects_are_shared_in_bounded_time(folder: Path, make: Callable[[], Any]) -> None:
    assert not check(Texts(folder), lambda: prebake.wrap(Texts(folder, held=make())))
    daemon._current = None
    wrapped = prebake.wrap(Texts(folder, held=make()))
    outcomes(wrapped, range(COUNT))
    assert wrapped.stats()["reused"] == COUNT


@pytest.mark.usefixtures("connected")
def test_more_paths_than_can_be_walked_are_refused(folder: Path) -> None:
    refused(check(Texts(folder), lambda: prebake.wrap(Texts(folder, held=wide(20)))), "R35")


def available() -> int:
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:"))


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("make", [bytes, bytearray, lambda size: np.zeros(size, np.uint8)])
def test_a_constant_of_a_gibibyte_is_read_where_it_lies(make: Callable[[int], Any]) -> None:
    assert available() > 2 * GIB, "needs 2 GiB of memory"
    constant = make(GIB)
    constant = constant if isinstance(constant, bytes) else _touched(constant)

    def scaled(path: str) -> int:
        return len(constant)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(prebake.fingerprint(scaled)) == 64
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


def _touched(constant: Any) -> Any:
    # What was never written takes no memory, and a copy of it none either.
    view = memoryview(constant)
    for at in range(0, GIB, 4096):
        view[at] = 1
    return constant


def not_text(folder: Path) -> list[str]:
    """Files whose names are no UTF-8."""
    names = []
    for i in range(COUNT):
        name = os.fsencode(folder) + b"/\xff\xfe%d.bin" % i
        Path(os.fsdecode(name)).write_bytes(b"odd %d" % i)
        settle(Path(os.fsdecode(name)))
        names.append(os.fsdecode(name))
    return names


class Folder:
    """As torchvision's ImageFolder."""

    def __init__(self, names: list[str], transform: Any = None) -> None:
        self.samples = [(name, i) for i, name in enumerate(names)]
        self.loader = read
        self.transform = transform

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int) -> Any:
        path, target = self.samples[i]
        return self.loader(path).tolist(), target


def as_list(array: Any) -> Any:
    return array.tolist()


@pytest.mark.usefixtures("connected")
def test_names_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "odd").mkdir()
    names = not_text(tmp_path / "odd")
    time.sleep(RACY_SECONDS)
    kinds: list[tuple[Any, Callable[[], Any]]] = [
        (Listed(names, read), lambda: prebake.wrap(names, [read])),
        (Folder(names), lambda: prebake.wrap(Folder(names, as_list))),
        (Texts(tmp_path / "odd"), lambda: prebake.wrap(Texts(tmp_path / "odd"))),
    ]
    for plain, wrap in kinds:
        assert not check(plain, wrap)
        daemon._current = None
        wrapped = wrap()
        outcomes(wrapped, range(COUNT))
        assert wrapped.stats()["reused"] == COUNT


def fails_on_all(path: str) -> np.ndarray:
    raise ValueError(f"no good: {path}")


@pytest.mark.usefixtures("connected")
def test_errors_and_refusals_that_name_what_is_no_text(tmp_path: Path) -> None:
    names = not_text(tmp_path)
    plain = Listed(names, fails_on_all)
    check(plain, lambda: prebake.wrap(names, [fails_on_all]))
    # The probe and the daemon are told of them too.
    check(Texts(tmp_path), lambda: prebake.wrap(Texts(tmp_path), inputs=lambda i: names[0]))


def _appended(path: str) -> None:
    # Out of sight of whoever records what is opened: as a program that writes beside the job.
    thread = threading.Thread(target=lambda: open(path, "ab").write(b"!"))  # noqa: SIM115
    thread.start()
    thread.join()


@prebake.pure
def reads_then_writes(path: str) -> np.ndarray:
    value = read(path)
    _appended(path)
    return value


@prebake.pure
def writes_then_reads(path: str) -> np.ndarray:
    _appended(path)
    return read(path)


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("step", [reads_then_writes, writes_then_reads])
def test_a_file_that_changes_while_it_is_read(folder: Path, step: Callable[[str], Any]) -> None:
    copied = shutil.copytree(folder, folder.parent / "copied")
    names, copies = (sorted(str(path) for path in each.iterdir()) for each in (folder, copied))
    for _ in range(3):
        daemon._current = None
        expected = outcomes(Listed(copies, step), range(COUNT))
        wrapped = prebake.wrap(names, [step])
        assert outcomes(wrapped, range(COUNT)) == expected
    # What another makes of the file as it is now is of nothing that was stored.
    assert wrapped.stats()["reused"] == 0


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("odd", ["folder", "missing", ""])
def test_what_is_no_file_among_files(folder: Path, odd: str) -> None:
    names: list[str] = sorted(str(path) for path in folder.iterdir())
    names[2] = {"folder": str(folder), "missing": str(folder / "gone"), "": ""}[odd]
    wraps = lambda: prebake.wrap(names, [first_bytes], root=folder)  # noqa: E731
    said = check(Listed(names, first_bytes), wraps)
    if odd == "folder":
        refused(said, "R30")
    daemon._current = None
    wrapped = wraps()
    outcomes(wrapped, range(COUNT))
    assert wrapped.stats()["reused"] == COUNT - 1


class Longer(Texts):
    """Says that it has more than it has."""

    def __len__(self) -> int:
        return len(self.names) + 2


class Shorter(Texts):
    """Says that it has less."""

    def __len__(self) -> int:
        return len(self.names) - 2


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("kind", [Longer, Shorter])
def test_a_length_that_is_not_so(folder: Path, kind: Any) -> None:
    indices = [*range(COUNT + 3), -1, -COUNT, -COUNT - 1, "one", slice(0, 2)]
    check(kind(folder), lambda: prebake.wrap(kind(folder)), indices)
    plain = [each.tolist() for each in Shorter(folder)]
    assert [each.tolist() for each in prebake.wrap(Shorter(folder))] == plain


class Failing(Texts):
    """Fails on some items, the first among them."""

    def __getitem__(self, i: int) -> Any:
        if i in (0, 3):
            raise RuntimeError(f"item {i} is broken")
        return super().__getitem__(i)


@pytest.mark.usefixtures("connected")
def test_errors_of_a_data_set_are_the_user_s(folder: Path) -> None:
    check(Failing(folder), lambda: prebake.wrap(Failing(folder)))


def raises(i: int) -> Any:
    raise KeyError(i)


def raises_later(i: int) -> Any:
    return [] if i < 2 else raises(i)


def endless(i: int) -> Any:
    while True:
        yield "a"


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        (raises, "R30"),
        (lambda i: 7, "R30"),
        (lambda i: b"path", "R30"),
        (lambda i: [None], "R30"),
        (lambda i: [""], "R30"),
        (lambda i: "a\0b", "R30"),
        (endless, "R30"),
        (lambda i: "/nowhere/at/all", "R30"),
        (lambda i: [], "R23"),
    ],
)
def test_inputs_that_are_none(folder: Path, inputs: Any, code: str) -> None:
    refused(check(Texts(folder), lambda: prebake.wrap(Texts(folder), inputs=inputs)), code)


class Numbers(Texts):
    """Reads nothing."""

    def __getitem__(self, i: int) -> Any:
        return i * 2


@pytest.mark.usefixtures("connected")
def test_inputs_that_fail_for_some_items_leave_the_others(folder: Path) -> None:
    wraps = lambda: prebake.wrap(Numbers(folder), inputs=lambda i: [] if i != 1 else raises(i))  # noqa: E731
    refused(check(Numbers(folder), wraps), "R30")
    daemon._current = None
    wrapped = wraps()
    outcomes(wrapped, range(COUNT))
    assert wrapped.stats()["reused"] == COUNT - 1
