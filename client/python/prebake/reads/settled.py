"""Files that were left alone since they were read: their stats tell, where their clock can."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from prebake.reads.record import Record

#: A file that was written so shortly before it was looked at may have been written again unseen: a few ticks
#: of the clock that stamps files.
SETTLED_NS = 20_000_000
#: File systems whose clock ticks in whole seconds write these.
_COARSE_NS = 1_000_000_000

#: device, inode, size, mtime_ns, ctime_ns
Stat = tuple[int, int, int, int, int]


def stats_since(items: Any, i: int, begun_ns: int) -> Sequence[Stat] | None:
    """The stats of native item i's files, if each tells whether the file was written to since then; of one
    that is leased by this thread, which is known by its content."""
    stats: Sequence[Stat] | None = items.stats_of(i)
    leased = items.leased(i) if stats is None else None
    if leased is not None and all(_is_settled(stat, begun_ns) for stat in leased[1]):
        return [*leased[1]]
    return stats


def _is_settled(stat: Stat, begun_ns: int) -> bool:
    device, *_, written_ns, changed_ns = stat
    # Without a block device of this machine, the clock may be another machine's.
    is_stamped_here = os.major(device) != 0 and written_ns % _COARSE_NS != 0
    return is_stamped_here and max(written_ns, changed_ns) < begun_ns - SETTLED_NS


def as_read(record: Record, stats: Sequence[Stat] | None, begun_ns: int) -> bool:
    """Whether the files are, by stats taken since, as they were when what is recorded opened them. It was
    begun at `begun_ns`, nanoseconds since 1970: those that compiled code opened were not written to since."""
    if stats is None or len(record.stats) != len(record.files()):
        return False
    # One file may be told by two names.
    read = set(record.stats.values())
    return read <= set(stats) and all(stat in read or _is_settled(stat, begun_ns) for stat in stats)
