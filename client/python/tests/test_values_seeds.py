"""The reader of stored values on what fuzzing begins with, and on what was found: without a fuzzer."""

import subprocess
import sys
from pathlib import Path

import pytest

from prebake import Refused
from prebake.codec import tables, values
from prebake.memo import manifest
from prebake.runtime.errors import PrebakeWarning
from prebake.trial import trial
from prebake.watched import watched

FUZZ = Path(__file__).parents[3] / "fuzz" / "python"
SEEDS = sorted((FUZZ / "corpus").iterdir())
#: Ten times what all of them take.
SECONDS_MAX = 60


def replay(*seeds: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: what is watched there cannot be let go of."""
    command = [sys.executable, str(FUZZ / "replay.py"), *map(str, seeds)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)


def test_each_seed_is_read_or_refused() -> None:
    for package in ("pandas", "polars", "pyarrow"):
        pytest.importorskip(package)
    done = replay(*SEEDS)
    # The last one named is the one that it ended at.
    assert done.returncode == 0, done.stdout.splitlines()[-1:] + done.stderr.splitlines()[-5:]
    assert len(done.stdout.splitlines()) == len(SEEDS) > 20


def test_a_value_that_is_read_where_it_should_be_refused_is_told(tmp_path: Path) -> None:
    for package in ("pandas", "polars", "pyarrow"):
        pytest.importorskip(package)
    (tmp_path / "found-none").write_bytes(b'{"kind":"none"}\0')
    done = replay(tmp_path / "found-none")
    assert done.returncode and "it was read" in done.stderr


@pytest.mark.parametrize(
    "layout",
    ["", "[]", "nan", "{}", '{"kind":"ndarray"}', '{"kind":"ndarray","dtype":"O","shape":[1]}', "[" * 100_000]
    + ['{"kind":"ndarray","dtype":"(1,2","shape":[1]}', '{"kind":"tensor","dtype":[],"shape":[1]}'],
)
def test_what_is_no_layout_is_refused_and_has_no_form(layout: str) -> None:
    with pytest.raises(Refused):
        values.decode(layout, bytearray(8))
    assert values.array_form(layout) is None and values.stacked_form(layout) is None
    assert values.decode_batch(bytearray(8), layout, 1) is None


def test_elements_that_are_not_as_long_as_they_say_are_no_batch() -> None:
    layout = '{"dtype":"|u1","kind":"ndarray","shape":[4]}'
    assert values.decode_batch(bytearray(8), layout, 2).shape == (2, 4)
    assert values.decode_batch(bytearray(8), layout, 3) is None
    assert values.decode_batch(bytearray(8), layout, 1) is None


class Stored:
    """Native items, of which one is there that cannot be read here."""

    def locate(self, indices: list[int]) -> list[int]:
        return indices

    def stored(self, i: int) -> tuple[bytearray, str]:
        return bytearray(8), '{"kind":"of a later version"}'


def test_lists_and_trials_that_cannot_be_read_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    assert trial.read(Stored()) is None
    # A function's value: it is compared with what is made here, and is another one.
    assert watched._is_value(*Stored().stored(0))
    lists = manifest.Manifest([])
    monkeypatch.setattr(lists, "_entry", lambda job: Stored())
    with pytest.warns(PrebakeWarning, match="later version"):
        lists.follow(None)
    assert not lists.names


def test_a_panic_of_a_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        """As Rust's are in Python."""

    def load(self: tables._Unpickler) -> None:
        raise PanicException("called `Result::unwrap()` on an `Err` value")

    monkeypatch.setattr(tables._Unpickler, "load", load)
    with pytest.raises(Refused, match="unwrap"):
        tables.unpickled(b"", [], {})
    monkeypatch.setattr(tables._Unpickler, "load", lambda self: sys.exit(3))
    with pytest.raises(SystemExit):
        tables.unpickled(b"", [], {})
