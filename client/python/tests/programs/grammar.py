"""Draws a program from a seed: a front, a host module, and some constructs."""

from __future__ import annotations

import importlib
import random
from collections.abc import Sequence

import surroundings
from builder import CONSTRUCTS, Builder, Program
from fronts import FRONTS, finish

KINDS = (
    *("settings", "library", "names", "objects", "patches", "files", "between", "hidden", "given"),
    *("effects", "compiled", "switched", "named", "within", "begun"),
)
for kind in KINDS:
    # Each adds its own; a seed means the same as long as the order is.
    importlib.import_module(f"constructs_{kind}")

#: Constructs of a program, at most. Most have one or two: a failure is then easily told.
CONSTRUCTS_MAX = 4
#: One program in so many has one element of many that alone has what the constructs make.
RARE_EVERY = 5
COUNT_RARE = 20
#: One that goes to another folder.
ALONE = "between folders"


def drawn(seed: int) -> tuple[str, list[str]]:
    """The front and the constructs of a seed."""
    rng = random.Random(seed)
    weights = [weight for _, weight in FRONTS.values()]
    front = rng.choices(list(FRONTS), weights)[0]
    count = rng.choice([1, 1, 2, 2, 3, CONSTRUCTS_MAX])
    names = rng.sample(list(CONSTRUCTS), count)
    # Others open files where the program is begun.
    return front, [ALONE] if ALONE in names else names


def program(seed: int, front: str | None = None, keep: Sequence[int] | None = None) -> Program:
    """The program of a seed; or with another front, or only with some of its constructs, by their places."""
    of_seed, names = drawn(seed)
    b = Builder(seed)
    kept = range(len(names)) if keep is None else keep
    surroundings.draw(b)
    b.is_placed = any(names[n].startswith("placed") for n in kept)
    rng = random.Random(f"{seed} rare")
    if not rng.randrange(RARE_EVERY):
        b.count, b.rare = COUNT_RARE, rng.randrange(COUNT_RARE)
        if any(name.startswith(("between", "within", "switched", "named")) for name in names):
            # There are two arguments, in turn.
            b.rare %= 2
    for n in kept:
        b.begin(n)
        b.part(CONSTRUCTS[names[n]](b))
    b.begin(len(names))
    finish(b, front or of_seed)
    drawn_too = [f"made: {b.way}", f"numbers: {', '.join(b.numbers)}", f"names: {b.prefix!a}"]
    return b.program(front or of_seed, [*(names[n] for n in kept), *drawn_too])
