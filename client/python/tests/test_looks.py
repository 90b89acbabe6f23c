"""What items depend on without opening it: files that are looked for, and what is around their code."""

from __future__ import annotations

import os
import pickle
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prebake
from prebake.reads import stat_observations
from prebake.reads.recorder import Recorder

COUNT = 4


class Sidecars:
    """Items of one file each, and of another that may be there."""

    def __init__(self, root: Path) -> None:
        self.files = sorted(root.glob("*.bin"))

    def __len__(self) -> int:
        return len(self.files)

    def beside(self, path: Path) -> str:
        return path.read_text() if path.exists() else "none"

    def __getitem__(self, i: int) -> tuple[bytes, str]:
        return self.files[i].read_bytes(), self.beside(self.files[i].with_suffix(".txt"))


class Tried(Sidecars):
    def beside(self, path: Path) -> str:
        try:
            return path.read_text()
        except FileNotFoundError:
            return "none"


class Dated(Sidecars):
    def beside(self, path: Path) -> str:
        return str(os.path.getmtime(path.with_suffix(".bin")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    root.mkdir()
    for i in range(COUNT):
        (root / f"{i}.bin").write_bytes(bytes([i]) * 9)
    # What was written just now may be written again unseen: it is not stored.
    time.sleep(2.1)
    return root


def epoch(wrapped: Any) -> list[Any]:
    return [wrapped[i] for i in range(COUNT)]


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("kind", [Sidecars, Tried])
def test_a_file_that_was_not_there_counts_once_it_is(folder: Path, kind: type[Sidecars]) -> None:
    wrapped = prebake.wrap(kind(folder))
    plain = epoch(kind(folder))
    assert epoch(wrapped) == epoch(wrapped) == plain
    assert wrapped.stats()["reused"] == wrapped.stats()["computed"] == COUNT
    (folder / "1.txt").write_text("there")
    expected = [*plain[:1], (plain[1][0], "there"), *plain[2:]]
    assert epoch(wrapped) == expected
    assert wrapped.stats()["reused"] == 2 * COUNT - 1, "the others were computed again"
    assert epoch(prebake.wrap(kind(folder))) == expected
    (folder / "1.txt").unlink()
    assert epoch(wrapped) == plain
    assert epoch(prebake.wrap(kind(folder))) == plain


@pytest.mark.usefixtures("connected")
def test_the_time_of_a_file_counts_for_who_asks_for_it(folder: Path) -> None:
    wrapped = prebake.wrap(Dated(folder))
    assert epoch(wrapped) == epoch(Dated(folder)) == epoch(wrapped)
    os.utime(folder / "2.bin", (5, 5))
    assert epoch(wrapped) == epoch(Dated(folder))


@pytest.mark.usefixtures("connected")
def test_looks_are_told_apart_by_what_is_asked(tmp_path: Path) -> None:
    there, nowhere = tmp_path / "there", tmp_path / "nowhere"
    there.write_text("four")
    before = (os.stat, pickle.dumps(os.stat), os.stat in os.supports_dir_fd, os.stat.__name__)
    with Recorder() as record:
        assert not nowhere.exists()
        assert os.path.isfile(there)
        assert os.path.getsize(tmp_path) > 0
        os.stat(path=there)
    # The functions are what they were to all who hold or compare them.
    assert before == (os.stat, pickle.dumps(os.stat), os.stat in os.supports_dir_fd, os.stat.__name__)
    assert {path: depth for path, (depth, _) in record.looks.items()} == {
        str(nowhere): stat_observations.KIND,
        str(there): stat_observations.ALL,
        str(tmp_path): stat_observations.SIZE,
    }
    assert record.incomplete is None
    with Recorder() as record:
        assert os.path.isfile(there)
        there.read_text()
    assert not record.facts(), "the content tells that it is there"


class Counting:
    """A data set that changes itself, and keeps its transform apart."""

    def __init__(self) -> None:
        self.transform = abs
        self.number = 0

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, i: int) -> tuple[Any, int]:
        self.number += 1
        return self.transform(np.full(3, i)), self.number


class CountingLate(Counting):
    def __getitem__(self, i: int) -> tuple[Any, int]:
        self.late = getattr(self, "late", 0) + 1
        return self.transform(np.full(3, i)), self.late


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("kind", [Counting, CountingLate])
@pytest.mark.filterwarnings("ignore::prebake.PrebakeWarning")
def test_a_data_set_that_counts_goes_on_counting(kind: type[Counting]) -> None:
    wrapped = prebake.wrap(kind())
    assert [number for _, number in epoch(wrapped) + epoch(wrapped)] == list(range(1, 2 * COUNT + 1))


class Knob:
    turn = 1


helper = types.ModuleType("helper_of_test_looks")
helper.turn = 1  # type: ignore[attr-defined]
table = np.ones(3)
nested = {"deep": [{"turn": 1}]}


@prebake.pure
def of_class(path: str) -> Any:
    return np.full(3, Knob.turn)


@prebake.pure
def of_module(path: str) -> Any:
    return np.full(3, helper.turn)  # type: ignore[attr-defined]


@prebake.pure
def of_array(path: str) -> Any:
    return table * 2


@prebake.pure
def of_variable(path: str) -> Any:
    return np.full(3, int(os.environ.get("TURN_OF_TEST_LOOKS", "1")))


@prebake.pure
def of_nested(path: str) -> Any:
    return np.full(3, nested["deep"][0]["turn"])


def turn_array() -> None:
    table[0] += 1


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("step", "turn"),
    [
        (of_class, lambda: setattr(Knob, "turn", Knob.turn + 1)),
        (of_module, lambda: setattr(helper, "turn", helper.turn + 1)),
        (of_array, turn_array),
        (of_variable, lambda: os.environ.update(TURN_OF_TEST_LOOKS="7")),
        (of_nested, lambda: nested["deep"][0].update(turn=nested["deep"][0]["turn"] + 1)),
    ],
)
def test_what_code_takes_is_looked_at_at_each_item(
    folder: Path, step: Callable[[str], Any], turn: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, helper.__name__, helper)
    monkeypatch.setenv("TURN_OF_TEST_LOOKS", "1")
    wrapped = prebake.wrap([str(each) for each in sorted(folder.iterdir())], [step])
    for _ in range(3):
        # Now, and not at the next epoch.
        assert np.array_equal(wrapped[0], step(""))
        turn()
        assert np.array_equal(wrapped[0], step(""))
        assert np.array_equal(wrapped[1], step(""))


def test_a_look_whose_answer_is_not_known_counts_also_above_what_was_opened() -> None:
    known, unknown = (stat_observations.KIND, " 16384"), (stat_observations.KIND, None)
    assert stat_observations.beside({"/data/a": known}, ["/data/a/x"]) == {}
    assert stat_observations.beside({"/data/a": unknown}, ["/data/a/x"]) == {"look:kind:/data/a": None}
