"""Programs drawn from a grammar, edited anywhere between runs, cached against uncached.

A seed says which program (`grammar.py`): one to four of the constructs by which programs get at what their
code does not spell (`constructs_*.py`), with numbers from anywhere (`sources.py`), in some files, behind
one of the fronts (`fronts.py`). Each is run without the cache and with it, again in other processes, after
each of some edits (`edits.py`: any line of any file, any variable, any argument), and at last as it was at
first (`compare.py`). All that it prints, how it ends and what it writes must be the same each time; what is
drawn anew each time must be drawn anew. Runs are children of a process that has imported what is slow to
import (`zygote.py`). A program that fails is made smaller (`shrink.py`) and written down (`--keep`); those in
`kept/` are run first, every time.

Prints a table of counts by construct, front, source and kind of edit, and at last `N programs, N wrong; ...`.
Exits with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import itertools
import json
import queue
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import builder
import grammar
from compare import Outcome, check, program_of, words
from machine import Machine
from report import Report
from shrink import shrunk

KEPT = Path(__file__).with_name("kept")
#: Programs that share a daemon and its cache.
BATCH = 200
#: The report, after so many.
WRITTEN_EVERY = 100


class Work:
    """What all workers share: seeds still to be run, and what was found."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked = asked
        self.pythons = [sys.executable, *asked.python]
        self.todo: queue.SimpleQueue[Any] = queue.SimpleQueue()
        kept = [] if asked.no_kept else sorted(KEPT.glob("*.json"))
        for path in kept:
            for python in self.pythons:
                self.todo.put((python, path))
        for n, seed in enumerate(itertools.islice(self._seeds(), asked.programs)):
            # Each version has all fronts and all constructs, of other seeds.
            self.todo.put((self.pythons[n % len(self.pythons)], seed))
        self.report = Report()
        self.lock = threading.Lock()
        self.until = time.monotonic() + asked.seconds if asked.seconds else None

    def _seeds(self) -> Iterator[int]:
        """From the first on, all or those whose programs have constructs that are asked for."""
        wanted = tuple(self.asked.construct)
        for seed in itertools.count(self.asked.first):
            if not wanted or any(name.startswith(wanted) for name in grammar.drawn(seed)[1]):
                yield seed

    def worker(self) -> None:
        """Runs programs until none is left."""
        machines: dict[str, Machine] = {}
        done = 0
        try:
            while self.until is None or time.monotonic() < self.until:
                try:
                    python, what = self.todo.get_nowait()
                except queue.Empty:
                    return
                if python not in machines:
                    machines[python] = Machine(python, self.asked.before)
                machine = machines[python]
                done += 1
                if done % BATCH == 0:
                    machine.empty()
                try:
                    self.one(machine, what)
                except Exception as error:  # of the harness, not of what is tested
                    with self.lock:
                        print(f"not run: {what}: {type(error).__name__}: {error}", flush=True)
                        self.report.broken += 1
                    machines.pop(python).__exit__()
        finally:
            for machine in machines.values():
                machine.__exit__()

    def one(self, machine: Machine, what: Any) -> None:
        if isinstance(what, Path):
            kept = json.loads(what.read_text())
            self.note(check(machine, program_of(kept), kept["edits"], kept.get("seed", 0)), what.stem)
            return
        outcome = check(machine, grammar.program(what, self.asked.front), seed=what)
        smaller = outcome
        if outcome.wrong and not self.asked.no_shrink:
            smaller = shrunk(machine, outcome)
        self.note(outcome, str(what), smaller)

    def note(self, outcome: Outcome, name: str, smaller: Outcome | None = None) -> None:
        with self.lock:
            self.report.add(outcome, name, smaller or outcome)
            if outcome.wrong and self.asked.keep:
                self.asked.keep.mkdir(parents=True, exist_ok=True)
                text = json.dumps(words(smaller or outcome), indent=1)
                (self.asked.keep / f"{name}.json").write_text(text + "\n")
            if self.report.programs % WRITTEN_EVERY == 0:
                print(self.report.line(), flush=True)
                self.write()

    def write(self) -> None:
        """What was counted so far: a long run may be ended from outside."""
        if self.asked.out:
            self.asked.out.parent.mkdir(parents=True, exist_ok=True)
            self.asked.out.write_text(json.dumps(self.report.as_json(), indent=1) + "\n")


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    arguments.add_argument("--first", type=int, default=0, help="the first seed")
    arguments.add_argument("--programs", type=int, default=300, help="how many seeds")
    arguments.add_argument("--jobs", type=int, default=2, help="programs at a time")
    arguments.add_argument("--python", action="append", default=[], help="another interpreter with prebake")
    arguments.add_argument("--front", help="the same front for all")
    arguments.add_argument(
        "--construct",
        action="append",
        default=[],
        metavar="NAME",
        help="only programs with a construct whose name begins so, or as another that is given",
    )
    arguments.add_argument("--seconds", type=float, help="begin no program after so long")
    arguments.add_argument("--keep", type=Path, help="where programs that fail are written down")
    arguments.add_argument("--out", type=Path, help="all counts, as JSON")
    arguments.add_argument("--no-shrink", action="store_true")
    arguments.add_argument("--no-kept", action="store_true")
    arguments.add_argument(
        "--before", action="append", default=[], help="a line for each cached run to begin with"
    )
    asked = arguments.parse_args()
    for name in asked.construct:
        if not any(each.startswith(name) for each in builder.CONSTRUCTS):
            arguments.error(f"no construct is named {name}...")
    work = Work(asked)
    workers = [threading.Thread(target=work.worker) for _ in range(asked.jobs)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    work.write()
    print(work.report.table())
    print(work.report.line())
    return 1 if work.report.wrong or work.report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
