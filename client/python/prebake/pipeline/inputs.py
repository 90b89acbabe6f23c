"""What each item of a pipeline reads: told by its source, or found out before the item is asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from prebake.leases.client import LeaseClient
from prebake.leases.read_order import Ahead, nothing_ahead
from prebake.pipeline.discovery import Discovery, Fresh
from prebake.purity import tripwire
from prebake.reads import external_inputs
from prebake.reads.stat_observations import is_look
from prebake.runtime.errors import Refused
from prebake.runtime.refusals import not_cached
from prebake.sources.source import Source


class Inputs:
    """The reads of a source's items: files, and facts (see `facts`). `client`, which items are taken from, is
    told them, and so are the `others`.

    `discover(n)` finds out what an item reads in loading and the first n steps; `steps_that_read()` is that
    n, asked where loading alone opens nothing.
    """

    def __init__(
        self,
        source: Source,
        client: LeaseClient,
        others: Callable[[], Iterable[LeaseClient]],
        discover: Callable[[int], Discovery],
        steps_that_read: Callable[[], int],
    ) -> None:
        self._source = source
        self._client = client
        self._others = others
        self._discover = discover
        self._steps_that_read = steps_that_read
        #: Since when facts are to be known anew.
        self._looked = time.monotonic()
        self.forget()

    def forget(self) -> None:
        """All that was found out: it was of what the data set was."""
        self._reads: dict[int, list[str]] = {}
        #: Items that depend on looks.
        self._lookers: set[int] = set()
        #: None while nobody has asked.
        self._reading: int | None = None
        self._discovery = self._discover(0)

    def of(self, i: int) -> list[str] | None:
        """What item i is known to read."""
        return self._reads.get(i)

    def find(self, indices: Sequence[int], ahead: Ahead) -> dict[int, Any]:
        """Has the items' reads known before they are asked for; the items that were made meanwhile."""
        if self._source.floor:
            return {}
        # Of a request before, which failed.
        self._discovery.fresh.clear()
        # Opened first: a probe may find files that all items read.
        items = self._client.collection.items()
        unknown = [i for i in indices if not self._is_declared(i)]
        if items is None:
            return {}
        self._discovery([i for i in unknown if i not in self._reads], ahead)
        if self._reading is None and any(self._reads.get(i) == self._source.common for i in unknown):
            self._reading = self._steps_that_read()
            if self._reading:
                self._discovery = self._discover(self._reading)
                self._reads, self._lookers = {}, set()
                self._discovery(unknown, ahead)
        fresh = self._discovery.fresh
        if not fresh:
            return {}
        before = tripwire.state()
        made: dict[int, Any] = {}
        try:
            made = self._client.ensure(list(fresh), nothing_ahead)
        except Exception:
            # Of the user's own; if the item is wanted, it raises again when its turn comes.
            tripwire.restore(before)
        # What making one changed (the working folder) may be why no more is stored. What is wanted goes on
        # with what was loaded: what it does is done once.
        for i in [i for i in fresh if i in made or i not in indices]:
            del fresh[i]
        return made

    def look_up(self, indices: Sequence[int]) -> None:
        """Has the reads of those items known that are stored; none is made for it."""
        if not self._source.floor:
            self._discovery.look_up([i for i in indices if i not in self._reads and not self._is_declared(i)])

    def _is_declared(self, i: int) -> bool:
        """Whether the source is told what item i reads, rather than to find it out."""
        try:
            paths = self._source.reads(i)
        except Refused as refused:
            # What it says now is not known, and what it said no longer holds.
            not_cached(refused)
            self._reads.pop(i, None)
            return True
        if paths is not None and paths != self._reads.get(i):
            self._learn(i, paths)
        return paths is not None

    def told(self, indices: Sequence[int]) -> Sequence[int]:
        """Those of the items of which it is known what they read; the others are not shared."""
        return indices if self._source.floor else [i for i in indices if i in self._reads]

    def told_ahead(self, ahead: Ahead) -> Ahead:
        """Later items as far as it is known what they read."""

        def known(count: int) -> Sequence[int]:
            return [i for i in ahead(count) if i in self._reads]

        return ahead if self._source.floor else known

    def found(self, i: int, paths: list[str]) -> None:
        """Says what item i was seen to read."""
        common = self._source.common
        known = {os.path.abspath(path) for path in common}
        self._learn(i, [*common, *(path for path in paths if path not in known)])

    def _learn(self, i: int, paths: list[str]) -> None:
        self._reads[i] = paths
        if any(map(is_look, paths)):
            self._lookers.add(i)
        external_inputs.look(paths, self._looked)
        self._tell(i, paths)

    def _tell(self, i: int, paths: list[str]) -> None:
        for client in (self._client, *self._others()):
            client.set_reads(i, paths)

    def open(self, collection: Any) -> Any:
        """The native items of a collection, told what is known of them."""
        items = self._source.open(collection)
        external_inputs.look((path for paths in self._reads.values() for path in paths), self._looked)
        for i, paths in self._reads.items():
            external_inputs.tell(items, i, paths)
        return items

    def look_again(self, indices: Sequence[int]) -> None:
        """Has items known by what looks at files show now; objects of a store are asked once an epoch."""
        for i in self._lookers.intersection(indices) if self._lookers else ():
            # Another thread may have forgotten them.
            paths = self._reads.get(i)
            if paths is not None:
                self._tell(i, paths)

    def look_at_facts(self) -> None:
        """Has facts looked at anew, objects of a store all at once, and their items known by them."""
        reads = {i: paths for i, paths in self._reads.items() if any(map(external_inputs.is_fact, paths))}
        reads |= {i: [url] for i, url in self._source.objects.items()}
        if not reads:
            return
        self._looked = time.monotonic()
        external_inputs.look((path for paths in reads.values() for path in paths), self._looked)
        for i, paths in reads.items():
            self._tell(i, paths)

    def fresh(self, i: int) -> Fresh | None:
        """Item i as it was made while its reads were found out, if this thread just did."""
        return self._discovery.fresh.get(i)

    def begun(self, i: int, cut: int) -> tuple[Any, int]:
        """Item i after some of the steps up to a cut, and after how many."""
        fresh, reading = self.fresh(i), self._reading or 0
        return (self._source.load(i), 0) if fresh is None or reading > cut else (fresh.loaded, reading)

    def spent(self, i: int) -> tuple[int, int]:
        """CPU time and waiting, in nanoseconds, before `begun`."""
        fresh = self.fresh(i)
        return (0, 0) if fresh is None else (fresh.cpu_ns, fresh.io_ns)
