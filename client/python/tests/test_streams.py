"""Data sets that are iterated: the same elements with and without, and what is there is not made again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import settle

from prebake._demo_daemon import PrivateDaemon

#: Texts of 100 characters, in rows of 16.
COUNT, ROWS = 24, 150
#: What a stream opens while it was just written is not trusted.
SETTLED_SECONDS = 0.1

Take = Callable[..., dict[str, Any]]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    made = [tmp_path / "texts" / f"{i:03}.txt" for i in range(COUNT)]
    made[0].parent.mkdir()
    for i, path in enumerate(made):
        write(path, f"text {i:03} " * 10)
    time.sleep(SETTLED_SECONDS)
    return [str(path) for path in made]


def write(path: Path, text: str) -> None:
    path.write_text(f"{text:100.100}")
    settle(path)


@pytest.fixture
def take(daemon: PrivateDaemon, tmp_path: Path) -> Take:
    """Goes through a stream in a fresh process; what it saw, said and read (texts, in two epochs)."""

    def run(kind: str, files: list[str], wrapped: bool = True, **more: str) -> dict[str, Any]:
        count = tmp_path / "reads"
        count.write_bytes(b"")
        environment = {
            **os.environ,
            "PREBAKE": "on" if wrapped else "off",
            "PREBAKE_DIR": str(daemon.folder / "cache"),
            "PREBAKE_AUTOSTART": "0",
            "READS": str(count),
            **more,
        }
        task = json.dumps({"kind": kind, "files": files, "wrapped": wrapped})
        done = subprocess.run(
            [sys.executable, "-c", "import streams; streams.main()", task],
            cwd=Path(__file__).parent,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return {**json.loads(done.stdout), "reads": count.stat().st_size}

    return run


@pytest.mark.parametrize("kind", ["Packed", "PackedTokens", "packed", "Reused"])
def test_a_second_job_makes_nothing(take: Take, files: list[str], kind: str) -> None:
    plain = take(kind, files, wrapped=False)
    first, second = take(kind, files), take(kind, files)
    assert first["found"] == second["found"] == plain["found"] and len(plain["found"][0]) in (ROWS, COUNT)
    assert (plain["reads"], first["reads"], second["reads"]) == (2 * COUNT, COUNT, 0)
    assert not first["said"] and not second["said"]


@pytest.mark.parametrize("kind", ["Packed", "packed"])
def test_more_at_the_end_leaves_what_is_before(take: Take, files: list[str], kind: str) -> None:
    fewer = files[: COUNT // 2]
    before = take(kind, fewer)
    grown = take(kind, files)
    assert grown["found"] == take(kind, files, wrapped=False)["found"]
    # It cannot be begun in the middle: once more for those that are there, and never in the second epoch.
    assert (before["reads"], grown["reads"]) == (COUNT // 2, COUNT)
    # Both stay.
    again = take(kind, fewer)
    assert again["found"] == before["found"] and again["reads"] == 0
    assert take(kind, files)["reads"] == 0


def test_what_a_stream_makes_of_each_item_is_made_for_the_tail_only(take: Take, files: list[str]) -> None:
    take("PackedTokens", files[:-3])
    grown = take("PackedTokens", files)
    assert grown["found"] == take("PackedTokens", files, wrapped=False)["found"] and grown["reads"] == 3


def test_what_was_made_first_is_not_waited_for_by_shorter_lists(take: Take, files: list[str]) -> None:
    assert take("Packed", files)["reads"] == COUNT
    fewer = take("Packed", files[:5])
    assert fewer["found"] == take("Packed", files[:5], wrapped=False)["found"]


@pytest.mark.parametrize("kind", ["Packed", "PackedTokens", "packed"])
@pytest.mark.parametrize("at", [0, COUNT - 1])
def test_an_edited_file_is_seen(take: Take, files: list[str], kind: str, at: int) -> None:
    before = take(kind, files)
    write(Path(files[at]), "edited " * 20)
    time.sleep(SETTLED_SECONDS)
    edited = take(kind, files)
    assert edited["found"] == take(kind, files, wrapped=False)["found"] != before["found"]
    assert edited["reads"] == (1 if kind == "PackedTokens" else COUNT)


def test_another_order_and_other_parameters_are_another_stream(take: Take, files: list[str]) -> None:
    take("Packed", files)
    turned = take("Packed", files[::-1])
    assert turned["found"] == take("Packed", files[::-1], wrapped=False)["found"]


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
    take: Take, files: list[str], kind: str, code: str
) -> None:
    plain = take(kind, files, wrapped=False)["found"]
    for _ in range(2):
        found = take(kind, files)
        assert found["found"] == plain
        assert any(code in each for each in found["said"]), found["said"]


def test_an_error_comes_where_it_would(take: Take, files: list[str]) -> None:
    plain = take("Failing", files, wrapped=False)["found"]
    assert plain[0][-1] == "'twenty'" and len(plain[0]) == 21
    assert take("Failing", files)["found"] == take("Failing", files)["found"] == plain
