"""Canaries: the items that are computed again before others are served in a world that is not proven."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from prebake.compute.computation import Computation
from prebake.encoding.digests import digest
from prebake.proof.variants import CONTEXT
from prebake.trial import kinds

#: Items that have to be equal: one may be so by chance (0 times 2 is 0 times 3).
CANARIES = 2
#: More of them, as long as all together take no longer than this: cheap items are not worth a risk. Those of
#: a function are compared in calls of their own (`Checked`).
CANARIES_MAX, CHEAP_NS = 64, 4_000_000
#: Items of which one is compared in less CPU time than this are hardly worth keeping: of them, and of those
#: of data sets of so few, in so much of it; and no longer than that, should they wait for a disk.
TRIFLE_NS, FEW = 400_000, 8
TRIFLES_NS, TRIFLES_WALL_NS = 25_000_000, 100_000_000
#: Of items that take so long on average, one is enough.
DEAR_NS = 2_000_000_000
#: Wanted items that are looked at to find some that are there.
LOOKED_AT_MAX = 256
#: So often it is looked for others to compare with, one question to the daemon each time.
SAMPLES_MAX = 64


class Canaries:
    """Those of one collection in this process; `world` is its world's digest."""

    def __init__(self, world: bytes) -> None:
        self._world = world
        #: How often it was looked for items that are not wanted yet.
        self._samples = 0

    def chosen(
        self, items: Any, there: Sequence[int], same: Collection[int], computation: Computation
    ) -> Iterator[int]:
        """The items to be compared, of those that are there: what is wanted first, then one of each kind, by
        digest; then what is not wanted yet. Those that are the `same` were compared."""

        def by_digest(indices: Sequence[int]) -> list[int]:
            return sorted(indices, key=lambda i: digest(CONTEXT, b"%d" % i + self._world))

        def in_turn(indices: Sequence[int]) -> list[int]:
            return kinds.rarest_first(by_digest(indices), items.layouts)

        yield from (i for i in [*there[:1], *in_turn(there[1:])] if i not in same)
        count = len(items)
        if count > 1 and self._samples < SAMPLES_MAX:
            self._samples += 1
            step = max(1, count // LOOKED_AT_MAX)
            others = [i for i in range(0, count, step) if i not in there][:LOOKED_AT_MAX]
            computation.look_up(others)
            others = items.locate(others)
            yield from (i for i in in_turn(others) if i not in same)


def needed(count: int, spent_ns: int, cpu: Sequence[int], cost_ns: int) -> int:
    """How many items of `count` have to be equal in all, after so much time was spent on comparing; `cpu`
    is what CPU time it was before each, and `cost_ns` what one takes on average."""
    if cost_ns >= DEAR_NS:
        return 1
    fastest_ns = min((after - before for before, after in itertools.pairwise(cpu)), default=TRIFLE_NS)
    if (
        (count <= FEW or fastest_ns < TRIFLE_NS)
        and spent_ns < TRIFLES_WALL_NS
        and cpu[-1] - cpu[0] < TRIFLES_NS
    ):
        return CANARIES_MAX
    return CANARIES_MAX if spent_ns < CHEAP_NS else CANARIES
