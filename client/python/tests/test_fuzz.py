"""A few seeds of the fuzz, and that it tells a stale hit. `make fuzz` runs as many seeds as asked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

#: A list of files, and data sets that read a neighbour's file, ask for links, keep an index, try a file that
#: may be missing. Even ones have their code in the script, odd ones in modules of their own.
SEEDS = [0, 1, 6, 7, 13]
#: The first run stores, the second finds what was stored.
RUNS = 2

#: Python runs this in each process before the job: what steps hold is never found changed.
BLIND = """
from prebake.identity import snapshot
snapshot.Snapshot.holds = lambda self, roots: True
"""
#: One whose first run edits what its steps reach between two epochs.
EDITED_SEED = 0


def fuzz(seed: int, runs: int, **environment: str) -> tuple[int, str]:
    """How the driver ended and what it printed of a seed."""
    driver = Path(__file__).with_name("fuzz") / "run.py"
    command = [sys.executable, str(driver), "--first", str(seed), "--seeds", "1", "--runs", str(runs)]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cached_run_prints_what_an_uncached_one_does(seed: int) -> None:
    code, said = fuzz(seed, RUNS)
    assert code == 0, said
    counts = re.search(r"computed\+reused ([^;]*);", said)
    assert counts is not None, said
    assert sum(int(count.split("+")[1]) for count in counts[1].split(", ")) > 0, f"nothing was reused: {said}"


def test_a_stale_hit_is_told(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLIND)
    code, said = fuzz(EDITED_SEED, 1, PYTHONPATH=str(tmp_path))
    assert code == 1, said
    assert f"seed {EDITED_SEED}: DIFFERENT" in said and "cached:   " in said, said
