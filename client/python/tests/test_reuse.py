"""Where a pipeline is cut by its user's word, and random results that are used more than once by it."""

from __future__ import annotations

import gc
import os
import pickle
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SETTLED_SECONDS, settle

import prebake
from prebake.known import marks

COUNT = 8
#: A file written so recently that a later write could not be told is loaded once more.
RACY_SECONDS = 2.1

#: Calls of this process.
_calls: list[str] = []


@prebake.pure
def count(what: str) -> None:
    sys.modules[__name__]._calls.append(what)


def load(path: str) -> Any:
    count("load")
    return np.fromfile(path, np.uint8).astype(np.float64)


def double(value: Any) -> Any:
    count("double")
    return value * 2


#: Data sets that are about to be let go of.
_others: list[Any] = []


@prebake.pure
def let_go() -> None:
    module = sys.modules[__name__]
    if module._others:
        module._others.pop()
    gc.collect()


def forget(value: Any) -> Any:
    let_go()
    return value


@prebake.random
def noise(value: Any) -> Any:
    return value + random.random()


class Noise:
    """Random by what it calls."""

    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, value: Any) -> Any:
        return value + random.random() * self.by


class Odd:
    """Of which it cannot be seen what it does."""

    def __call__(self, value: Any) -> Any:
        return value + eval("3")


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = [tmp_path / f"{i}.bin" for i in range(COUNT)]
    for i, path in enumerate(paths):
        path.write_bytes(bytes([i, 1, 2]) * 9)
        settle(path)
    time.sleep(RACY_SECONDS)
    _calls.clear()
    return [str(path) for path in paths]


def sums(dataset: Any, order: Any = None) -> list[float]:
    order = range(len(dataset)) if order is None else order
    found = [float(each.sum()) for batch in dataset.batches(order=order, size=3) for each in batch]
    return [value for _, value in sorted(zip(order, found, strict=True))]


def first_seen(epochs: list[list[float]], i: int) -> list[int]:
    """Of item i in each epoch, the epoch that first had it."""
    values = [epoch[i] for epoch in epochs]
    return [values.index(value) for value in values]


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("budget", "seen"), [(1, [0, 1, 2, 3, 4]), (2, [0, 0, 2, 2, 4]), (3, [0, 0, 0, 3, 3])]
)
@pytest.mark.parametrize("step", [noise, prebake.random(Noise(2.0)), Noise(1.0)])
def test_each_result_is_used_as_often_as_is_said(
    files: list[str], budget: int, seen: list[int], step: Any
) -> None:
    dataset = prebake.wrap(files, [load, step], reuse=budget)
    epochs = [sums(dataset, random.sample(range(COUNT), COUNT)) for _ in seen]
    assert all(first_seen(epochs, i) == seen for i in range(COUNT))


@pytest.mark.usefixtures("connected")
def test_a_sampler_that_draws_an_item_twice_uses_it_twice(files: list[str]) -> None:
    dataset = prebake.wrap(files, [load, noise], reuse=3)
    found = [float(dataset[1].sum()) for _ in range(7)]
    assert [found.index(value) for value in found] == [0, 0, 0, 3, 3, 3, 6]
    assert len({float(dataset[i].sum()) - 9 * i for i in range(COUNT)}) == COUNT


@pytest.mark.usefixtures("connected")
def test_another_data_set_that_is_let_go_of_meanwhile_is_no_item_s_doing(files: list[str]) -> None:
    _others.extend(prebake.wrap(files, [load, noise], reuse=2) for _ in range(3 * COUNT))
    dataset = prebake.wrap(files, [load, forget, noise], reuse=3)
    epochs = [sums(dataset) for _ in range(3)]
    assert epochs[0] == epochs[1] == epochs[2]
    assert len(_others) == 2 * COUNT, "each item let go of one, in the job"


@pytest.mark.usefixtures("connected")
def test_other_jobs_draw_for_themselves(files: list[str]) -> None:
    first, second = (prebake.wrap(files, [load, noise], reuse=9) for _ in range(2))
    assert not set(sums(first)) & set(sums(second))


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("spawned", [False, True])
def test_uses_are_counted_over_the_workers_of_a_job(files: list[str], spawned: bool) -> None:
    dataset = prebake.wrap(files, [load, noise], reuse=2)
    # As loaders have it: workers are begun anew in each epoch, from the parent that never loaded anything.
    epochs = [in_worker(dataset, spawned) for _ in range(5)]
    assert all(first_seen(epochs, i) == [0, 0, 2, 2, 4] for i in range(COUNT))


def in_worker(dataset: Any, spawned: bool) -> list[float]:
    if spawned:
        text = pickle.dumps(dataset)
        program = (
            "import sys, pickle, test_reuse\nprint(test_reuse.sums(pickle.loads(sys.stdin.buffer.read())))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=text,
            capture_output=True,
            cwd=Path(__file__).parent,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return list(map(float, done.stdout.decode().strip()[1:-1].split(",")))
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        random.seed()
        os.write(write, repr(sums(dataset)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as out:
        text = out.read()
    os.waitpid(pid, 0)
    return list(map(float, text[1:-1].split(",")))


@pytest.mark.usefixtures("connected")
def test_what_is_reused_is_of_the_file_and_the_step_as_they_are(files: list[str]) -> None:
    step = Noise(1.0)
    dataset = prebake.wrap(files, [load, step], reuse=100)
    before = sums(dataset)
    assert sums(dataset) == before
    Path(files[2]).write_bytes(b"\xff" * 27)
    settle(Path(files[2]))
    time.sleep(SETTLED_SECONDS)
    edited = sums(dataset)
    assert edited[2] > 27 * 250 and [a == b for a, b in zip(before, edited, strict=True)].count(False) == 1
    step.by = 1000.0
    assert not set(sums(dataset)) & set(edited)


@pytest.mark.usefixtures("connected")
def test_reuse_stays_when_pickled_and_is_no_use_without_a_cache(files: list[str]) -> None:
    dataset = prebake.wrap(files, [load, noise], reuse=4)
    assert sums(pickle.loads(pickle.dumps(dataset))) == sums(dataset)
    with pytest.raises(prebake.Refused, match="once or more"):
        prebake.wrap(files, [load], reuse=0)


@pytest.mark.usefixtures("off")
def test_without_prebake_nothing_is_reused(files: list[str]) -> None:
    dataset = prebake.wrap(files, [load, noise], reuse=4)
    assert not set(sums(dataset)) & set(sums(dataset))


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("split", "doubled"), [(None, COUNT), (prebake.split(2), COUNT), (prebake.split(1), 3 * COUNT)]
)
def test_transforms_after_the_split_run_in_the_job(files: list[str], split: Any, doubled: int) -> None:
    steps = [load, double] if split is None else [load, double, split]
    dataset = prebake.wrap(files, steps)
    plain = [float(double(load(path)).sum()) for path in files]
    _calls.clear()
    for _ in range(3):
        assert sums(dataset) == plain
    assert (_calls.count("load"), _calls.count("double")) == (COUNT, doubled)


@pytest.mark.usefixtures("connected")
def test_a_split_vouches_for_what_cannot_be_told(files: list[str]) -> None:
    for steps, shared in (([load, Odd()], 1), ([load, Odd(), prebake.split(2)], 2)):
        dataset = prebake.wrap(files, steps)
        sums(dataset)
        assert dataset._pipeline._items.cut.position == shared


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("step", [noise, Noise(1.0), prebake.random(Noise(1.0))])
def test_a_split_freezes_nothing_random(files: list[str], step: Any) -> None:
    random.seed(5)
    plain = [[float(np.sum(step(load(path)))) for path in files] for _ in range(2)]
    dataset = prebake.wrap(files, [load, step, prebake.split(2)])
    random.seed(5)
    assert [sums(dataset) for _ in range(2)] == plain


def test_a_split_is_a_number_of_transforms() -> None:
    with pytest.raises(ValueError, match="cut after"):
        prebake.split(-1)
    assert marks.split(3)("as it is") == "as it is"
