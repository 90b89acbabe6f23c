"""Data sets that are iterated: the same elements with and without, and what is there is not made again."""

from __future__ import annotations

import copy
import pickle
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import streams
from conftest import SETTLED_SECONDS, TEXTS, Take, write_text

import prebake
from prebake.demo.daemon import PrivateDaemon
from prebake.runtime import errors

#: Of texts of 100 characters, in rows of 16.
ROWS = 150


@pytest.mark.parametrize("kind", ["Packed", "PackedTokens", "packed", "Reused"])
def test_a_second_job_makes_nothing(take: Take, texts: list[str], kind: str) -> None:
    plain = take(kind, texts, wrapped=False)
    first, second = take(kind, texts), take(kind, texts)
    assert first["found"] == second["found"] == plain["found"] and len(plain["found"][0]) in (ROWS, TEXTS)
    assert (plain["reads"], first["reads"], second["reads"]) == (2 * TEXTS, TEXTS, 0)
    assert not first["said"] and not second["said"]


@pytest.mark.parametrize("kind", ["Packed", "packed"])
def test_more_at_the_end_leaves_what_is_before(take: Take, texts: list[str], kind: str) -> None:
    fewer = texts[: TEXTS // 2]
    before = take(kind, fewer)
    grown = take(kind, texts)
    assert grown["found"] == take(kind, texts, wrapped=False)["found"]
    # It cannot be begun in the middle: once more for those that are there, and never in the second epoch.
    assert (before["reads"], grown["reads"]) == (TEXTS // 2, TEXTS)
    # Both stay.
    again = take(kind, fewer)
    assert again["found"] == before["found"] and again["reads"] == 0
    assert take(kind, texts)["reads"] == 0


def test_what_a_stream_makes_of_each_item_is_made_for_the_tail_only(take: Take, texts: list[str]) -> None:
    take("PackedTokens", texts[:-3])
    grown = take("PackedTokens", texts)
    assert grown["found"] == take("PackedTokens", texts, wrapped=False)["found"] and grown["reads"] == 3


def test_what_was_made_first_is_not_waited_for_by_shorter_lists(take: Take, texts: list[str]) -> None:
    assert take("Packed", texts)["reads"] == TEXTS
    fewer = take("Packed", texts[:5])
    assert fewer["found"] == take("Packed", texts[:5], wrapped=False)["found"]


@pytest.mark.parametrize("kind", ["Packed", "PackedTokens", "packed"])
@pytest.mark.parametrize("at", [0, TEXTS - 1])
def test_an_edited_file_is_seen(take: Take, texts: list[str], kind: str, at: int) -> None:
    before = take(kind, texts)
    write_text(Path(texts[at]), "edited " * 20)
    time.sleep(SETTLED_SECONDS)
    edited = take(kind, texts)
    assert edited["found"] == take(kind, texts, wrapped=False)["found"] != before["found"]
    assert edited["reads"] == (1 if kind == "PackedTokens" else TEXTS)


def test_another_order_and_other_parameters_are_another_stream(take: Take, texts: list[str]) -> None:
    take("Packed", texts)
    turned = take("Packed", texts[::-1])
    assert turned["found"] == take("Packed", texts[::-1], wrapped=False)["found"]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("Shuffled", "R20"),
        ("Late", "R20"),
        ("Counting", "R25"),
        ("Sorting", "R25"),
        ("Growing", "R25"),
        ("Listing", "R23"),
    ],
)
def test_what_is_not_the_same_again_runs_as_without(
    take: Take, texts: list[str], kind: str, code: str
) -> None:
    plain = take(kind, texts, wrapped=False)["found"]
    for _ in range(2):
        found = take(kind, texts)
        assert found["found"] == plain
        assert any(code in each for each in found["said"]), found["said"]


def test_an_error_comes_where_it_would(take: Take, texts: list[str]) -> None:
    plain = take("Failing", texts, wrapped=False)["found"]
    assert plain[0][-1] == "'twenty'" and len(plain[0]) == 21
    assert take("Failing", texts)["found"] == take("Failing", texts)["found"] == plain


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where texts that this process reads are counted."""
    path = tmp_path / "reads"
    path.write_bytes(b"")
    monkeypatch.setenv("PREBAKE_TEST_READS", str(path))
    return path


def rows(data: Any) -> list[Any]:
    return [row.tolist() for row in data]


@pytest.mark.usefixtures("connected", "counted")
@pytest.mark.parametrize("again", [False, True])
def test_a_daemon_that_dies_harms_nobody(texts: list[str], daemon: PrivateDaemon, again: bool) -> None:
    plain = rows(streams.Packed(texts, 16))
    data = prebake.wrap(streams.Packed(texts, 16))
    if again:
        assert rows(data) == plain
    found = []
    for row in data:
        found.append(row.tolist())
        if len(found) == 20:
            daemon.kill()
    assert found == plain and rows(data) == plain


@pytest.mark.usefixtures("connected")
def test_two_that_go_through_it_at_once(texts: list[str], counted: Path) -> None:
    plain = rows(streams.Packed(texts, 16))
    data = prebake.wrap(streams.Packed(texts, 16))
    # In one thread, in turn, and one that is left early.
    pairs = [(a.tolist(), b.tolist()) for a, b in zip(data, data, strict=True)]
    assert pairs == list(zip(plain, plain, strict=True))
    assert next(iter(data)).tolist() == plain[0]
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(rows(data))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [plain] * 4 and type(data.files) is list


@pytest.mark.usefixtures("connected", "counted")
def test_another_threads_random_numbers_are_left_alone(
    texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, notes, threads = threading.Event(), [], []

    def draw(drawn: threading.Event) -> None:
        random.random()
        drawn.set()
        ended.wait()

    def note(what: str) -> None:
        notes.append(what)
        if not threads:
            drawn = threading.Event()
            threads.append(threading.Thread(target=draw, args=(drawn,)))
            threads[0].start()
            drawn.wait()

    data = prebake.wrap(streams.Packed(texts, 16))
    monkeypatch.setattr(streams, "note", note)
    random.seed(2)
    expected = random.Random(2)
    found = rows(data)
    assert random.random() == [expected.random(), expected.random()][1]
    ended.set()
    threads[0].join()
    notes.clear()
    assert rows(data) == found and not notes


@pytest.mark.usefixtures("connected")
def test_it_looks_like_what_it_wraps(texts: list[str], counted: Path) -> None:
    stream = streams.Packed(texts, 16)
    data = prebake.wrap(stream)
    assert isinstance(data, streams.Packed) and data.length == 16 and data.files is stream.files
    with pytest.raises(TypeError):
        len(data)
    plain = rows(stream)
    for other in (data, copy.copy(data), copy.deepcopy(data), pickle.loads(pickle.dumps(data))):
        assert isinstance(other, streams.Packed) and rows(other) == plain
    assert prebake.wrap(data) is data
    # Twice at once: as it is, and wrapped.
    assert counted.stat().st_size == 2 * TEXTS
    data.files = texts[:3]
    assert rows(data) == rows(streams.Packed(texts[:3], 16)) and stream.files == texts[:3]


@pytest.mark.usefixtures("connected", "counted")
def test_a_stream_in_what_is_wrapped_is_shared_by_itself(
    texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "_said", set())
    inner = prebake.wrap(streams.Packed(texts, 16))
    outer = prebake.wrap(streams.Over(inner))
    expected = rows(streams.Over(streams.Packed(texts, 16)))
    for _ in range(2):
        assert rows(outer) == expected
    write_text(Path(texts[-1]), "edited " * 20)
    time.sleep(SETTLED_SECONDS)
    edited = rows(outer)
    assert edited == rows(streams.Over(streams.Packed(texts, 16))) != expected


@pytest.mark.usefixtures("connected", "counted")
def test_what_cannot_be_wrapped_runs_as_without(texts: list[str]) -> None:
    with pytest.raises(prebake.Refused, match="apply the transforms in it"):
        prebake.wrap(streams.Packed(texts, 16), [len])
    with pytest.raises(prebake.Refused, match="paths of the files"):
        prebake.wrap(streams.Packed(texts, 16), inputs=lambda i: [])
    missing = prebake.wrap(streams.Packed([*texts, "/nowhere"], 16))
    with pytest.raises(FileNotFoundError):
        rows(missing)


@pytest.mark.usefixtures("off", "counted")
def test_without_prebake_it_is_what_it_wraps(texts: list[str]) -> None:
    data = prebake.wrap(streams.Packed(texts, 16))
    assert rows(data) == rows(streams.Packed(texts, 16)) == rows(streams.packed(texts, 16))
