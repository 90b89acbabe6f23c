"""Some programs of the grammar, those that failed once, and that the harness tells what is wrong. `make fuzz`
runs as many as asked."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs")
#: The same seeds each time: what is found in others is written down in `kept`.
FIRST, COUNT = 60, 25

#: Each run begins with this: whatever surrounds a process, what is stored is taken for proven in it.
TRUSTING = (
    "import prebake.proof.proof as proof; proof.Proof.stand = lambda self, items: True; "
    "import prebake.world.world as world; world._described = lambda: world.World(b'0' * 32, {})"
)
#: So many programs are run by it, and some of them depend on what surrounds them.
BLIND_COUNT = 18


def run(*options: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "run.py"), *options], capture_output=True, text=True, timeout=600
    )
    return done.returncode, done.stdout + done.stderr


def test_programs_print_the_same_cached_and_not() -> None:
    code, said = run("--first", str(FIRST), "--programs", str(COUNT))
    assert code == 0, said
    counts = re.search(r"(\d+) edits, (\d+) changed the value, (\d+) programs reused, (\d+) cannot", said)
    assert counts is not None, said
    edits, changed, reused, invalid = map(int, counts.groups())
    # It would be easy to be right about edits that change nothing, or to cache nothing. Some do not run
    # where they are drawn to.
    assert edits >= 2 * COUNT and changed >= COUNT / 3 and reused >= COUNT / 10 and invalid <= COUNT / 10, (
        said
    )
    assert "0 unlike a real process, 0 not run" in said, said


def test_what_is_stale_is_told_and_written_down(tmp_path: Path) -> None:
    options = (
        "--first",
        "40",
        "--programs",
        str(BLIND_COUNT),
        "--no-kept",
        "--no-shrink",
        "--front",
        "function",
    )
    code, said = run(*options, "--keep", str(tmp_path), "--before", TRUSTING)
    assert code == 1, said
    found = re.search(r"programs, (\d+) wrong", said)
    assert found is not None and int(found[1]) > 0 and "WRONG seed" in said, said
    assert len(list(tmp_path.glob("*.json"))) == int(found[1]), said
