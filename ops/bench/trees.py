"""`python ops/bench/trees.py OLD NEW`: what a change costs, by turns of two clones where `make python` ran.

A fresh job's first warm batch in a world that is proven, and in one that is not, beyond two items' own cost;
with `--warm` the warm rows too. Each tree runs its own scripts, with its own daemon. Nothing else should run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from elements import make_files
from processes import SCRIPT_SECONDS_MAX, cache_environment
from rows import Row
from warm import RAM_BYTES, SETTLE_SECONDS

from prebake.demo.daemon import PrivateDaemon
from prebake.demo.run import ONE_THREAD

ITEMS = 1000
#: What nobody waits for is done: a cache is filled, settled, and read by processes of one world.
FILLS, READS = 3, 2
#: What a warm row takes: fewer pairs than a benchmark's, in more turns.
PAIRS = 12
WARM_SECONDS_MAX = 1200
WARM = (
    "import sys, json, warm; rows = warm.Warm({items}, 1, {pairs}, sys.executable, False).rows()\n"
    "print(json.dumps({{row.id: row.figures()['value'] for row in rows}}))"
)


class Tree:
    """A clone, and a daemon of its own over some files."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.bench, self.python = root / "ops" / "bench", root / ".venv" / "bin" / "python"
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prebake-trees-")))
        self.files = folder / "files"
        make_files(self.files, ITEMS)
        os.environ["PREBAKE_DAEMON"] = str(root / "target" / "release" / "prebaked")
        self.daemon = stack.enter_context(PrivateDaemon(folder, "--ram-bytes", str(RAM_BYTES)))
        for _ in range(FILLS):
            self.script("fill_job.py", str(self.files))
        time.sleep(SETTLE_SECONDS)
        for _ in range(READS):
            self.first()

    def script(self, name: str, *arguments: str) -> dict[str, Any]:
        """What one of its scripts answers."""
        return self._run([str(self.bench / name), *arguments], SCRIPT_SECONDS_MAX)

    def first(self, *world: str) -> dict[str, Any]:
        """What a fresh job finds; in a `world` of its own, if one is named."""
        return self.script("first_job.py", str(self.files), *world)

    def warm(self) -> dict[str, float]:
        """The medians of its warm rows."""
        return self._run(["-c", WARM.format(items=4 * ITEMS, pairs=PAIRS)], WARM_SECONDS_MAX)

    def _run(self, arguments: Sequence[str], seconds: float) -> dict[str, Any]:
        environment = {**os.environ, **ONE_THREAD, **cache_environment(self.daemon)}
        done = subprocess.run(
            [str(self.python), *arguments],
            env={**environment, "PYTHONHASHSEED": "0", "PYTHONPATH": str(self.bench)},
            stdout=subprocess.PIPE,
            text=True,
            timeout=seconds,
            check=True,
        )
        return dict(json.loads(done.stdout.splitlines()[-1]))


def first_rows(old: Tree, new: Tree, turns: int) -> list[Row]:
    """Of first batches: the difference of each pair, and the new tree's own cost in new worlds."""
    proven = Row("first_batch_more_ms", "ms, first batch in a proven world, new - old", "lower", 0.5)
    unproven = Row("unproven_batch_ms", "ms, the same in an unproven world, beyond two items", "lower", 5)
    before = Row("unproven_batch_before_ms", "ms, the same of the old tree", "lower")
    for i in range(turns):
        found = {tree: tree.first()["first_batch_ms"] for tree in _turn(old, new, i)}
        proven.add([found[new] - found[old]])
        found = {tree: tree.first(f"--world={i}")["unproven_batch_ms"] for tree in _turn(old, new, i)}
        unproven.add([found[new]])
        before.add([found[old]])
    return [proven, unproven, before]


def warm_rows(old: Tree, new: Tree, turns: int) -> list[Row]:
    """Of warm reads: how much worse the new tree's median is in each turn."""
    rows: dict[str, Row] = {}
    for i in range(turns):
        found = {tree: tree.warm() for tree in _turn(old, new, i)}
        for name in found[old].keys() & found[new].keys():
            row = rows.setdefault(name, Row(name, "new / old", "lower"))
            row.add([found[new][name] / found[old][name]])
    return [rows[name] for name in sorted(rows)]


def _turn(old: Tree, new: Tree, i: int) -> tuple[Tree, Tree]:
    return (old, new) if i % 2 else (new, old)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--warm", type=int, default=0, help="turns of the warm rows, two minutes each")
    asked = parser.parse_args()
    with ExitStack() as stack:
        old, new = (Tree(each.resolve(), stack) for each in (asked.old, asked.new))
        for row in [*first_rows(old, new, asked.turns), *warm_rows(old, new, asked.warm)]:
            told = row.figures()
            print(
                f"{row.id:28} {told['value']:8.3f} [{told['low']:.3f}, {told['high']:.3f}]"
                f"  middle half {_half(row.samples)}  {row.of}{'' if row.bar is None else f', bar {row.bar}'}"
            )


def _half(samples: list[float]) -> str:
    if len(samples) < 2:
        return "-"
    low, _, high = statistics.quantiles(samples)
    return f"{low:.3f} to {high:.3f}"


if __name__ == "__main__":
    main()
