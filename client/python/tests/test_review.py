"""What a wrapped data set must not give: items made from something else, or errors of Prebake's own."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import settle

import prebake
from prebake.runtime import daemon

RACY_SECONDS = 2.1


def another_job() -> None:
    daemon._current = None


def rewrite(path: Path, value: int, size: int = 64) -> None:
    path.write_bytes(bytes([value]) * size)
    settle(path)


def made(folder: Path, count: int, first: int = 0, size: int = 64) -> list[str]:
    folder.mkdir(exist_ok=True)
    for i in range(count):
        rewrite(folder / f"{i}.bin", first + i, size)
    time.sleep(RACY_SECONDS)
    return [str(folder / f"{i}.bin") for i in range(count)]


def load(path: str) -> Any:
    with open(path, "rb") as file:
        return np.frombuffer(file.read(), np.uint8).copy()


def add_one(value: Any) -> Any:
    return value + np.uint8(1)


class Compose:
    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value


class Blobs:
    def __init__(self, names: list[str], transform: Any = None) -> None:
        self.names = names
        self.transform = transform

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: int) -> Any:
        value = load(self.names[i])
        return self.transform(value) if self.transform is not None else value


class Folder:
    def __init__(self, samples: list[tuple[str, int]]) -> None:
        self.samples = samples
        self.loader = load
        self.transform = None

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int) -> Any:
        path, target = self.samples[i]
        return self.loader(path), target


class Table:
    """Holds everything; nothing is read."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> Any:
        return {"row": np.full(4, self.rows[i])}


class Lazy:
    """Opens its one file at the first item and keeps it open."""

    def __init__(self, path: str, transform: Any = None) -> None:
        self.path = path
        self.transform = transform
        self.file: Any = None

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> Any:
        if self.file is None:
            self.file = open(self.path, "rb")  # noqa: SIM115
        self.file.seek(8 * i)
        return self.transform(np.frombuffer(self.file.read(8), np.uint8).copy())


def firsts(dataset: Any, count: int) -> list[int]:
    return [int(np.asarray(dataset[i]).flat[0]) for i in range(count)]


@pytest.mark.usefixtures("connected")
def test_other_samples_are_other_items(tmp_path: Path) -> None:
    names = made(tmp_path / "data", 4)
    dataset = Folder([(name, i) for i, name in enumerate(names)])
    wrapped = prebake.wrap(dataset)
    assert [(int(v[0]), t) for v, t in (wrapped[i] for i in range(4))] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    dataset.samples = [(names[3], 3), (names[1], 1)]
    assert len(wrapped) == 2
    assert [(int(v[0]), t) for v, t in (wrapped[i] for i in range(2))] == [(3, 3), (1, 1)]


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("kind", ["files", "dataset"])
def test_relative_names_go_with_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for folder, first in (("a", 0), ("b", 10)):
        made(tmp_path / folder, 3, first)
    names = [f"{i}.bin" for i in range(3)]
    monkeypatch.chdir(tmp_path / "a")
    wrapped = prebake.wrap(names, [load, add_one]) if kind == "files" else prebake.wrap(Blobs(names, add_one))
    assert firsts(wrapped, 3) == [1, 2, 3]
    monkeypatch.chdir(tmp_path / "b")
    assert firsts(wrapped, 3) == [11, 12, 13]


@pytest.mark.usefixtures("connected")
def test_a_file_that_is_kept_open_is_read_by_every_item(tmp_path: Path) -> None:
    path = tmp_path / "all.bin"
    rewrite(path, 1)
    time.sleep(RACY_SECONDS)
    for value in (1, 5):
        rewrite(path, value)
        # A batch, which is loaded under one lease.
        found = prebake.wrap(Lazy(str(path), add_one)).__getitems__(range(8))
        assert [int(each[0]) for each in found] == [value + 1] * 8
        another_job()


@pytest.mark.usefixtures("connected")
@pytest.mark.torch
def test_a_subsets_indices_may_change(tmp_path: Path) -> None:
    torch_data = pytest.importorskip("torch.utils.data")
    names = made(tmp_path / "data", 6)
    subset = torch_data.Subset(Blobs(names, add_one), [0, 1])
    wrapped = prebake.wrap(torch_data.Subset(subset, [1, 0]))
    assert firsts(wrapped, 2) == [2, 1]
    subset.indices = [5, -2]
    assert firsts(wrapped, 2) == [5, 6]
    wrapped = prebake.wrap(subset)
    subset.indices.append(3)
    assert len(wrapped) == 3
    assert firsts(wrapped, 3) == [6, 5, 4]


@pytest.mark.usefixtures("connected")
def test_a_data_set_may_grow(tmp_path: Path) -> None:
    names = made(tmp_path / "data", 6)
    dataset = Blobs(names[:3], add_one)
    wrapped = prebake.wrap(dataset)
    assert firsts(wrapped, 3) == [1, 2, 3]
    dataset.names += names[3:]
    assert len(wrapped) == 6
    assert firsts(wrapped, 6) == [1, 2, 3, 4, 5, 6]


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("kind", [list, np.asarray])
def test_a_table_edited_in_place_between_epochs(kind: Any) -> None:
    dataset = Table(kind(list(range(100))))
    wrapped = prebake.wrap(dataset)
    for step in (0, 50):
        for i in range(100):
            dataset.rows[i] = i + step
        assert [int(wrapped[i]["row"][0]) for i in range(100)] == [i + step for i in range(100)]


@pytest.mark.usefixtures("connected")
def test_what_the_data_set_takes_for_an_index(tmp_path: Path) -> None:
    class Odd(Table):
        def __getitem__(self, i: Any) -> Any:
            if isinstance(i, (slice, str)):
                return i
            return self.rows[i % len(self.rows)]

    wrapped = prebake.wrap(Odd(list(range(5))))
    assert wrapped["all"] == "all"
    assert wrapped[1:3] == slice(1, 3)
    assert wrapped[7] == 2


@pytest.mark.usefixtures("connected")
def test_wrapped_twice_is_wrapped(tmp_path: Path) -> None:
    names = made(tmp_path / "data", 2)
    wrapped = prebake.wrap(Blobs(names, add_one))
    assert firsts(prebake.wrap(wrapped), 2) == [1, 2]
    assert prebake.wrap(wrapped) is wrapped


@pytest.mark.usefixtures("connected")
def test_declared_inputs_may_change(tmp_path: Path) -> None:
    names = made(tmp_path / "data", 4)
    which = tmp_path / "which"

    class Chosen(Blobs):
        def __getitem__(self, i: int) -> Any:
            return load(self.names[i])

    files = {0: [names[0]], 1: [names[1]]}
    wrapped = prebake.wrap(Chosen(names[:2]), inputs=lambda i: files[i])
    assert firsts(wrapped, 2) == [0, 1]
    # Nobody hears of it when it is opened: only its name is declared.
    files[0] = [names[0], str(which)]
    which.write_text("other")
    settle(which)
    assert firsts(wrapped, 2) == [0, 1]
    assert wrapped.stats()["computed"] == 3


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("odd", [5, None])
def test_inputs_that_cannot_be_told_fail_no_job(tmp_path: Path, odd: Any) -> None:
    names = made(tmp_path / "data", 4)

    def inputs(i: int) -> Any:
        # Of an item that no probe looks at.
        return names[i] if i < 3 else odd or {}[i]

    assert firsts(prebake.wrap(Blobs(names, add_one), inputs=inputs), 4) == [1, 2, 3, 4]


@pytest.mark.parametrize("daemon_runs", [True, False])
def test_a_batch_begun_again_draws_the_same(tmp_path: Path, request: Any, daemon_runs: bool) -> None:
    class Second(Blobs):
        def __getitem__(self, i: int) -> Any:
            made = self.transform(load(self.names[i]))
            return made + 0 if i == 2 else made

    def jitter(value: Any) -> Any:
        return value + np.uint8(random.randrange(100))

    if daemon_runs:
        request.getfixturevalue("connected")
    names = made(tmp_path / "data", 4)
    dataset = Second(names, Compose([add_one, prebake.random(jitter)]))
    wrapped = prebake.wrap(dataset)
    random.seed(3)
    expected = [int(dataset[i][0]) for i in range(4)]
    random.seed(3)
    assert [int(each[0]) for each in wrapped.__getitems__(range(4))] == expected


@pytest.mark.usefixtures("connected")
def test_one_item_that_lists_a_folder_fails_no_job(tmp_path: Path) -> None:
    class Lists(Blobs):
        def __getitem__(self, i: int) -> Any:
            return load(self.names[i]) + np.uint8(len(os.listdir(tmp_path / "data")) if i == 3 else 0)

    names = made(tmp_path / "data", 4)
    assert firsts(prebake.wrap(Lists(names)), 4) == [0, 1, 2, 7]
