"""Which items a job will want after those that it asks for: they are computed while others are waited for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

#: Items offered to be computed ahead. Jobs in the same order hold the next few; a free one is beyond these.
AHEAD_MAX = 1024
#: Items looked at to find those, so that the search stays small beside an item's cost.
AHEAD_LOOKED_AT_MAX = 4096

#: The items that will be wanted next: at most so many.
Ahead = Callable[[int], Sequence[int]]


def nothing_ahead(count: int) -> Sequence[int]:
    """For callers that will want nothing else."""
    return ()


def unseen(order: Sequence[int], start: int, seen: bytearray) -> Ahead:
    """The items of an order that are not seen yet, from a place to its end and on from its beginning."""

    def ahead(count: int) -> Sequence[int]:
        # In C: a first batch waits for it, and looks at all of these.
        places = [*order[start : start + AHEAD_LOOKED_AT_MAX]]
        places += order[: min(start, AHEAD_LOOKED_AT_MAX - len(places))]
        unseen = dict.fromkeys(i for i in places if not seen[i])
        return list(itertools.islice(unseen, count))

    return ahead
