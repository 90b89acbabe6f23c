"""Another user's files in place of a user's, in small, and that the harness tells what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

OWNERS = Path(__file__).parents[1] / "owners"
#: What is known: a daemon follows a link to another folder of its user's that took the place of its segments,
#: which that user alone can put there; and one whose sockets were opened to others tells them its counters.
KNOWN = {"segments, link to mine, running", "other at the user's daemon, by hand"}
#: Three times what it takes.
SECONDS_MAX = 180


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The harness."""
    command = [sys.executable, str(OWNERS / "owners.py"), *arguments]
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, env=environment)


@pytest.fixture
def root() -> None:
    """Only root may give files away, and run programs as others."""
    if os.geteuid():
        pytest.skip("not run: needs root")


@pytest.mark.usefixtures("root")
def test_what_another_user_plants_is_not_used(tmp_path: Path) -> None:
    done = run("--quick", "--out", str(tmp_path / "owners.json"))
    if "not run: " in done.stdout:
        pytest.skip(done.stdout.strip())
    cases = json.loads((tmp_path / "owners.json").read_text())
    assert len(cases) > 20, done.stdout
    found = {case["case"]: case["breaches"] for case in cases if case["breaches"]}
    assert done.returncode == bool(found), done.stdout
    # One that is mended is to be taken out of those that are known.
    assert found.keys() == KNOWN, found


def test_elsewhere_it_says_that_it_needs_root(tmp_path: Path) -> None:
    if not os.geteuid():
        pytest.skip("this is root")
    done = run("--out", str(tmp_path / "owners.json"))
    assert (done.returncode, done.stdout) == (0, "not run: needs root\n")
