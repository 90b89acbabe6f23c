"""Items read from the cache or computed here: the shim's side of leases.

The user's code runs in the caller's thread only. While a wanted item is leased to another job, items that
this job will want later are computed instead, so that jobs split the work. Whatever goes wrong inside
Prebake, the item is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from prebake.codec import values
from prebake.compute.computation import Computation
from prebake.compute.restart_signals import Restart
from prebake.leases.lease_costs import LeaseCosts
from prebake.leases.lease_run import LeaseRun
from prebake.leases.open_collection import OpenCollection, guarded, put
from prebake.leases.read_order import AHEAD_MAX, Ahead, nothing_ahead
from prebake.proof import verify
from prebake.purity import tripwire
from prebake.reads import external_inputs
from prebake.runtime import daemon
from prebake.runtime.errors import warn_once
from prebake.runtime.refusals import not_cached
from prebake.runtime.statistics import Statistics
from prebake.trial.trial import Trial

#: An item can be evicted between being located and being read. So often in a row, it is computed here
#: instead.
READS_MAX = 3


class LeaseClient:
    """The items of one collection in this process, which `computation` makes: numbered from 0 to `count`.

    `verifier` computes hits again, where that is asked for or has to be proven; without it the items are no
    values of the user's. `trial` is that of a function, which is called `inside` those `with` statements.
    What is read and computed is counted in `statistics`, or else for these items alone.
    """

    def __init__(
        self,
        computation: Computation,
        count: int,
        verifier: verify.Verifier | None = None,
        trial: Trial | None = None,
        inside: Sequence[str] = (),
        statistics: Statistics | None = None,
    ) -> None:
        self._computation = computation
        #: Verifies a share of the hits, where that is asked for.
        self._verifier = verifier if verify.share() else None
        self._trial = trial
        self.collection = OpenCollection(
            computation, verifier, trial, inside, self._verifier is not None, statistics
        )
        self.costs = LeaseCosts()
        #: Items to compute here, and why they are not shared.
        self._alone: dict[int, str] = {}
        #: Items that this job has seen: not worth computing ahead.
        self.seen = bytearray(count)

    # Items that are there, and those that are not.

    def many(self, indices: Sequence[int], ahead: Ahead) -> list[Any]:
        """Items in the order of `indices`."""
        got = self.gather(indices, ahead)
        return [got[i] if i in got else self.compute(i) for i in indices]

    def gather(
        self, indices: Sequence[int], ahead: Ahead, got: dict[int, Any] | None = None, validated: bool = False
    ) -> dict[int, Any]:
        """Items of which the caller may have some, as far as they are cached or were made to be.

        The others are the caller's to compute, in its own order: perhaps they draw random numbers. With
        `validated`, inputs are as `validate` last found them.
        """
        got = got or {}
        given = dict(got) if self._verifier is not None else got
        alone: dict[int, str] = {}
        for attempt in range(READS_MAX + 1):
            for i in indices:
                if self._verifier is not None and i not in got:
                    other = self._verified(self._verifier, i)
                    if other is not None:
                        # What else was served is in doubt as well.
                        return {**given, i: other.value}
                is_read = i not in got and self.collection.proof is None
                found = self._read(i, validated) if is_read else None
                if found is not None and not _decode(i, found, got):
                    alone[i] = "a cached value cannot be read here"
            missing = [i for i in dict.fromkeys(indices) if i not in got and i not in alone]
            if not missing or attempt == READS_MAX or self.collection.items() is None:
                break
            got |= self.ensure(missing, ahead, alone)
            if self.collection.proof is not None:
                break
        self._alone.update(alone)
        return got

    def ensure(
        self,
        wanted: Sequence[int],
        ahead: Ahead,
        alone: dict[int, str] | None = None,
        read_back: bool = False,
    ) -> dict[int, Any]:
        """Makes wanted items readable, or returns their values if they were computed here.

        With `read_back` those that can be read are not returned: holding on to a batch of them costs as much
        as reading it back. What is neither when it returns is the caller's to compute: there is no daemon to
        share it with, or the item is in `alone`, with why it is not shared.
        """
        apart: dict[int, str] = {} if alone is None else alone
        collection = self.collection
        mine: dict[int, Any] = {}
        #: Made here and not held, to be read back.
        stored: list[int] = []
        missing = list(wanted)
        while missing:
            if collection.items() is None or not collection.shares(missing, mine):
                break
            # Of a variant, if this world has one.
            items = collection.items()
            if items is None:
                break
            try:
                granted, bypass = items.acquire(missing, lambda: ahead(AHEAD_MAX), self.costs.leases())
            except daemon.native().Error as error:
                daemon.failed(error)
                break
            for i in bypass if granted or bypass else missing:
                self.seen[i] = 1
            if not granted and not bypass:
                break
            mine |= self._computed(items, granted, missing, read_back)
            if read_back:
                held = set(items.missing(list(mine)))
                stored += [i for i in mine if i not in held]
                mine = {i: mine[i] for i in held}
            if not collection.is_open_as(items):
                # The transforms changed: what was made before stays as it was made.
                mine |= _read_from(items, stored)
                stored = []
            apart |= bypass
            missing = [i for i in missing if i not in mine and i not in apart]
        return mine

    def _computed(
        self, items: Any, granted: Sequence[int], wanted: Sequence[int], read_back: bool
    ) -> dict[int, Any]:
        """Computes leased items and hands them over; the values of those that are wanted."""
        run = LeaseRun(
            self.collection,
            items,
            self._computation,
            self.costs,
            self.seen,
            self._verifier,
            self._trial,
            read_back,
        )
        run.run(granted, wanted)
        return run.values

    def compute(self, i: int) -> Any:
        """Item i, made here and not stored."""
        if self.collection.proof is not None:
            # Others may have stored something since, by which this world is proven.
            mine: dict[int, Any] = {}
            if self.collection.shares([i], mine):
                mine = self.ensure([i], nothing_ahead)
            if i in mine:
                return mine[i]
        before = tripwire.state()
        try:
            value = self._computation.compute(i)
        except Restart:
            tripwire.restore(before)
            raise
        why = self._alone.pop(i, None)
        if why is not None:
            # Only now: of a file that is missing the user's own error tells better.
            warn_once("bypass", f"not cached: {why}")
        if self.collection.proof is not None:
            self.collection.proof.made(i, value)
        return value

    # Items that are there.

    def array(self, indices: Sequence[int], writable: bool = True) -> Any:
        """Items as one array if they are cached arrays of one type and shape; None if not."""
        self.collection.items()
        # Another thread may reset it meanwhile.
        items = self.collection.opened()
        if items is None or not indices or self.collection.proof is not None:
            return None
        try:
            array = items.array(indices, 0, len(indices), writable, values.stacked_form)
        except daemon.native().Error as error:
            if error.code != "ragged":
                daemon.failed(error)
            return None
        verifier = self._verifier
        if array is None or verifier is not None and not self._reproduces(verifier, items, indices):
            return None
        return array

    def stored(self, i: int) -> Any:
        """The element of item i, if it is there; nothing is computed. None too if it cannot be told."""
        items = self.collection.items()
        return None if items is None else _read_from(items, [i]).get(i)

    def there(self, indices: Sequence[int]) -> dict[int, Any]:
        """The elements of those items that are there, where nothing is left to be proven."""
        items = self.collection.items()
        if items is None or self.collection.proof is not None:
            return {}
        return _read_from(items, guarded(items.locate, list(indices)) or [])

    def _read(self, i: int, validated: bool) -> Any:
        items = self.collection.opened()
        return None if items is None else guarded(items.get, i, validated=validated)

    def _verified(self, verifier: verify.Verifier, i: int) -> verify.Other | None:
        """Item i computed again, if it is a hit that is to be verified and is not the same."""
        items = self.collection.opened()
        if items is None or items.missing([i]) or not verifier.due(i):
            return None
        try:
            other = verifier.check(items, i, self._computation)
        except daemon.native().Error as error:
            daemon.failed(error)
            return None
        if other is not None:
            self.collection.leave()
        return other

    def _reproduces(self, verifier: verify.Verifier, items: Any, indices: Sequence[int]) -> bool:
        """Whether items that were read are the same when computed again, and their inputs as they were."""
        if any(self._verified(verifier, i) is not None for i in indices):
            return False
        changed = bool(items.missing(indices))
        if changed:
            # They are read again, which is no other hit.
            for i in indices:
                verifier.made(i)
        return not changed

    # What is told of items.

    def expect(self, order: Sequence[int], reading: bool) -> None:
        """Says in which order items will be read, as far as that is known, and whether it is known that none
        will be written to where it lies: that all are copied, or only read."""
        items = self.collection.opened()
        if items is not None:
            items.expect(order, reading)

    def set_reads(self, i: int, paths: list[str]) -> None:
        """Says which files item i reads, where items are opened already."""
        items = self.collection.opened()
        if items is not None:
            guarded(external_inputs.tell, items, i, paths)

    def offer(self, i: int, leased: Any, layout: str, parts: list[Any], cpu_ns: int, io_ns: int) -> None:
        """Stores an element of item i that was made beside another's, if its input is still the same."""
        if self.collection.items() is None or not self.collection.shares([i], {}):
            return
        items = self.collection.items()
        acquired = items and guarded(items.acquire, [i], [], 1)
        if not acquired or i not in acquired[0]:
            return
        if leased is not None and items.leased(i) == leased and self.collection.still(items, True):
            put(items, i, layout, parts, cpu_ns, io_ns)
        else:
            guarded(items.release, [i])
        guarded(items.commit)


def _read_from(items: Any, indices: Sequence[int]) -> dict[int, Any]:
    """Those of the items that can be read, from a collection that may have been left."""
    found: dict[int, Any] = {}
    for i in indices:
        # Only to map it.
        leased = guarded(items.acquire, [i], [], 1)
        if leased is not None and leased[0]:
            guarded(items.release, leased[0])
        element = guarded(items.get, i, validated=True)
        if element is not None:
            _decode(i, element, found)
    return found


def _decode(i: int, element: tuple[Any, str], into: dict[int, Any]) -> bool:
    """Whether an element could be made a value: the class that it is of may be another one here."""
    try:
        into[i] = values.decode(element[1], element[0])
    except Exception as error:
        not_cached(error)
        return False
    return True


class _Entry(Computation):
    """The one item of a collection that Prebake keeps for itself: what it found out, for other processes."""

    # Whoever draws meanwhile, it is not what finds it, or that is told elsewhere.
    may_draw = False

    def __init__(self, open_items: Callable[[Any], Any], find: Callable[[], Any]) -> None:
        self._open, self._find = open_items, find

    def open(self, job: Any) -> Any:
        return self._open(job)

    def compute(self, i: int) -> Any:
        return self._find()


def found_once(open_items: Callable[[Any], Any], find: Callable[[], Any]) -> Any:
    """What is found by the first process that asks, and read by all others: the one item of a collection."""
    return LeaseClient(_Entry(open_items, find), 1).many([0], nothing_ahead)[0]
