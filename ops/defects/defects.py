"""Puts defects into the code, one at a time, and tells whether the tests catch each: `defects.py --out FILE`.

The list is `defects.toml`. Defects are put into a work tree of the last commit, below `target/defects`, and
those of the package into the environment in which it is installed; each is taken out again whatever happens.
All tests that are named have to pass without one first. One whose build fails is not caught: nobody would
ship it. The run ends with 1 if one is not caught.

One that is not caught is not always a hole in the tests: a second check behind the first may see the same.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from defect import Defect, listed
from suites import CAUGHT, FIRST_SECONDS_MAX, PASSED, Python, Ran, Rust

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "target" / "defects"
COLUMNS = "{:33} {:17} {:>7}  {}"
SAID_LINES = 40


def work_tree() -> Path:
    """The last commit, as it is, with what an earlier run left taken out."""
    tree = FOLDER / "tree"
    if (tree / ".git").exists():
        commit = _git(ROOT, "rev-parse", "HEAD")
        _git(tree, "checkout", "--quiet", "--force", "--detach", commit)
    else:
        FOLDER.mkdir(parents=True, exist_ok=True)
        _git(ROOT, "worktree", "prune")
        _git(ROOT, "worktree", "add", "--quiet", "--force", "--detach", str(tree), "HEAD")
    return tree


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def tried(defect: Defect, suite: Rust | Python) -> dict[str, Any]:
    """What came of one."""
    begun = time.monotonic()
    try:
        with defect.within(suite.file(defect), is_dated=isinstance(suite, Python)):
            ran = suite.run([defect.tests])
    except ValueError as error:
        ran = Ran("cannot be put in", [], str(error))
    return {
        "name": defect.name,
        "file": defect.file,
        "outcome": ran.outcome,
        "by": ran.failed,
        "seconds": round(time.monotonic() - begun, 1),
        "said": "" if ran.outcome == CAUGHT else _end(ran),
    }


def _end(ran: Ran) -> str:
    return "\n".join(ran.said.splitlines()[-SAID_LINES:])


def unharmed(suite: Rust | Python, defects: Iterable[Defect]) -> None:
    """Runs all tests of some defects without any, and ends if one fails."""
    ran = suite.run([*dict.fromkeys(defect.tests for defect in defects)], FIRST_SECONDS_MAX)
    if ran.outcome != PASSED:
        why = f"without a defect: {ran.outcome.replace(CAUGHT, 'tests fail')}"
        sys.exit("\n".join([why, *ran.failed, _end(ran)]))


def show(found: dict[str, Any]) -> None:
    """One line."""
    by = found["by"][0] if found["by"] else ""
    print(COLUMNS.format(found["name"], found["outcome"], f"{found['seconds']:.1f}", by).rstrip(), flush=True)
    if found["said"]:
        print("    " + found["said"].replace("\n", "\n    "), file=sys.stderr, flush=True)


def arguments(names: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="these and no others")
    parser.add_argument("--list", action="store_true", help="tell what there is, and run nothing")
    parser.add_argument("--target", type=Path, default=FOLDER / "target", help="where Cargo builds")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", help="where the package is installed")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def main() -> int:
    """Those that are compiled first: they share builds."""
    # Ended by `timeout`, it still takes its defect out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    defects = listed()
    given = arguments([defect.name for defect in defects])
    defects = [defect for defect in defects if not given.only or defect.name in given.only]
    if given.list:
        for defect in defects:
            print(f"{defect.name} ({defect.file})\n    {defect.why}\n    {' '.join(defect.tests.split())}")
        return 0
    tree = work_tree()
    commit = _git(tree, "rev-parse", "HEAD")
    print(f"commit {commit}\n{COLUMNS.format('defect', 'outcome', 'seconds', 'first test that fails')}")
    skipped = [defect.name for defect in defects if defect.root and os.geteuid() != 0]
    found: list[dict[str, Any]] = []
    for is_python in (False, True):
        chosen = [each for each in defects if each.is_python == is_python and each.name not in skipped]
        if not chosen:
            continue
        suite = Python(tree, given.venv.absolute()) if is_python else Rust(tree, given.target.absolute())
        unharmed(suite, chosen)
        for defect in chosen:
            found.append(tried(defect, suite))
            show(found[-1])
    for name in skipped:
        print(f"{name:33} not run: only root can")
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        made = {"commit": commit, "skipped": skipped, "defects": found}
        given.out.write_text(json.dumps(made, indent=1) + "\n")
    caught = sum(each["outcome"] == CAUGHT for each in found)
    print(f"{caught} of {len(found)} defects caught")
    return int(caught != len(found))


if __name__ == "__main__":
    sys.exit(main())
