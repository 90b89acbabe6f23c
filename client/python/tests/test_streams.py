"""Data sets that are iterated: the same elements with and without, and what is there is not made again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from conftest import SETTLED_SECONDS, TEXTS, Take, write_text

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
