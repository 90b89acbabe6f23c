"""Damage in small: Prebake serves only right bytes, and the harness tells what is not right."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

DAMAGE = Path(__file__).parents[1] / "damage"
sys.path.insert(0, str(DAMAGE))

import cache  # noqa: E402
from cache import KILL, UNHARMED, Cache  # noqa: E402
from damages import KINDS, PAGE_BYTES  # noqa: E402
from table import lines, table  # noqa: E402

TRIALS = 3
TRIED = ("flip body", "truncate", KILL)
#: Ten times what it takes.
SECONDS_MAX = 300
#: A cache that does what its `way` says when it is read.
PRETENDER = """
import os, signal, time
import values

PACKAGES = ("numpy",)


def store(place):
    (place / "cache").mkdir()
    (place / "cache" / "stored").write_bytes(bytes(10_000))


def read(place):
    found = [values.value(number) for number in range(values.COUNT)]
    way = (place / "way").read_text()
    if way == "other":
        found[5] = found[5] ^ (found[5] == found[5][0])
    if way == "fewer":
        found.pop()
    if way == "order":
        found.reverse()
    if way == "raises":
        raise ValueError("it is damaged")
    if way == "dies":
        os.kill(os.getpid(), signal.SIGBUS)
    if way == "sleeps":
        time.sleep(60)
    return found
"""


def test_prebake_serves_only_right_bytes(tmp_path: Path) -> None:
    out = tmp_path / "damage.json"
    kinds = [word for kind in TRIED for word in ("--kind", kind)]
    command = [sys.executable, str(DAMAGE / "damage.py"), "--trials", str(TRIALS), "--out", str(out)]
    done = subprocess.run(
        [*command, "--cache", "prebake", *kinds], capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(out.read_text())
    trials = report["trials"]
    assert [trial["outcome"] for trial in trials] == ["right"] * TRIALS * len(TRIED), trials
    # Without damage it was the cache that served: two items of each function were made to compare them.
    assert report["controls"][0]["made"] <= 4, report["controls"]
    assert f"prebake {report['versions']['prebake']['prebake']}: {len(trials)} trials" in done.stdout


@pytest.mark.parametrize(
    ("way", "outcome", "note"),
    [
        ("honest", "right", ""),
        ("other", "wrong", "1 of which nobody stored"),
        ("fewer", "wrong", "63 values of 64"),
        ("order", "wrong", "in another order"),
        ("raises", "error", "ValueError: it is damaged"),
        ("dies", "error", "SIGBUS"),
        ("sleeps", "hang", ""),
    ],
)
def test_what_a_cache_serves_is_told(
    way: str, outcome: str, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pretender.py").write_text(PRETENDER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(cache, "HANG_SECONDS", 1.0 if way == "sleeps" else 60.0)
    tried = Cache("pretender", "pretender", sys.executable, tmp_path / "place")
    try:
        tried.store()
        (tried.place / "way").write_text(way)
        trial = tried.trial(UNHARMED, random.Random(0))
    finally:
        tried.close()
    assert trial["outcome"] == outcome and note in trial["note"], trial
    assert table([trial]).endswith(f"| pretender | 1 {outcome} | 1 {outcome} |")
    assert f"1 {outcome}" in lines([trial], {"pretender": tried.versions})[0]


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_done_and_drawn_from_the_seed(kind: str, tmp_path: Path) -> None:
    found = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        for i in range(3):
            (folder / f"{i}.bin").write_bytes(random.Random(i).randbytes((i + 1) * PAGE_BYTES))
        (folder / "lock").touch()
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        KINDS[kind](folder, random.Random(3))
        after = {path.name: path.read_bytes() for path in folder.iterdir()}
        changed = {file for file in before if before[file] != after.get(file)}
        assert len(changed) == (2 if kind == "swap" else 1) and "lock" not in changed
        found.append(after)
    assert found[0] == found[1]
