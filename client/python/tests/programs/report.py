"""Counts of what was run, by construct, front, source and kind of edit."""

from __future__ import annotations

import collections
import time
from typing import Any

from compare import Outcome

COLUMNS = ("programs", "edits", "changed", "reused", "back", "wrong")
#: Of a value that is not as expected, so much is shown.
SHOWN = 300


class Report:
    def __init__(self) -> None:
        self.programs = self.wrong = self.invalid = self.unreal = self.runs = self.broken = 0
        self.edits = self.changed = self.reused = 0
        self.began = time.monotonic()
        self.by: dict[str, dict[str, collections.Counter[str]]] = {
            each: collections.defaultdict(collections.Counter)
            for each in ("construct", "front", "source", "edit", "refused", "python")
        }
        self.cases: list[dict[str, Any]] = []

    def add(self, outcome: Outcome, name: str, smaller: Outcome) -> None:
        """Counts a program, and tells of one that is wrong."""
        self.programs += 1
        self.runs += outcome.runs
        if outcome.unreal:
            self.unreal += 1
            print(f"{name}: a real process prints something else: {outcome.unreal}", flush=True)
        if outcome.invalid:
            self.invalid += 1
            print(
                f"{name}: cannot be compared: {outcome.program.constructs} {outcome.invalid}"[:SHOWN],
                flush=True,
            )
            return
        program = outcome.program
        self.edits += len(outcome.kinds)
        self.changed += sum(outcome.changed)
        self.reused += outcome.reused
        self.wrong += bool(outcome.wrong)
        counts = {
            "programs": 1,
            "edits": len(outcome.kinds),
            "changed": sum(outcome.changed),
            "reused": int(outcome.reused),
            "back": int(outcome.reused_back),
            "wrong": int(bool(outcome.wrong)),
        }
        at_fault = smaller.program.constructs if outcome.wrong else []
        for each in dict.fromkeys(program.constructs):
            # One of several that only stood beside it is not counted as wrong.
            self.by["construct"][each].update(counts | {"wrong": int(each in at_fault)})
        self.by["front"][program.front].update(counts)
        for each in dict.fromkeys(program.sources):
            self.by["source"][each].update(
                counts | {"wrong": int(each in smaller.program.sources and bool(at_fault))}
            )
        for kind, changed in zip(outcome.kinds, outcome.changed, strict=True):
            self.by["edit"][kind].update({"programs": 1, "edits": 1, "changed": int(changed)})
        self.by["python"][outcome.python].update(counts)
        for each in outcome.refused:
            self.by["refused"][each].update(counts)
        if outcome.wrong:
            self.tell(name, smaller)

    def tell(self, name: str, found: Outcome) -> None:
        wrong, program = found.wrong[0], found.program
        case = {
            "name": name,
            "front": program.front,
            "constructs": program.constructs,
            "sources": program.sources,
            "step": wrong.step,
            "edits": found.edits,
        }
        self.cases.append(case)
        print(f"WRONG seed {name}: {program.front}, {program.constructs}, {program.sources}, {wrong.step}")
        print(f"  edits {found.edits}"[:SHOWN])
        print(f"  expected {wrong.expected}"[:SHOWN])
        print(f"  observed {wrong.observed}"[:SHOWN], flush=True)

    def table(self) -> str:
        lines = []
        for what, rows in self.by.items():
            lines.append(f"{what:28}" + "".join(f"{each:>10}" for each in COLUMNS))
            for name, counts in sorted(rows.items()):
                lines.append(f"  {name:26}" + "".join(f"{counts[each]:>10}" for each in COLUMNS))
        return "\n".join(lines)

    def line(self) -> str:
        seconds = time.monotonic() - self.began
        found = (
            f"{self.edits} edits, {self.changed} changed the value",
            f"{self.reused} programs reused",
            f"{self.invalid} cannot be compared",
            f"{self.unreal} unlike a real process",
            f"{self.broken} not run",
        )
        speed = f"{self.runs} runs, {self.programs / seconds:.2f} programs/s"
        return f"{self.programs} programs, {self.wrong} wrong; {', '.join(found)}; {speed}"

    def as_json(self) -> dict[str, Any]:
        return {
            "line": self.line(),
            "seconds": time.monotonic() - self.began,
            **{
                f"by {what}": {name: dict(counts) for name, counts in sorted(rows.items())}
                for what, rows in self.by.items()
            },
            "cases": self.cases,
        }
