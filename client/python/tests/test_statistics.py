"""What `stats()` says, wherever a data set came from."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import prebake
from prebake.runtime import daemon as runtime_daemon
from prebake.runtime import statistics
from prebake.runtime.statistics import NOTHING, Statistics

NAMES = {"computed", "reused", "followed", "bypassed", "verified", "bytes_ram", "bytes_ssd"}


def load(path: str) -> Any:
    return np.asarray(Image.open(path).convert("RGB"))


def load_as_gray(path: str) -> Any:
    return np.asarray(Image.open(path).convert("L"))


def double(image: Any) -> Any:
    return image * np.uint8(2)


def test_all_names_are_there_where_nothing_was_read(connected: None, images: list[str]) -> None:
    dataset = prebake.wrap(images, [load])
    assert dataset.stats() == NOTHING and set(dataset.stats()) == NAMES
    assert all(type(count) is int for count in dataset.stats().values())
    dataset[0]
    assert set(dataset.stats()) == NAMES and dataset.stats()["computed"] == 1


def test_all_names_are_there_where_it_is_off(off: None, images: list[str]) -> None:
    dataset = prebake.wrap(images, [load])
    dataset[0]
    assert dataset.stats() == NOTHING
    assert pickle.loads(pickle.dumps(dataset)).stats() == NOTHING


def test_all_names_are_there_without_a_daemon(
    connected: None, images: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREBAKE_DIR", str(tmp_path / "none"))
    dataset = prebake.wrap(images, [load])
    with pytest.warns(prebake.PrebakeWarning, match="no cache"):
        dataset[0]
    assert dataset.stats() == NOTHING


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "pickle": lambda dataset: pickle.loads(pickle.dumps(dataset)),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_counts_as_the_first(connected: None, images: list[str], name: str) -> None:
    dataset = prebake.wrap(images, [load])
    other = COPIES[name](dataset)
    for each in (dataset, other):
        list(each.batches())
    assert dataset.stats() == other.stats()
    assert (dataset.stats()["computed"], dataset.stats()["reused"]) == (len(images), len(images))


def test_what_is_wrapped_anew_begins_at_zero(connected: None, images: list[str]) -> None:
    first = prebake.wrap(images, [load])
    list(first.batches())
    before, other = first.stats(), prebake.wrap(images, [load])
    assert other.stats() == NOTHING
    list(other.batches())
    assert first.stats() == before and other.stats()["reused"] == len(images)


def test_what_is_given_other_steps_begins_at_zero(connected: None, images: list[str]) -> None:
    dataset = prebake.wrap(images, [load])
    list(dataset.batches())
    dataset.transforms[:] = [load, double]
    list(dataset.batches([3, 4]))
    # Shared is what was shared before: the new step runs in the job.
    assert dataset.stats()["computed"] == len(images)
    dataset.transforms[:] = [load_as_gray]
    list(dataset.batches([3, 4]))
    assert dataset.stats()["computed"] == 2


def test_what_is_counted_outlives_a_connection(connected: None, images: list[str]) -> None:
    dataset = prebake.wrap(images, [load])
    list(dataset.batches())
    runtime_daemon._current = None
    list(dataset.batches())
    assert (dataset.stats()["computed"], dataset.stats()["reused"]) == (len(images), len(images))


SENDER = """
import pickle, sys
from prebake.runtime.statistics import Statistics
made = Statistics.shared()
made.counters()
sys.stdout.write(pickle.dumps(made).hex() + chr(10))
sys.stdout.flush()
sys.stdin.readline()
"""


def sender() -> tuple[Any, bytes]:
    """A process that has counts, and these as they are sent."""
    process = subprocess.Popen(
        [sys.executable, "-c", SENDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, bytes.fromhex(process.stdout.readline())


def test_counts_of_a_process_that_has_ended_are_counted_for_oneself() -> None:
    process, sent = sender()
    process.communicate("")
    found: Statistics = pickle.loads(sent)
    assert found.read() == NOTHING and found.counters().read() == NOTHING
    table = statistics._table
    assert found._row is not None and found._row.table is table


def test_only_counts_of_that_tag_are_taken() -> None:
    process, sent = sender()
    found: Statistics = pickle.loads(sent)
    address = found._address()
    assert address is not None and found._row is not None and found._row.table is not statistics._table
    assert address.opened_at is not None and address.opened_at[0] == os.getpid()
    there = (process.pid, address.opened_at[1])
    module = runtime_daemon.native()
    assert module.CounterTable.open(address.opened_at, address.tag) is not None
    for place in (there, (process.pid, 0), (1 << 31, 3)):
        assert module.CounterTable.open(place, bytes(16)) is None
    process.communicate("")


def test_more_data_sets_than_a_table_has_rows() -> None:
    tables = set()
    for _ in range(3000):
        made = Statistics.shared()
        assert made._row is not None
        tables.add(made._row.table.tag)
    assert len(tables) in (3, 4)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3000):
        Statistics.shared()
    assert len(os.listdir("/proc/self/fd")) <= before + 1, "descriptors are not given back"
