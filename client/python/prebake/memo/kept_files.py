"""Files that making an item reads once in a process and keeps (`lru_cache`).

What a process keeps of a file may be older than the file, and a later item reads it unheard. So which files
those are is seen once in each process, before any item is given: an item is made twice, and what was opened
the first time only is kept. All of it has to be what functions read that take no arguments, have kept nothing
before, and keep all that they ever will afterwards. From then on such a file is a part of what all elements
are made of, as long as it is the one that was read.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from typing import Any

from prebake.reads.record import Record, stat_of
from prebake.reads.recorder import Recorder
from prebake.reads.settled import SETTLED_NS

#: How one stands among the names of what elements are made of: see `manifest`.
KEPT = "kept:"
#: Their content is looked at in each process, at about a gigabyte per second.
BYTES_MAX = 64 << 20
#: They are looked at before each request; see `held_files.FILES_MAX`.
FILES_MAX = 64
#: File systems whose clock ticks in whole seconds write these.
_COARSE_NS = 1_000_000_000

#: device, inode, size, mtime_ns, ctime_ns
Stat = tuple[int, int, int, int, int]


class Kept:
    """What this process keeps of files, seen as it first made an item by `make`."""

    def __init__(self, memos: Sequence[Any], make: Callable[[], object]) -> None:
        """`memos` are functions that keep what they return. What `make` raises is raised."""
        self._stats: dict[str, Stat] = {}
        #: Why not all that is kept is known; empty if it is.
        self.unknown = ""
        if any(map(_is_filled, memos)):
            self.unknown = "what a function kept before may be of another file"
            return
        begun_ns = time.time_ns()
        first, again = _heard(make), _heard(make)
        read = [_heard(memo.__wrapped__) for memo in memos if _is_filled(memo) and _takes_nothing(memo)]
        if len(read) < len(memos):
            self.unknown = "functions may keep more for later ones"
            return
        self._stats = {path: stat for path, stat in first.stats.items() if path not in again.reads}
        of_memos = {path for each in read for path in each.stats}
        self.unknown = self._doubt(first, again, of_memos, begun_ns)

    def _doubt(self, first: Record, again: Record, of_memos: set[str], begun_ns: int) -> str:
        kept = {path for path in first.reads if path not in again.reads}
        if first.incomplete or again.incomplete or set(first.facts()) - set(again.facts()):
            return "not all that is read is known"
        if kept - of_memos or of_memos - first.stats.keys() or len(kept) > FILES_MAX:
            return "something else keeps it than functions that take nothing"
        for path, stat in self._stats.items():
            if stat[2] > BYTES_MAX or stat != stat_of(path) or _changed_ns(stat) >= begun_ns:
                return f"{path} is large, or was just written"
        return ""

    @property
    def paths(self) -> list[str]:
        """The files."""
        return list(self._stats)

    def holds(self) -> bool:
        """Whether each file is the one that was read."""
        return all(stat_of(path) == stat for path, stat in self._stats.items())


def _heard(make: Callable[[], object]) -> Record:
    with Recorder() as record:
        make()
    return record


def _changed_ns(stat: Stat) -> int:
    """When a file was last changed, at the latest: the clock that stamps files is behind."""
    return max(stat[3], stat[4]) + (SETTLED_NS if stat[4] % _COARSE_NS else _COARSE_NS)


def _is_filled(memo: Any) -> bool:
    return bool(memo.cache_info().currsize)


def _takes_nothing(memo: Any) -> bool:
    try:
        return not inspect.signature(memo.__wrapped__).parameters
    except (AttributeError, TypeError, ValueError):
        # Its user put another function in its place.
        return False
