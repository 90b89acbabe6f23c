"""A second cut, upstream of the last: what pipelines that differ in their last steps can share.

The elements of the whole shared prefix are stored in any case. What there is some steps earlier is stored too
if another pipeline is known that has these steps and is computed with them, or if storing it costs next to
nothing beside the work: for what may never be wanted, nobody is to wait. The first item tells what both cost.
If other jobs have stored some step's elements already, theirs are used.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from prebake.codec import values
from prebake.leases.client import LeaseClient
from prebake.leases.read_order import nothing_ahead

#: An item that costs less is computed again as fast as it is looked up twice.
COST_NS_MIN = 1_000_000
#: What is left to do after the cut, of the whole: the first cut with so little. Later ones would share with
#: fewer pipelines, and earlier ones leave more to do again. If there is none, the first that leaves less than
#: half.
REST_GOOD, REST_MAX = 0.1, 0.5
#: Bytes of an element at the cut, in those at the end, if nobody is known to want it. More would cost more
#: than it is likely to save.
BYTES_MAX = 4.0
#: What it takes to store a byte, in the job and in the daemon: copies, a digest, the disk.
STORE_NS_PER_BYTE = 2.0
#: Storing may cost this share of the work up to the cut, if nobody is known to want it; and if somebody is.
SHARE_UNKNOWN, SHARE_COMMON = 0.02, 0.5


class Measured(NamedTuple):
    """What one item cost up to a step, and what there was after it: layout and bytes."""

    cut: int
    cpu_ns: int
    io_ns: int
    layout: str
    parts: list[bytes]

    @property
    def bytes(self) -> int:
        return sum(map(len, self.parts))

    def pays(self, share: float) -> bool:
        """Whether to store it costs no more than this share of what it cost to make."""
        return STORE_NS_PER_BYTE * self.bytes <= share * (self.cpu_ns + self.io_ns)


class IntermediateCut:
    """The cut, once there is one. `client_at(cut)` makes the items of a cut: each cut has its own, so that
    nothing made at one is ever stored as another's."""

    def __init__(self, client_at: Callable[[int], LeaseClient]) -> None:
        self._client_at = client_at
        #: The cut and its items. Read once by whoever uses both: another thread may move it.
        self.at: tuple[int, LeaseClient] | None = None
        #: Nobody has stored anything yet: the next item computed here decides.
        self.undecided = False
        #: Cuts up to which other pipelines do the same.
        self._common: frozenset[int] = frozenset()
        self._lock = threading.Lock()
        #: Computed here for items that are computed to the end next, by thread.
        self._ready = threading.local()

    def begin(self, stored: Sequence[int], common: Sequence[int], undecided: bool) -> None:
        """Chooses the latest of the cuts at which others have stored something. Up to the `common` ones other
        pipelines do the same."""
        cut = max(stored, default=None)
        with self._lock:
            self._common = frozenset(common)
            if cut is None or self.at is None or self.at[0] != cut:
                self.at = None if cut is None else (cut, self._client_at(cut))
            self.undecided = undecided and cut is None

    def reset(self) -> None:
        """Opens the items anew at the next use."""
        for client in self.clients():
            client.collection.reset()

    def clients(self) -> list[LeaseClient]:
        """Its items, if there is a cut."""
        at = self.at
        return [] if at is None else [at[1]]

    def prepare(self, indices: Sequence[int]) -> None:
        """Makes the items' elements at the cut, or finds that they are there."""
        at, ready = self.at, self._ready
        ready.at, ready.values, ready.first = at, {}, None
        if at is None or not indices:
            return
        # Errors are the user's own, and raised again when the item's turn comes.
        with contextlib.suppress(Exception):
            ready.values = at[1].ensure(indices, nothing_ahead)

    def value(self, i: int, before: int) -> tuple[Any, int] | None:
        """The element of item i at the cut, and which that is; None if it is not one before another."""
        at = self.at
        if at is None or at[0] >= before:
            return None
        cut, client = at
        ready = getattr(self._ready, "values", {}) if getattr(self._ready, "at", None) is at else {}
        return (ready.pop(i) if i in ready else client.many([i], nothing_ahead)[0]), cut

    def decide(self, i: int, measured: list[Measured], cost_ns: int, size: int) -> None:
        """Chooses a cut, if one is worth it, by item i, unless another has."""
        with self._lock:
            if not self.undecided:
                return
            self.undecided = False
            if cost_ns < COST_NS_MIN:
                return
            # Of what is common as much as possible; else what is likely to be.
            common = [at for at in reversed(measured) if at.cut in self._common and at.pays(SHARE_COMMON)]
            likely = [
                at
                for rest in (REST_GOOD, REST_MAX)
                for at in measured
                if cost_ns - at.cpu_ns <= rest * cost_ns
                and at.bytes <= BYTES_MAX * size
                and at.pays(SHARE_UNKNOWN)
            ]
            for at in [*common, *likely][:1]:
                self.at, self._ready.first = (at.cut, self._client_at(at.cut)), (i, at)

    def store_first(self, i: int, leased: Any) -> None:
        """Stores the item that decided, once it is known to be all right, of an input under lease."""
        at, (of, first) = self.at, getattr(self._ready, "first", None) or (None, None)
        self._ready.first = None
        # The item that decided may not have been stored.
        if first is not None and of == i and at is not None and at[0] == first.cut:
            at[1].offer(i, leased, first.layout, first.parts, first.cpu_ns, first.io_ns)


class Stopwatch:
    """Takes note of an item after each of its steps."""

    def __init__(self, cpu_ns: int = 0, io_ns: int = 0) -> None:
        """From when so much was spent on the item already."""
        self.measured: list[Measured] = []
        self._cpu = time.thread_time_ns() - cpu_ns
        self._wall = time.perf_counter_ns() - cpu_ns - io_ns
        self._noting_cpu = self._noting_wall = 0

    def note(self, cut: int, value: Any) -> None:
        """The element after a step, copied: later steps may work in place."""
        cpu, wall = self.cpu_ns(), self.wall_ns()
        begun_cpu, begun_wall = time.thread_time_ns(), time.perf_counter_ns()
        try:
            layout, parts = values.encode(value)
        except Exception:
            # It cannot be stored there.
            return
        finally:
            self._noting_cpu += time.thread_time_ns() - begun_cpu
            self._noting_wall += time.perf_counter_ns() - begun_wall
        self.measured.append(Measured(cut, cpu, max(0, wall - cpu), layout, [bytes(part) for part in parts]))

    def cpu_ns(self) -> int:
        """CPU time so far, without taking notes."""
        return time.thread_time_ns() - self._cpu - self._noting_cpu

    def wall_ns(self) -> int:
        """Time so far, without taking notes."""
        return time.perf_counter_ns() - self._wall - self._noting_wall
