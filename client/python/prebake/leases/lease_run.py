"""Leased items, computed and handed over: one grant of leases, from the first item to the commit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from prebake.codec import values
from prebake.compute.computation import Computation
from prebake.compute.pending_elements import PendingElements
from prebake.compute.restart_signals import Restart, Tripped
from prebake.leases.lease_costs import LeaseCosts
from prebake.leases.open_collection import OpenCollection, guarded, put
from prebake.proof.verify import Verifier
from prebake.proof.world_standing import made_here
from prebake.purity import tripwire
from prebake.runtime import daemon
from prebake.runtime.errors import Refused, where
from prebake.trial.trial import Trial


class Computed(NamedTuple):
    """An element that is to be stored, and what it took to make it."""

    i: int
    layout: str
    parts: list[memoryview | bytes]
    cpu_ns: int
    io_ns: int


class LeaseRun:
    """Computes granted items of a collection, and puts them if what made them did not change.

    Invariant: nothing is put unless the computation said closely, after it was made, that it is unchanged:
    what made it was described when the items were opened and again then, and both are equal. Until then it is
    pending.
    """

    def __init__(
        self,
        collection: OpenCollection,
        items: Any,
        computation: Computation,
        costs: LeaseCosts,
        seen: bytearray,
        verifier: Verifier | None,
        trial: Trial | None,
        read_back: bool,
    ) -> None:
        """`items` are those that granted the leases; `read_back` if what is put is read again here."""
        self._collection, self._items, self._computation = collection, items, computation
        self._costs, self._seen = costs, seen
        self._verifier, self._trial, self._read_back = verifier, trial, read_back
        #: Values of wanted items.
        self.values: dict[int, Any] = {}
        self._pending: list[Computed] = []
        self._memory = PendingElements()

    def run(self, granted: Sequence[int], wanted: Sequence[int]) -> None:
        """Computes what is granted. Only a wanted item's error is the caller's."""
        is_wanted, held, items = set(wanted), list(granted), self._items
        try:
            if not self._collection.still(items, False):
                return
            self._computation.prepare(held)
            before = None
            while held:
                # As it was after the item before, if that drew nothing.
                before = before or tripwire.state()
                i = held[0]
                self._seen[i] = 1
                computed, drawn = self._compute(i, i in is_wanted, before)
                before = None if drawn or tripwire.is_slow(before) else before
                if computed is None:
                    guarded(items.release, [i])
                else:
                    self._pending.append(computed)
                held.pop(0)
                if self._collection.items() is not items:
                    # The daemon is lost, and the leases with it: nothing is computed ahead for anyone.
                    return
                if self._memory.is_full:
                    self._hand_over()
                    self._memory.clear()
        finally:
            # Nothing prepared outlives its leases: its input may change.
            self._computation.prepare(())
            if held:
                guarded(items.release, held)
            self._hand_over()
            self._memory.close()
            guarded(items.commit)

    def _compute(self, i: int, wanted: bool, before: tripwire.Token) -> tuple[Computed | None, bool]:
        """Item i: what is to be stored of it, or None if the lease has to be given back, and whether the
        generators were drawn from meanwhile."""
        cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
        try:
            value = self._computation.compute(i)
        except Restart:
            tripwire.restore(before)
            raise
        except Exception as error:
            daemon.refused("M18", f"item {i}: {type(error).__name__}: {error}".rstrip(": "), where(error))
            if wanted:
                raise
            # It raises again when its turn comes.
            tripwire.restore(before)
            return None, True
        drawn = tripwire.moved(before)
        is_stored = drawn is None or self._may_be_stored(i, drawn, before)
        cpu = time.thread_time_ns() - cpu
        wall = time.perf_counter_ns() - wall
        if wanted:
            self.values[i] = value
        if not is_stored:
            return None, True
        self._costs.add(wall)
        encoded = self._encoded(value)
        if encoded is None or not self._is_approved(i):
            return None, True
        before_cpu, before_io = self._computation.spent(i)
        cpu, io = cpu + before_cpu, max(0, wall - cpu) + before_io
        # Copied: making the next one may change what this one is made of.
        return Computed(i, encoded.layout, self._memory.keep(encoded.parts), cpu, io), drawn is not None

    def _may_be_stored(self, i: int, drawn: str, before: tripwire.Token) -> bool:
        """Whether an item may be stored while whose making a generator was drawn from. Raises `Tripped` if it
        was the item that drew."""
        if not self._computation.may_draw:
            return True
        if not tripwire.alone():
            # By whom cannot be told without running it again, while the other goes on drawing.
            return False
        culprit = self._computation.culprit(i)
        if culprit is not None:
            raise Tripped(drawn, before, culprit)
        # Another thread drew meanwhile.
        return True

    def _encoded(self, value: Any) -> values.Encoded | None:
        try:
            encoded = values.encode(value)
        except Exception as error:
            self._collection.encoded(error)
            return None
        self._collection.encoded(None)
        return encoded

    def _is_approved(self, i: int) -> bool:
        try:
            approved = self._computation.approve(self._items, i)
        except Refused as refused:
            self._collection.store_nothing(refused)
            return False
        return approved and self._collection.still(self._items, False)

    def _hand_over(self) -> None:
        """Puts what is pending, if what made it is what it was; else gives the leases back."""
        pending, items = self._pending, self._items
        if not pending:
            return
        begun = time.perf_counter_ns()
        still = self._collection.still(items, True)
        self._costs.look_ns = time.perf_counter_ns() - begun
        if still:
            for each in pending:
                cost = each.cpu_ns, each.io_ns
                put(items, each.i, each.layout, each.parts, *cost, read_back=self._read_back)
                if self._trial is not None:
                    made_here(self._collection.planned, items, each.i, sum(cost), self._trial.is_begun)
                if self._read_back and self._verifier is not None:
                    self._verifier.made(each.i)
            self._collection.took()
        else:
            guarded(items.release, [each.i for each in pending])
        pending.clear()
