"""The two sets of tests, and what comes of running some of them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from defect import Defect

CAUGHT, MISSED, BROKEN = "caught", "NOT CAUGHT", "does not compile"
PASSED = MISSED
#: What `timeout` says.
TOO_LONG = 124
#: A build and some tests; the first build is of everything.
SECONDS_MAX, FIRST_SECONDS_MAX = 1200, 5400


class Ran(NamedTuple):
    """What came of it, one of the words above or why nothing did; tests that failed; all that was said."""

    outcome: str
    failed: list[str]
    said: str


def _run(command: Sequence[str], folder: Path, seconds: int, **variables: str) -> tuple[int, str]:
    # A folder that the caller uses is none of ours.
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PREBAKE")}
    bounded = ["timeout", "--foreground", "--kill-after=10", str(seconds), *command]
    done = subprocess.run(
        bounded,
        cwd=folder,
        env={**ours, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return done.returncode, done.stdout


class Rust:
    """What is compiled, in a work tree of its own. It is built as a whole: of parts, features differ, and all
    is built again."""

    #: See nextest's `NextestExitCode`.
    CODES = {
        0: PASSED,
        4: "its filter names no test",
        94: "its filter is none",
        100: CAUGHT,
        101: BROKEN,
        TOO_LONG: "takes too long",
    }
    _FAILED = re.compile(r"^\s+(?:FAIL|TIMEOUT|ABORT|SIG[A-Z]+) +\[.*\] .*?(\S+ \S+)$", re.MULTILINE)

    def __init__(self, tree: Path, target: Path) -> None:
        self._tree, self._target = tree, target

    def file(self, defect: Defect) -> Path:
        """Where a defect is put."""
        return self._tree / defect.file

    def run(self, tests: Sequence[str], seconds: int = SECONDS_MAX) -> Ran:
        """Runs what some filters name."""
        which = " or ".join(f"({each})" for each in tests)
        command = ["cargo", "nextest", "run", "--offline", "--locked", "--workspace", "-E", which]
        code, said = _run(
            command,
            self._tree,
            seconds,
            CARGO_TARGET_DIR=str(self._target),
            CARGO_TERM_COLOR="never",
        )
        failed = sorted({*self._FAILED.findall(said)})
        return Ran(self.CODES.get(code, f"nextest ends with {code}"), failed, said)


class Python:
    """The package, as it is installed in an environment."""

    CODES = {
        0: PASSED,
        1: CAUGHT,
        2: "cannot be imported",
        4: "cannot be imported",
        5: "its words name no test",
        TOO_LONG: "takes too long",
    }
    _FAILED = re.compile(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", re.MULTILINE)

    def __init__(self, tree: Path, venv: Path) -> None:
        self._tree, self._python = tree, venv / "bin" / "python"
        found = [*venv.glob("lib/python3*/site-packages/prebake")]
        if len(found) != 1:
            raise FileNotFoundError(f"Prebake is not installed in {venv}: make python")
        self._installed = found[0].parent

    def file(self, defect: Defect) -> Path:
        """Where a defect is put. Raises `ValueError` if what is installed is not what is tested."""
        file = self._installed / Path(defect.file).relative_to("client/python")
        if file.read_bytes() != (self._tree / defect.file).read_bytes():
            raise ValueError(f"{file} is not that of the last commit: rm .venv/.wheel and make python")
        return file

    def run(self, tests: Sequence[str], seconds: int = SECONDS_MAX) -> Ran:
        """Runs what some words for pytest name, one after the other; what came of the first that does not
        pass."""
        ran = Ran("no tests", [], "")
        for each in tests:
            command = [str(self._python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *shlex.split(each)]
            code, said = _run(command, self._tree, seconds, PYTHONDONTWRITEBYTECODE="1")
            outcome = self.CODES.get(code, f"pytest ends with {code}")
            ran = Ran(outcome, sorted({*self._FAILED.findall(said)}), said)
            if outcome != PASSED:
                break
        return ran
