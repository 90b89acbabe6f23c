"""Readers that a data set keeps from one item to the next (see `lazy_fields`), as a probe's child sees them:
which the job can do without, and whether that is worth it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from prebake.probe.analysis import Report

#: What is kept open is opened for each item anew if that takes little beside the item: so many times as long,
#: and so much longer. The tracer has each open wait.
ANEW_TIMES, ANEW_SECONDS, ANEW_WALL_SECONDS = 2, 0.002, 0.01


def found(loading: Any, first: Report, load: Callable[[int], Report]) -> dict[str, str]:
    """Fields in which what loads the items keeps readers, and how they were before: the job loads without.
    `first` is what was seen of each item, and `load` makes one again."""
    find = getattr(loading, "opened", None)
    if find is None:
        return {}

    def is_same() -> bool:
        again = {i: load(int(i)) for i in first}
        return all(seen["digest"] and seen["digest"] == first[i][0]["digest"] for i, seen in again.items())

    fields: dict[str, str] = find(is_same)
    return fields


def are_dear(items: Sequence[int], first: Report, anew: Report) -> bool:
    """Whether it takes much longer to load an item where all is opened again: all of them, so that what the
    machine does beside decides nothing."""
    return any(
        min(ran[0][what] for ran in anew.values()) > ANEW_TIMES * first[str(items[0])][0][what] + more
        for what, more in (("cpu_seconds", ANEW_SECONDS), ("seconds", ANEW_WALL_SECONDS))
    )
