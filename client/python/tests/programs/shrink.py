"""Makes a program that failed smaller: without the constructs, then the edits, that it fails without."""

from __future__ import annotations

import grammar
from compare import Outcome, check
from edits import Edit
from machine import Machine


def shrunk(machine: Machine, outcome: Outcome) -> Outcome:
    """The smallest that still fails, each time over an empty cache; the outcome itself if none does."""
    seed, front = outcome.program.seed, outcome.program.front
    _, names = grammar.drawn(seed)
    keep, best = list(range(len(names))), outcome

    def tried(places: list[int], edits: list[Edit]) -> Outcome | None:
        machine.empty()
        found = check(machine, grammar.program(seed, front, places), edits, seed)
        return found if found.wrong else None

    found = tried(keep, best.edits)
    if found is None:
        # It needs what the cache held from before, or a coincidence in time.
        return outcome
    best = found
    for place in list(keep):
        fewer = [each for each in keep if each != place]
        found = tried(fewer, best.edits) if fewer else None
        if found is not None:
            keep, best = fewer, found
    at = 0
    while at < len(best.edits):
        edits = best.edits[:at] + best.edits[at + 1 :]
        found = tried(keep, edits)
        if found is None:
            at += 1
        else:
            best = found
    return best
