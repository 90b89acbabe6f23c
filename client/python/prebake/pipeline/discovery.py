"""Which files an item reads, found out by watching it being loaded.

Nothing says what the `__getitem__` of somebody's data set reads. So the first job that loads item i records
the files it opens, and their names become an entry of their own: the item's *reads*, keyed by the data set
and the number alone. From then on the item is its number and those files' content, and what was made of it is
stored under that. (The same two steps as a manifest and its results in ccache's direct mode.) If the item
later reads a file that is not among them, nothing of it is stored.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from prebake.compute.computation import Computation
from prebake.execution.scope import Scope
from prebake.identity import graph
from prebake.leases.client import LeaseClient
from prebake.leases.read_order import Ahead
from prebake.reads import external_inputs
from prebake.reads.checked_reads import check
from prebake.reads.record import Record
from prebake.reads.recorder import Recorder
from prebake.reads.stat_observations import Look, is_look
from prebake.runtime.errors import Refused
from prebake.runtime.refusals import not_cached
from prebake.sources.source import Source


class Fresh(NamedTuple):
    """An item as it was when its reads were found out."""

    loaded: Any
    record: Record
    #: When it was begun, in nanoseconds since 1970.
    begun_ns: int
    cpu_ns: int
    io_ns: int


class Discovery(Computation):
    """The reads of a source's items. `load` makes an item as far as it reads; `operators` are what it runs.
    `learned` is told the reads of each item, once in a process. It is unchanged, and draws, as the `items`
    themselves. In `scope` it is watched what code runs.
    """

    def __init__(
        self,
        source: Source,
        load: Callable[[int], Any],
        operators: Callable[[], list[graph.Json]],
        learned: Callable[[int, list[str]], None],
        items: Computation,
        scope: Scope,
    ) -> None:
        self._source = source
        self._make = load
        self._operators = operators
        self._learned = learned
        self._items = items
        self._scope = scope
        self._known = bytearray(source.count)
        self._since = time.monotonic()
        self._own = threading.local()
        self._client = LeaseClient(self, source.count)

    def __call__(self, indices: Sequence[int], ahead: Ahead) -> None:
        """Finds out what the items read, of later ones too while others are at these."""
        unknown = [i for i in dict.fromkeys(indices) if not self._known[i]]
        if not unknown:
            return
        found = self._client.many(unknown, ahead)
        # In bulk, before each is told what it reads.
        named = (path for stored in found for path in map(os.fsdecode, stored))
        external_inputs.look(named, self._since)
        for i, stored in zip(unknown, found, strict=True):
            if self._is_sound(i):
                self._learn(i, stored)
        for i, fresh in self.fresh.items():
            if not self._known[i] and self._is_sound(i):
                self._learn(i, names(fresh.record, self._root()))

    def look_up(self, indices: Sequence[int]) -> None:
        """Learns what those of the items read of which others found it out; none is made for it."""
        for i, stored in self._client.there([i for i in indices if not self._known[i]]).items():
            self._learn(i, stored)

    @property
    def fresh(self) -> dict[int, Fresh]:
        """Loaded by this thread and not stored yet: another load of them is spared. What another thread
        loaded, its steps may be working on in place.
        """
        if not hasattr(self._own, "fresh"):
            self._own.fresh = {}
        found: dict[int, Fresh] = self._own.fresh
        return found

    def _root(self) -> str:
        root = self._source.root
        assert root is not None, "what is numbered has a folder that names are relative to"
        return root

    def _learn(self, i: int, stored: Sequence[bytes]) -> None:
        self._known[i] = 1
        self._learned(i, paths(stored, self._root()))

    def _is_sound(self, i: int) -> bool:
        """Whether what an item was seen to read is all there is; if not, it is computed here only."""
        fresh = self.fresh.get(i)
        if fresh is None:
            return True
        try:
            check(fresh.record, [*fresh.record.files(), *fresh.record.facts()], f"item {i}")
        except Refused as refused:
            not_cached(refused)
            return False
        return True

    # How an item's reads are found out.

    def open(self, job: Any) -> Any:
        collection = job.plan(graph.chain([*self._operators(), graph.named_step("prebake.reads")]))
        return None if collection.bypass else self._source.open_unread(collection)

    def is_unchanged(self, closely: bool) -> bool:
        return self._items.is_unchanged(closely)

    def culprit(self, i: int) -> Any:
        return self._items.culprit(i)

    def approve(self, items: Any, i: int) -> bool:
        return self._is_sound(i)

    def compute(self, i: int) -> list[bytes]:
        begun_ns, cpu, wall = time.time_ns(), time.thread_time_ns(), time.perf_counter_ns()
        with Recorder(scope=self._scope) as record:
            loaded = record.gave(self._make(i))
        cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
        self.fresh[i] = Fresh(loaded, record, begun_ns, cpu, max(0, wall - cpu))
        return names(record, self._root())


def names(record: Record, root: str) -> list[bytes]:
    """The files of a record as they are stored: below the root by their path from there."""
    root = os.path.join(os.path.abspath(root), "")
    found = [path.removeprefix(root) for path in record.files()]
    seen = (
        Look.of(fact)._replace(path=Look.of(fact).path.removeprefix(root)).text if is_look(fact) else fact
        for fact in record.facts()
    )
    return sorted(os.fsencode(name) for name in [*found, *seen])


def paths(stored: Sequence[bytes], root: str) -> list[str]:
    """The files of stored names."""
    root = os.path.abspath(root)
    return [_below(root, name) for name in map(os.fsdecode, stored)]


def _below(root: str, name: str) -> str:
    if is_look(name):
        look = Look.of(name)
        return look._replace(path=os.path.join(root, look.path)).text
    return name if external_inputs.is_fact(name) else os.path.join(root, name)
