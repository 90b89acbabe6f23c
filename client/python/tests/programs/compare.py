"""One program: run as it is and after each edit, uncached and cached, and what differs."""

from __future__ import annotations

import dataclasses
import random
import re
from typing import Any

import edits as edit_kinds
from builder import Program
from edits import Edit
from machine import Machine, Run, write

#: Cached runs of the first state: one that computes, one that compares, one that is served.
RUNS_FIRST = 3
#: And of each edited one.
RUNS_EDITED = 2
EDITS_MAX = 3
#: Edits that are drawn until one leaves a program that runs.
TRIES = 6
#: One program in so many has its functions tried in processes beside it, as they are by default. Without a
#: trial the second job that wants a value compares it itself; that is as it is where two trials run already.
TRIALS_EVERY = 10
#: One program in so many is run in real processes too.
REAL_EVERY = 50
_REFUSED = re.compile(r"\b[RM]\d\d\b")


@dataclasses.dataclass
class Wrong:
    """A cached run that was not as the uncached one."""

    step: str
    expected: str
    observed: str
    said: str


@dataclasses.dataclass
class Outcome:
    """What was found of a program, and what is counted of it."""

    program: Program
    edits: list[Edit] = dataclasses.field(default_factory=list)
    kinds: list[str] = dataclasses.field(default_factory=list)
    #: Of each edit, whether it changed what is printed.
    changed: list[bool] = dataclasses.field(default_factory=list)
    wrong: list[Wrong] = dataclasses.field(default_factory=list)
    #: It does not run, or prints something else each time: nothing can be compared.
    invalid: str = ""
    #: Where a real process prints something else than a forked one.
    unreal: str = ""
    #: Whether the last run before the first edit was served something, and that after the last edit, when
    #: all is as it was at first.
    reused: bool = False
    reused_back: bool = False
    python: str = ""
    refused: list[str] = dataclasses.field(default_factory=list)
    runs: int = 0


class Check:
    """Runs one program through its states."""

    def __init__(self, machine: Machine, program: Program, trials: bool, real: bool) -> None:
        self.machine, self.trials, self.real = machine, trials, real
        self.first = self.now = program
        self.folder = machine.folder()
        self.outcome = Outcome(program, python=machine.version)
        self.drawn: set[str] = set()

    def run(self, cached: bool, turn: int, real: bool = False) -> Run:
        self.outcome.runs += 1
        made = self.machine.run(self.folder, self.now, cached, turn, self.trials, real)
        self.outcome.refused += sorted(set(_REFUSED.findall(made.said)) - set(self.outcome.refused))
        return made

    def begin(self) -> Run | None:
        """The uncached run of the first state; None if the program does not run."""
        write(self.folder, None, self.now)
        expected = self.run(False, 0)
        if expected.code != 0:
            self.outcome.invalid = expected.said[-400:] or str(expected.code)
            return None
        self.drawn |= expected.drawn()
        if self.real:
            found = self.run(False, 0, real=True)
            if found.shown() != expected.shown():
                self.outcome.unreal = f"{found.shown()} for {expected.shown()} {found.said[-300:]}"
        return expected

    def edited(self, edit: Edit) -> Run | None:
        """The uncached run after an edit; None, and all as it was, if the program does not run then."""
        after = edit_kinds.apply(self.first, self.now, edit)
        if after is None:
            return None
        before = self.now
        write(self.folder, before, after, str(edit[1]) if edit[0] == "touch" else "")
        self.now = after
        expected = self.run(False, 0)
        if expected.code != 0:
            write(self.folder, after, before)
            self.now = before
            return None
        self.drawn |= expected.drawn()
        return expected

    def cached(self, step: str, expected: Run, runs: int) -> Run | None:
        """So many cached runs, the last of which is returned; None if one is wrong."""
        found: Run | None = None
        for turn in range(1, runs + 1):
            found = self.run(True, turn, real=self.real and turn == 2)
            stale = found.drawn() & self.drawn
            self.drawn |= found.drawn()
            differs = found.shown() != expected.shown() or bool(stale)
            if differs and self._counts(f"{step}, run {turn}", expected, found, stale):
                return None
        return found

    def _counts(self, step: str, expected: Run, found: Run, stale: set[str]) -> bool:
        """Whether the program ends here: it is wrong, or nothing of it can be compared."""
        again = [self.run(False, turn) for turn in (1, 2)]
        if any(each.shown() != expected.shown() for each in again):
            self.outcome.invalid = f"prints something else each time: {again[0].shown()}"
            return True
        # What comes again without a cache as well was seeded by the program: it is no value of one run alone.
        stale = stale - again[0].drawn() - again[1].drawn()
        if not stale and found.shown() == expected.shown():
            return False
        what = f"drawn before: {sorted(stale)}" if stale else repr(found.shown())
        self.outcome.wrong.append(Wrong(step, repr(expected.shown()), what, found.said[-1500:]))
        return True


def check(machine: Machine, program: Program, given: list[Edit] | None = None, seed: int = 0) -> Outcome:
    """Checks a program with the edits that are given, or else with some that are drawn."""
    trials, real = seed % TRIALS_EVERY == 0, seed % REAL_EVERY == 7
    at_work = Check(machine, program, trials, real)
    outcome = at_work.outcome
    expected = at_work.begin()
    if expected is None:
        return outcome
    last = at_work.cached("start", expected, RUNS_FIRST)
    if last is None:
        return outcome
    outcome.reused = last.reused > 0
    before = expected
    for j in range(EDITS_MAX if given is None else len(given)):
        made = _next(at_work, given[j]) if given is not None else _drawn(at_work, seed, j)
        if made is None:
            continue
        kind, edit, after = made
        outcome.edits.append(edit)
        outcome.kinds.append(kind)
        outcome.changed.append(after.shown() != before.shown())
        before = after
        if at_work.cached(f"edit {len(outcome.edits)} ({kind})", after, RUNS_EDITED) is None:
            return outcome
    if given is None:
        back = _next(at_work, ["back"])
        if back is not None:
            outcome.edits.append(["back"])
            last = at_work.cached("back", back[2], 1)
            outcome.reused_back = last is not None and last.reused > 0
    return outcome


def _next(at_work: Check, edit: Edit) -> tuple[str, Edit, Run] | None:
    after = at_work.edited(edit)
    return None if after is None else (str(edit[0]), edit, after)


def _drawn(at_work: Check, seed: int, j: int) -> tuple[str, Edit, Run] | None:
    rng = random.Random(f"{seed} edit {j}")
    for _ in range(TRIES):
        found = edit_kinds.draw(rng, at_work.now)
        if found is not None:
            after = at_work.edited(found[1])
            if after is not None:
                return found[0], found[1], after
    return None


def words(outcome: Outcome) -> dict[str, Any]:
    """A program that failed, as it is kept: with its edits, in words that JSON holds."""
    program = outcome.program
    return {
        "seed": program.seed,
        "front": program.front,
        "constructs": program.constructs,
        "sources": program.sources,
        "files": program.files,
        "env": program.env,
        "argv": program.argv,
        "edits": outcome.edits,
        "wrong": [dataclasses.asdict(each) for each in outcome.wrong],
    }


def program_of(kept: dict[str, Any]) -> Program:
    return Program(
        kept.get("seed", 0),
        kept["files"],
        kept["env"],
        kept["argv"],
        kept["front"],
        kept["constructs"],
        kept["sources"],
    )
