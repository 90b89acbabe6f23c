"""A collection as this process has it open: its native items, and whether they may be served and stored."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from prebake.compute.computation import Computation
from prebake.leases.warm_read import WarmRead
from prebake.proof.proof import Proof, Unsteady
from prebake.proof.variants import DEPTH_MAX, Planner, Split
from prebake.proof.verify import Verifier
from prebake.runtime import daemon
from prebake.runtime.errors import Code, Refused, warn_once
from prebake.runtime.refusals import not_cached
from prebake.runtime.statistics import Statistics, Stats
from prebake.trial.trial import Trial
from prebake.world import opened, world

#: So often in a row `compute` changed while it ran: it changes itself, and nothing of it can be shared.
CHANGES_MAX = 4
#: So many values in a row cannot be stored: the others cannot either. Fewer may be odd ones among many.
ODD_MAX = 16
#: Of an element, as the native module has it.
ELEMENT_BYTES_MAX = 256 << 20


class OpenCollection:
    """The items of one collection in this process: opened by the first use, and anew after a fork, in another
    world, and once the daemon was lost.

    `verifier` computes hits again, where that has to be proven: without it the items are no values of the
    user's. `trial` is that of a function, and `inside` says which `with` statements it is called in. Where
    hits are `verified`, none is served at once. What is read and computed is counted in `statistics`.
    """

    def __init__(
        self,
        computation: Computation,
        verifier: Verifier | None,
        trial: Trial | None,
        inside: Sequence[str],
        verified: bool,
        statistics: Statistics | None = None,
    ) -> None:
        self._computation = computation
        self._verifier, self._trial = verifier, trial
        self.inside, self._verified = inside, verified
        self._statistics = Statistics() if statistics is None else statistics
        #: What the items are of, as it was planned; and the world that it was opened in.
        self.planned: Any = None
        self.world: world.World | None = None
        #: What has to be proven before anything is served or stored.
        self.proof: Proof | None = None
        #: See `warm_read`; None until it is asked.
        self.ready: WarmRead | None = None
        self._connection: daemon.Connection | None = None
        self._items: Any = None
        #: An item did not reproduce: nothing more is read or stored here.
        self._is_left = False
        #: Changes in a row, and values in a row that could not be stored.
        self._changes = self._odd = 0
        self._unstorable = False

    # What is open.

    def items(self) -> Any:
        """The native items; None while everything is computed here."""
        if self._is_left:
            return None
        connection = daemon.connection()
        if connection is not self._connection:
            self.opened()
            if connection is not None:
                self._connection, self._items, self.ready = connection, None, None
                self._open(connection)
        # Without a connection the old items stay: what is mapped can still be read.
        return self._items if connection is not None and not self._unstorable else None

    def opened(self) -> Any:
        """The native items as this process opened them; None if it has not. A parent's are never touched:
        their locks may be held by a thread that is not here."""
        if self._connection is not None and self._connection.pid != os.getpid():
            daemon.keep_inherited(self._items)
            self.reset()
        return self._items

    def warm_read(self) -> WarmRead | None:
        """The items as they were opened; None if they are not, or if some are to be verified."""
        # Those of a parent process refuse to be asked.
        connection = self._connection
        if connection is None or connection.lost:
            return None
        if self.ready is None and self._items is not None and not self._verified and self.proof is None:
            self.ready = WarmRead(self._items, connection)
        return self.ready

    def is_closed(self) -> bool:
        """Whether nothing is shared, and nothing that was can be read on."""
        return self.items() is None and self.opened() is None

    def is_open_as(self, items: Any) -> bool:
        """Whether these still are the items; another thread may have opened them anew."""
        return self._items is items

    def reset(self) -> None:
        """Opens the collection anew at the next use."""
        self._connection = self._items = self.ready = self.proof = None

    def leave(self) -> None:
        """Reads and stores nothing more: an item did not reproduce."""
        self._is_left = True
        self.reset()

    def stats(self) -> Stats:
        """What was taken from the cache and what was computed, by the native module's count."""
        return self._statistics.read()

    def _open(self, connection: daemon.Connection) -> None:
        try:
            items = self._opened_here(connection.job)
            if items is not None:
                items.count_into(self._statistics.counters())
            self._items = items
        except daemon.native().Error as error:
            daemon.failed(error)
        except Exception as error:
            # Looking at an odd object can raise anything; the job must not.
            not_cached(error)

    def _opened_here(self, job: Any) -> Any:
        """The items of this process's world; None if they cannot be told."""
        self.ready = self.proof = None
        # An element is asked for: the process is set up.
        opened.files()
        if self._verifier is None:
            return self._computation.open(job)
        planner = Planner(job)
        items = self._computation.open(planner)
        self.world = self._computation.begun_in() or world.current(self.inside)
        if self.world is None:
            return None
        while items is not None and planner.collection is not None:
            self.planned = planner.collection
            proof = Proof(planner.collection, self.world, job, self._trial)
            stands = proof.stand(items)
            if isinstance(stands, Refused):
                not_cached(stands)
                return None
            if not isinstance(stands, Split):
                self.proof = None if stands else proof
                return items
            if len(planner.variants) >= DEPTH_MAX:
                return None
            planner = Planner(job, [*planner.variants, stands])
            items = self._computation.open(planner)
        return items

    # Whether it may be served and stored.

    def shares(self, wanted: Sequence[int], mine: dict[int, Any]) -> bool:
        """Whether wanted items may be served, and what is made of them stored, in this world. If not, those
        that may be are in `mine`, and the others are to be made here."""
        for _ in range(DEPTH_MAX):
            proof, items, verifier = self.proof, self.opened(), self._verifier
            if proof is None or verifier is None:
                return True
            if items is None:
                return False
            try:
                found = proof.progress(items, wanted, verifier, self._computation)
            except daemon.native().Error as error:
                daemon.failed(error)
                return False
            if found is True:
                self.proof = None
                return True
            if isinstance(found, Unsteady):
                verifier.report(items, found.i, found.other.how, 0)
                self.leave()
                mine.update({found.i: found.other.value} if found.i in wanted else {})
                return False
            if isinstance(found, Refused):
                self.store_nothing(found)
                return False
            if not isinstance(found, Split):
                mine.update(found or {})
                return False
            self.reset()
            self.items()
        return False

    def still(self, items: Any, closely: bool) -> bool:
        """Whether what is computed now may be stored in these items; if not, they are opened anew."""
        if self._items is not items:
            # Another thread saw a change.
            return False
        try:
            if self._computation.is_unchanged(closely):
                return True
        except Exception as error:
            # It asks the user's own objects.
            not_cached(error)
        self.reset()
        self._changes += 1
        if self._changes >= CHANGES_MAX:
            warn_once(
                "changes", "not cached: the transforms change while they run; mark what does so as random"
            )
            self._unstorable = True
        return False

    def took(self) -> None:
        """Takes note that items were stored: what makes them did not change."""
        self._changes = 0

    def encoded(self, error: Exception | None) -> None:
        """Takes note of whether a value could be encoded. After too many in a row nothing more is stored."""
        self._odd = 0 if error is None else self._odd + 1
        if error is not None:
            not_cached(error)
            self._unstorable = self._odd >= ODD_MAX

    def store_nothing(self, why: Refused) -> None:
        """Reads and stores nothing more, and says why."""
        not_cached(why)
        self._unstorable = True

    # What is known of its items.

    def validate(self) -> None:
        """Looks at every known input again, so that edits made before now are seen."""
        self.look_around()
        self.items()
        # Without a daemon too: mapped elements are read on, and must not outlive their inputs.
        items = self._items
        if items is None:
            return
        try:
            items.validate()
        except daemon.native().Error as error:
            daemon.failed(error)
            self.reset()

    def enter(self, inside: Sequence[str]) -> None:
        """Says in which `with` statements items are asked for from now on."""
        if self.inside != inside:
            self.inside = inside
            self.look_around()

    def look_around(self) -> None:
        """Opens the items anew if the world is another one than they were opened in."""
        was = self.world
        if was is not None:
            now = world.current(self.inside)
            if now is not was and (now is None or now.digest != was.digest):
                self.reset()


def put(
    items: Any, i: int, layout: str, parts: Sequence[Any], cpu_ns: int, io_ns: int, read_back: bool = False
) -> None:
    """Hands over an element of item i, in parts, to be stored; says so if it is too big."""
    stored = guarded(items.put, i, layout, parts, cpu_ns, io_ns, read_back=read_back)
    if stored is not False:
        return
    size = sum(memoryview(part).nbytes for part in parts)
    if size > ELEMENT_BYTES_MAX:
        most = f"{ELEMENT_BYTES_MAX >> 20} MiB"
        why = f"an element of {size >> 20} MiB is computed each time, since {most} is the most that is kept"
        not_cached(Refused(Code.TOO_BIG, f"{why}; cut it into several, or share an earlier step"))


def guarded(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A native call whose failure is only noted: the caller computes instead."""
    try:
        return call(*args, **kwargs)
    except daemon.native().Error as error:
        daemon.failed(error)
        return None
