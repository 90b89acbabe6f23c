"""The cut between what is shared and what runs in the job moves, and no step is missed or done twice."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import settle

import prebake
from prebake.probe import probe
from prebake.runtime import daemon

COUNT = 8
THREADS = 3
#: Far from now: no daemon is looked for.
LONG_SECONDS = 1e9


@pytest.fixture
def numbers(tmp_path: Path) -> list[str]:
    """Files that hold their number."""
    paths = [tmp_path / "numbers" / f"{i}.txt" for i in range(COUNT)]
    paths[0].parent.mkdir()
    for i, path in enumerate(paths):
        path.write_text(str(i))
        settle(path)
    return [str(path) for path in paths]


def read(path: str) -> np.ndarray:
    with open(path) as file:
        return np.array([float(file.read())])


class Lazy:
    """Holds what cannot be known from its first use on."""

    def __init__(self, handle: object = None) -> None:
        self.handle = handle

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.handle = self.handle or object()
        return x * 2 + 1


def by_item(dataset: Any) -> list[float]:
    return [float(dataset[i][0]) for i in range(COUNT)]


def by_list(dataset: Any) -> list[float]:
    return [float(x[0]) for x in dataset.__getitems__(range(COUNT))]


def by_batch(dataset: Any) -> list[float]:
    return [float(x[0]) for batch in dataset.batches(size=2) for x in batch]


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("take", [by_item, by_list, by_batch])
def test_a_step_that_becomes_unknowable_is_done_once(numbers: list[str], take: Callable[[Any], Any]) -> None:
    dataset = prebake.wrap(numbers, [read, Lazy()])
    with pytest.warns(prebake.PrebakeWarning, match="R31"):
        assert [take(dataset) for _ in range(2)] == [[2 * i + 1 for i in range(COUNT)]] * 2
    # What comes before it is shared.
    assert dataset.stats()["reused"] + dataset.stats()["computed"] > 0


@pytest.mark.usefixtures("connected")
def test_a_daemon_that_comes_in_mid_epoch_may_move_it(
    numbers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "_retry_at", time.monotonic() + LONG_SECONDS)
    found = []
    with pytest.warns(prebake.PrebakeWarning, match="R31"):
        for batch in prebake.wrap(numbers, [read, Lazy(object())]).batches(size=2):
            found += [float(x[0]) for x in batch]
            monkeypatch.setattr(daemon, "_retry_at", 0.0)
    assert found == [2 * i + 1 for i in range(COUNT)]


class Placed:
    """Yields where it lies in memory, which a probe finds to be elsewhere in another process."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        time.sleep(0.02)
        return x + object.__hash__(self)


def together(call: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=call, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.usefixtures("connected")
@pytest.mark.filterwarnings("ignore::prebake.PrebakeWarning")
def test_threads_that_make_items_while_a_probe_moves_it(numbers: list[str]) -> None:
    placed, found = Placed(), []
    dataset = prebake.wrap(numbers, [read, placed])

    def work(_: int) -> None:
        while dataset._pipeline._items.cut.position == 2:
            found.append(by_item(dataset))
        found.append(by_item(dataset))

    together(work)
    assert len(found) >= THREADS
    assert found == [[i + object.__hash__(placed) for i in range(COUNT)]] * len(found)


def spend(loops: int) -> None:
    for _ in range(loops):
        pass


def first(x: np.ndarray) -> np.ndarray:
    spend(4_000_000 * (x[0] % 2 == 0))
    return x + 1


def second(x: np.ndarray) -> np.ndarray:
    spend(4_000_000 * (x[0] % 2 == 0))
    return x * 10


def third(x: np.ndarray) -> np.ndarray:
    return x - 3


@pytest.mark.usefixtures("connected")
def test_threads_that_choose_the_middle_cut_store_no_element_as_another(numbers: list[str]) -> None:
    dataset = prebake.wrap(numbers, [read, first, second, third])
    dataset._pipeline.begin()
    together(lambda i: float(dataset[i][0]))
    assert by_item(dataset) == [(i + 1) * 10 - 3 for i in range(COUNT)]
    assert by_item(prebake.wrap(numbers, [read, first])) == [i + 1 for i in range(COUNT)]
    assert by_item(prebake.wrap(numbers, [read, first, second])) == [(i + 1) * 10 for i in range(COUNT)]


class Prepared:
    """Makes a table at its first item, and looks for a file beside each."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.table: list[float] | None = None

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, i: int) -> np.ndarray:
        self.table = self.table or [1.0, 2.0]
        more = os.path.exists(os.path.join(self.folder, f"{i}.more"))
        return read(os.path.join(self.folder, f"{i}.txt")) + self.table[0] + more


@pytest.mark.usefixtures("connected")
@pytest.mark.filterwarnings("ignore::prebake.PrebakeWarning")
def test_what_items_read_is_forgotten_whole(numbers: list[str]) -> None:
    folder = os.path.dirname(numbers[0])
    dataset = prebake.wrap(Prepared(folder))
    assert by_item(dataset) == [i + 1 for i in range(COUNT)]
    Path(folder, "3.more").touch()
    assert by_item(dataset) == [i + 1 + (i == 3) for i in range(COUNT)]


@pytest.mark.usefixtures("connected")
@pytest.mark.filterwarnings("ignore::prebake.PrebakeWarning")
@pytest.mark.parametrize("kind", ["files", "dataset"])
def test_a_probe_that_was_starved_is_made_once_by_a_job(
    numbers: list[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    probes = []

    def starved(*args: Any, **how: Any) -> probe.Verdict:
        probes.append(1)
        return probe._unknown("the probe's process took longer than 120 s")._replace(lasting=False)

    monkeypatch.setattr("prebake.memo.probe_cache.run", starved)
    files = kind == "files"
    dataset = (
        prebake.wrap(numbers, [read, third]) if files else prebake.wrap(Prepared(os.path.dirname(numbers[0])))
    )
    expected = [i - 3 if files else i + 1 for i in range(COUNT)]
    assert [by_item(dataset) for _ in range(3)] == [expected] * 3
    assert len(probes) == 1
