"""Clients that behave: `python reader_clients.py CACHE INPUTS SECONDS FIRST COUNT`.

Each is a session of the real client library, idle but for a read now and then. Each value is proven. One of
them adds values of its own as well.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import clients
import steps

from prebake import _native

#: A job that trains and has its data mapped asks the daemon this seldom, or seldomer.
READ_SECONDS = 8.0
#: A client that lost its session comes back after as long as the shim does.
RETRY_SECONDS = 5.0
#: Of its reads one in so many is of items that it does not know: the daemon is asked for them.
FRESH = 3
#: Items added at a time.
ADDED = 2


class Reader:
    """One session."""

    def __init__(self, cache: Path, inputs: Path, number: int, adds: bool) -> None:
        self.cache = cache
        self.inputs = inputs
        self.paths = steps.inputs(inputs)
        self.number = number
        self.adds = adds
        self.random = random.Random(number)
        self.job: Any = None
        self.known: Any = None
        self.added: Any = None

    def act(self) -> float:
        """A read, or the connection that it needs."""
        try:
            if self.job is None:
                self._connect()
            else:
                self._read()
                if self.adds:
                    self._add()
        except _native.Error as error:
            clients.find("lost" if self.job else "refused", f"reader {self.number}: {error}")
            self.job = self.known = self.added = None
            return RETRY_SECONDS
        return READ_SECONDS * (0.5 + self.random.random())

    def end(self) -> None:
        """Its session ends with its handles."""
        self.job = self.known = self.added = None

    def _connect(self) -> None:
        self.job = _native.connect(str(self.cache), f"reader {self.number}", False)
        self.known = self.job.plan(steps.SHARED).files(str(self.inputs), self.paths)
        clients.counts["connected"] += 1

    def _read(self) -> None:
        i = self.random.randrange(len(self.paths))
        items = self.known
        if not self.random.randrange(FRESH):
            items = self.job.plan(steps.SHARED).files(str(self.inputs), self.paths)
        leased, bypassed = items.acquire([i], [], 0)
        found = items.get(i)
        clients.counts["reads"] += 1
        if leased or bypassed or found is None:
            clients.find("missed", f"reader {self.number}, item {i}: {leased}, {bypassed}")
        elif not steps.is_right(found[0], i, steps.SHARED_NUMBER):
            clients.find("wrong", f"reader {self.number}, item {i}")

    def _add(self) -> None:
        """Computes what is not there yet; what is there must be right."""
        graph, pipeline = steps.written(self.number)
        if self.added is None:
            self.added = self.job.plan(graph).files(str(self.inputs), self.paths)
        wanted = self.random.sample(range(len(self.paths)), ADDED)
        leased, _ = self.added.acquire(wanted, [])
        steps.put(self.added, leased, pipeline)
        clients.counts["added"] += len(leased)
        for i in wanted:
            found = self.added.get(i)
            if found and not steps.is_right(found[0], i, pipeline):
                clients.find("wrong", f"reader {self.number}, item {i} of its own")


def main() -> None:
    """The command line."""
    cache, inputs, seconds, first, count = sys.argv[1:]
    numbers = range(int(first), int(first) + int(count))
    clients.run(
        lambda number: Reader(Path(cache), Path(inputs), number, number == int(first)),
        numbers,
        float(seconds),
    )


if __name__ == "__main__":
    main()
