"""The crowd in small: nobody is given a wrong value or turned away, and the daemon keeps its bounds."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CROWD = Path(__file__).parent.parent / "crowd"
CLIENTS = 40
SECONDS = 5
#: The daemon has no bound yet on what these make it keep: descriptors on their way to who does not read, and
#: calls that are sent in part.
UNBOUNDED = ("grabber", "hoarder")


def crowd(out: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """The harness, and what it wrote."""
    size = ["--clients", str(CLIENTS), "--seconds", str(SECONDS), "--out", str(out)]
    command = [sys.executable, str(CROWD / "crowd.py"), *size, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return done, json.loads(out.read_text()) if out.exists() else {}


def test_a_daemon_bears_a_crowd_of_which_some_do_not_behave(tmp_path: Path) -> None:
    done, out = crowd(tmp_path / "crowd.json", "--without", *UNBOUNDED)
    assert done.returncode == 0 and out["findings"] == [], done.stdout + done.stderr
    assert sum(out["clients"].values()) == CLIENTS and set(out["counts"]) == set(out["clients"])
    # All of them did what they are there for.
    counts = out["counts"]
    assert counts["reader"]["connected"] == out["clients"]["reader"] and counts["reader"]["reads"]
    for kind, what in (
        ("deaf", "asked"),
        ("forger", "forged"),
        ("greedy", "asked"),
        ("vanisher", "visits"),
        ("holder", "held"),
    ):
        assert counts[kind][what], counts
    assert counts["dribbler"]["connections"] and counts["silent"]["connections"], counts
    assert out["visitors"]["jobs"] and not out["visitors"].get("failed")
    # The probe was given hits, and the daemon was looked at, all the time.
    for phase in ("before", "crowd", "after"):
        windows = out["phases"][phase]["windows"]
        assert all(window[kind]["count"] for window in windows for kind in ("mapped", "asked"))
        assert len(out["samples"][phase]) > 1
    most = {name: max(sample[name] for sample in out["samples"]["crowd"]) for name in ("jobs", "sockets")}
    assert most["jobs"] > out["clients"]["reader"] and most["sockets"] > CLIENTS
    assert out["ratios"].keys() == {"mapped", "asked", "own"}


@pytest.mark.parametrize(
    ("sample", "found"),
    [
        ({"anonymous": 1 << 30}, "bytes of its own"),
        ({"shared": 1 << 40}, "shared memory"),
        ({"descriptors": 9_999}, "descriptors"),
        ({"threads": 600}, "threads"),
        ({"counted": 2}, "counts itself"),
    ],
)
def test_a_bound_that_is_broken_is_found(
    monkeypatch: pytest.MonkeyPatch, sample: dict[str, float], found: str
) -> None:
    monkeypatch.syspath_prepend(str(CROWD))
    import bounds

    names = ("shared", "counted", "anonymous", "descriptors", "threads", "sockets", "jobs")
    well = {**dict.fromkeys(names, 1.0), "counted_max": 1.0}
    assert bounds.of_samples(CLIENTS, 10_000, well, [well], well) == []
    findings = bounds.of_samples(CLIENTS, 10_000, well, [well, {**well, **sample}], well)
    assert findings and all(found in finding for finding in findings)
    left = {**well, "jobs": 2.0, "sockets": 20.0}
    assert len(bounds.of_samples(CLIENTS, 10_000, well, [well], left)) == 2
    assert bounds.of_log(["line"] * 1_000, SECONDS) and not bounds.of_log(["line"], SECONDS)
