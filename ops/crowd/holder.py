"""Clients that hold leases: on what a job wants, and vanish; and on a thousand things that there are not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import clients
import steps
import wire
from rude import Rude

from prebake import _native

#: In each round another pipeline is wanted by a job. All processes tell it by the machine's clock.
ROUND_SECONDS = 10.0
#: The job waits as long as leases are held: then the holder is gone.
HOLD_SECONDS = 2.0
#: Leases of an hour, the longest that there are, in the collection that all clients read.
LEASES = 1_000
LEASE_MS = 3_600_000


def round_now() -> int:
    """The number of this round."""
    return int(time.monotonic() / ROUND_SECONDS)


class Holder(Rude):
    """Holds one item that is wanted. On its other session it holds many that are not."""

    def __init__(self, cache: Path, number: int) -> None:
        super().__init__(cache, number)
        self.inputs = cache.parent / "inputs"
        self.paths = steps.inputs(self.inputs)
        self.held: Any = None
        self.round = -1

    def act(self) -> float:
        """Takes a lease, or vanishes with it. What nobody wants it keeps."""
        self.held = None
        while self.hears("data"):
            pass
        if self.round == round_now():
            return HOLD_SECONDS / 2
        self.round = round_now()
        graph, _ = steps.held(self.round)
        try:
            job = _native.connect(str(self.cache), f"holder {self.number}", False)
            items = job.plan(graph).files(str(self.inputs), self.paths)
            # Each holder has an item of its own, since one that is held would be waited for.
            leased, _ = items.acquire([self.number % len(self.paths)], [], 1)
            self.held = (job, items)
            clients.counts["held"] += len(leased)
        except _native.Error as error:
            clients.find("refused", f"holder {self.number}: {error}")
        digests = (self.random.randbytes(32) for _ in range(LEASES))
        # Once: all that a client ever takes must have an end here.
        if self.data is None and self.says("data", wire.hello(f"holder {self.number}")):
            self.says("data", wire.acquire(wire.SHARED, digests, LEASES, LEASE_MS))
        return HOLD_SECONDS

    def end(self) -> None:
        """Its leases end with it."""
        self.held = None
        super().end()
