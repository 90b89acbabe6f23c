"""Runs of what makes values, watched: what each was seen to read, and whether that is known of it."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from prebake.execution.scope import Scope
from prebake.identity.code import Identity
from prebake.reads import external_inputs, memos
from prebake.reads.checked_reads import followed
from prebake.reads.record import Record
from prebake.reads.recorder import Recorder
from prebake.reads.settled import Stat, stats_since
from prebake.reads.stat_observations import Look
from prebake.runtime.errors import Refused
from prebake.runtime.refusals import not_cached


class Made(NamedTuple):
    """A value and what making it read; `under` are the stats of what it was known to read when it was made,
    and `known` names that."""

    value: Any
    record: Record
    known: Sequence[str]
    under: Sequence[Stat]
    #: When it was begun, in nanoseconds since 1970.
    begun_ns: int
    cpu_ns: int
    io_ns: int


class WatchedComputation(ABC):
    """How the values of items are made, of which it is found out what making them reads."""

    @abstractmethod
    def open(self, job: Any, found: dict[int, list[str]] | None) -> Any:
        """The native items. Without `found` they are as they were declared; else it has the items' further
        files by number, and the collection is another for each working folder, on which it depends what a
        name stands for."""

    @abstractmethod
    def compute(self, i: int) -> Any:
        """Makes value i."""

    @abstractmethod
    def declared(self, i: int) -> Sequence[str]:
        """The files and folders that item i is said to read."""

    @abstractmethod
    def described(self) -> tuple[Identity, int]:
        """What the values are known by, and since when (ns)."""

    def is_unchanged(self, closely: bool) -> bool:
        """See `Computation.is_unchanged`."""
        return True

    def tolerance(self) -> float | None:
        """By how much numbers of values may differ; see `Verifier`."""
        return None

    def tell_made(self, made: Made) -> None:
        """Is told what was made and may be stored."""
        return


class WatchedRuns:
    """The runs of one computation in this process. With `background`, threads that record nothing themselves
    work for what is made; code that runs is watched in `scope`."""

    def __init__(self, computation: WatchedComputation, background: bool, scope: Scope) -> None:
        self.computation = computation
        self._background, self._scope = background, scope
        #: Files that items are known to read beside those declared.
        self.found: dict[int, list[str]] = {}
        self._own = threading.local()

    @property
    def made(self) -> dict[int, Made]:
        """Made by this thread, and neither stored nor given out yet."""
        if not hasattr(self._own, "made"):
            self._own.made = {}
        made: dict[int, Made] = self._own.made
        return made

    def known(self, i: int) -> list[str]:
        """What item i is known to read."""
        return [*self.computation.declared(i), *self.found.get(i, ())]

    def run(self, i: int, items: Any, known: Sequence[str]) -> Made:
        """Makes value i for native items, where it is `known` to read so much."""
        under = (items and items.stats_of(i)) or ()
        begun_ns, cpu, wall = time.time_ns(), time.thread_time_ns(), time.perf_counter_ns()
        known_by, _ = self.computation.described()
        followed = known_by.reached.memos if known_by.opens else ()
        with Recorder(self._background, self._scope) as record, memos.followed(followed, record):
            value = self.computation.compute(i)
        record.gave(value)
        record.ran(self._scope, known_by.reached)
        # What code that nothing describes read, it may keep for later: such files are all calls'.
        kept = self._scope.kept(record.stats, known_by.reached)
        record.keep({path: stat for path, stat in kept.items() if path not in record.stats})
        cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
        made = Made(value, record, known, under, begun_ns, cpu, max(0, wall - cpu))
        self.made[i] = made
        return made

    def run_again(self, i: int) -> Any:
        """Makes value i to be compared, and not to be stored."""
        known_by, _ = self.computation.described()
        with Recorder(self._background, self._scope) as record:
            value = self.computation.compute(i)
        # Its code may keep what it read all the same.
        self._scope.kept(record.stats, known_by.reached)
        return value

    def beyond(self, i: int, record: Record) -> list[str]:
        """What was read and is not known to be; nothing of a record that is not to be followed."""
        if not self._is_followable(i, record):
            return []
        identity, since = self.computation.described()
        known = self.known(i)
        told = {external_inputs.canonical(name) for name in known if external_inputs.is_fact(name)}
        return [fact for fact in self._facts(i, record) if fact not in told] + [
            path
            for path in record.files()
            if not _is_within(path, known)
            and not (path in identity.files and path in record.stats and record.stats[path][4] < since)
        ]

    def is_as_told(self, items: Any, i: int, known: Sequence[str]) -> bool:
        """Whether what was made last of item i read what native items were told, as that is now."""
        record = self.made[i].record
        return (
            record.is_current()
            and self._is_followable(i, record)
            and external_inputs.as_told(items, i, self._facts(i, record), known)
        )

    def is_as_known(self, items: Any, i: int) -> bool:
        """Whether item i was made of what it is known to read, as the entry knows that."""
        made, known = self.made[i], self.known(i)
        if not self.is_as_told(items, i, known):
            return False
        if made.known == known:
            # Made under the lease itself: that the files are as they were then is looked at natively.
            return True
        stats = stats_since(items, i, made.begun_ns)
        read = [path for path in made.record.files() if _is_within(path, known)]
        seen = {made.record.stats.get(path) for path in read}
        return stats is not None and {*seen, *made.under} <= set(stats)

    def _facts(self, i: int, record: Record) -> dict[str, str | None]:
        """What was seen beside the content of files; a folder that is declared counts with all in it."""
        declared = self.computation.declared(i)
        folders = record.listings().items() if record.listed else ()
        beside = {name: held for name, held in folders if not _is_within(Look.of(name).path, declared)}
        return {**record.facts(), **beside}

    def _is_followable(self, i: int, record: Record) -> bool:
        declared = self.computation.declared(i)
        try:
            # The folders that it lists are followed too, by the names in them.
            followed(record, [path for path in record.scanned if not _is_within(path, declared)], "it")
        except Refused as refused:
            not_cached(refused)
            return False
        return True


def _is_within(path: str, known: Sequence[str]) -> bool:
    """Whether a file is one of those known, or below a folder that is."""
    for each in known:
        each = os.path.join(os.getcwd(), each)
        if path == each or path.startswith(os.path.join(each, "")) and "/../" not in path[len(each) :]:
            return True
    return False
