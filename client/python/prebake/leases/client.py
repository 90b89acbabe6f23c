"""Items read from the cache or computed here: the shim's side of leases.

The user's code runs in the caller's thread only. While a wanted item is leased to another job, items that
this job will want later are computed instead, so that jobs split the work. Whatever goes wrong inside
Prebake, the item is computed here.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from prebake.codec import values
from prebake.leases import verify
from prebake.leases.pending_elements import Withheld
from prebake.leases.proof import DEPTH_MAX, Planner, Proof, Split, Unsteady, made_here
from prebake.leases.restart_signals import Again, Tripped
from prebake.leases.warm_read import AtOnce
from prebake.purity import tripwire
from prebake.reads import external_inputs
from prebake.runtime import daemon
from prebake.runtime.errors import Refused, warn_once, where
from prebake.runtime.refusals import not_cached
from prebake.trial.trial import Trial
from prebake.world import opened, world

#: Time to lease at once: long against the 2 ms of asking, looking and committing, short against what others
#: wait for. Wall time, since they wait for reading too. Where little is left the daemon grants less.
LEASE_NS = 250_000_000
#: Leases at once, however fast the items are: what a dead job holds must be computed by others after a wait.
LEASES_MAX = 64
#: Items offered to be computed ahead. Jobs in the same order hold the next few; a free one is beyond these.
AHEAD_MAX = 1024
#: Items looked at to find those, so that the search stays small beside an item's cost.
AHEAD_LOOKED_AT_MAX = 4096
#: Weight of the newest item in the average cost.
COST_WEIGHT = 0.25
#: An item can be evicted between being located and being read. So often in a row, it is computed here
#: instead.
READS_MAX = 3
#: What is made between two looks at what makes it, in the time of a look; and no longer than this, since
#: others wait for what is leased.
LOOK_WORK, LOOK_WORK_NS_MAX = 10, 1_000_000_000
#: Leases at once where a look is so long that it pays for more items than those above.
LEASES_LONG_MAX = 1024
#: So often in a row `compute` changed while it ran: it changes itself, and nothing of it can be shared.
CHANGES_MAX = 4
#: So many values in a row cannot be stored: the others cannot either. Fewer may be odd ones among many.
ODD_MAX = 16

Ahead = Callable[[int], Sequence[int]]


def nothing_ahead(count: int) -> Sequence[int]:
    """For callers that will want nothing else."""
    return ()


def nobody(i: int) -> Any:
    """For `culprit`: whoever draws meanwhile, it is not what makes item i, or that is told elsewhere."""
    return None


def unseen(order: Sequence[int], start: int, seen: bytearray) -> Ahead:
    """The items of an order that are not seen yet, from a place to its end and on from its beginning."""

    def ahead(count: int) -> Sequence[int]:
        # In C: a first batch waits for it, and looks at all of these.
        places = [*order[start : start + AHEAD_LOOKED_AT_MAX]]
        places += order[: min(start, AHEAD_LOOKED_AT_MAX - len(places))]
        unseen = dict.fromkeys(i for i in places if not seen[i])
        return list(itertools.islice(unseen, count))

    return ahead


class Made(NamedTuple):
    """An element that is to be stored, and what it took to make it."""

    i: int
    layout: str
    parts: list[memoryview | bytes]
    cpu_ns: int
    io_ns: int


class Fill:
    """The items of one collection in this process.

    `open_items` makes the native items for a native job; it is called again after a fork or a lost daemon. It
    may return None to say that nothing is to be cached. `compute` makes item i. Items are numbered from 0 to
    `count`. `unchanged` says whether `compute` still is what the items were opened as; if asked closely, at
    any cost. `prepare` is told what is computed next; `look_up`, of which items nobody asked for yet it is to
    be known what they read. `approve(items, i)` says whether what was just computed
    of item i may be stored, or raises `Refused` if nothing of it all may. `culprit(i)` says what draws
    random numbers when item i is computed, if anything does; `spent(i)` what CPU time and waiting (ns) went
    into it before. `verifier` computes hits again, where that is asked for or has to be proven; `trial` is
    that of a function, and `inside` says which `with` statements it is called in. `begun_in` tells the world
    that items were made in, where that was before their collection is opened.

    Invariant: nothing is stored unless `unchanged` said so closely after it was made: what made it was
    described when the items were opened and again then, and both are equal. Until then it is withheld.
    """

    def __init__(
        self,
        open_items: Callable[[Any], Any],
        compute: Callable[[int], Any],
        count: int,
        unchanged: Callable[[bool], bool] = lambda closely: True,
        culprit: Callable[[int], Any] | None = None,
        spent: Callable[[int], tuple[int, int]] = lambda i: (0, 0),
        prepare: Callable[[Sequence[int]], None] = lambda indices: None,
        look_up: Callable[[Sequence[int]], None] = lambda indices: None,
        approve: Callable[[Any, int], bool] = lambda items, i: True,
        verifier: verify.Verifier | None = None,
        trial: Trial | None = None,
        inside: Sequence[str] = (),
        begun_in: Callable[[], world.World | None] = lambda: None,
    ) -> None:
        self._open_items = open_items
        self._culprit = culprit or (lambda i: compute if tripwire.draws(lambda: compute(i)) else None)
        self._spent = spent
        self._prepare = prepare
        self._look_up = look_up
        self._approve = approve
        self._compute = compute
        self._verifier = verifier if verify.share() else None
        #: How hits are computed again; without it the items are no values of the user's.
        self._prover = verifier
        self._trial, self.inside, self._begun_in = trial, inside, begun_in
        #: What the items are of, as it was planned.
        self._collection: Any = None
        #: What has to be proven before anything is served or stored; and the world that it was opened in.
        self._proof: Proof | None = None
        self.world: world.World | None = None
        #: What was counted until it did not reproduce: nothing more is read or stored here.
        self._left: dict[str, int] | None = None
        #: What was counted in other worlds.
        self._earlier: dict[str, int] = {}
        self._unchanged = unchanged
        self._changes = 0
        self._connection: daemon.Connection | None = None
        self._items: Any = None
        #: See `at_once`; None until it is asked.
        self.ready: AtOnce | None = None
        #: Of an item on average, and of the last close look: time, in nanoseconds.
        self.cost_ns, self.look_ns = 0.0, 0
        #: Values in a row that could not be stored.
        self._odd = 0
        self._unstorable = False
        #: Items to compute here, and why they are not shared.
        self._alone: dict[int, str] = {}
        #: Items that this job has seen: not worth computing ahead.
        self.seen = bytearray(count)

    def stats(self) -> dict[str, int]:
        """What this process took from the cache and what it computed, by the native module's count."""
        if self._left is not None:
            return dict(self._left)
        items = self._opened()
        now = dict(items.stats()) if items is not None else {}
        return {name: now.get(name, 0) + self._earlier.get(name, 0) for name in {**self._earlier, **now}}

    def reset(self) -> None:
        """Opens the collection anew at the next use."""
        self._connection = self._items = self.ready = self._proof = None

    def items(self) -> Any:
        """The native items; None while everything is computed here."""
        if self._left is not None:
            return None
        connection = daemon.connection()
        if connection is not self._connection:
            self._opened()
            if connection is not None:
                self._connection, self._items, self.ready = connection, None, None
                self._open(connection)
        # Without a connection the old items stay: what is mapped can still be read.
        return self._items if connection is not None and not self._unstorable else None

    def at_once(self) -> AtOnce | None:
        """The items as they were opened; None if they are not, or if some are to be verified."""
        # Those of a parent process refuse to be asked.
        connection = self._connection
        if connection is None or connection.lost:
            return None
        unproven = self._verifier is not None or self._proof is not None
        if self.ready is None and self._items is not None and not unproven:
            self.ready = AtOnce(self._items, connection)
        return self.ready

    def is_closed(self) -> bool:
        """Whether nothing is shared, and nothing that was can be read on."""
        return self.items() is None and self._opened() is None

    def _opened(self) -> Any:
        """The native items as this process opened them; None if it has not. A parent's are never touched:
        their locks may be held by a thread that is not here."""
        if self._connection is not None and self._connection.pid != os.getpid():
            daemon.keep_inherited(self._items)
            self._earlier = {}
            self.reset()
        return self._items

    def _open(self, connection: daemon.Connection) -> None:
        try:
            self._items = self._opened_here(connection.job)
        except daemon.native().Error as error:
            daemon.failed(error)
        except Exception as error:
            # Looking at an odd object can raise anything; the job must not.
            not_cached(error)

    def _opened_here(self, job: Any) -> Any:
        """The items of this process's world; None if they cannot be told."""
        self.ready = self._proof = None
        # An element is asked for: the process is set up.
        opened.files()
        if self._prover is None:
            return self._open_items(job)
        planner = Planner(job)
        items = self._open_items(planner)
        self.world = self._begun_in() or world.current(self.inside)
        if self.world is None:
            return None
        while items is not None and planner.collection is not None:
            self._collection = planner.collection
            proof = Proof(planner.collection, self.world, job, self._trial)
            stands = proof.stand(items)
            if isinstance(stands, Refused):
                not_cached(stands)
                return None
            if not isinstance(stands, Split):
                self._proof = None if stands else proof
                return items
            if len(planner.variants) >= DEPTH_MAX:
                return None
            planner = Planner(job, [*planner.variants, stands])
            items = self._open_items(planner)
        return items

    def _is_shared(self, wanted: Sequence[int], mine: dict[int, Any]) -> bool:
        """Whether wanted items may be served, and what is made of them stored, in this world. If not, those
        that may be are in `mine`, and the others are to be made here."""
        for _ in range(DEPTH_MAX):
            proof, items, prover = self._proof, self._opened(), self._prover
            if proof is None or prover is None:
                return True
            if items is None:
                return False
            try:
                found = proof.progress(items, wanted, prover, self._culprit, self._unchanged, self._look_up)
            except daemon.native().Error as error:
                daemon.failed(error)
                return False
            if found is True:
                self._proof = None
                return True
            if isinstance(found, Unsteady):
                prover.report(items, found.i, found.other.how, 0)
                self._left = self.stats()
                self.reset()
                mine.update({found.i: found.other.value} if found.i in wanted else {})
                return False
            if isinstance(found, Refused):
                not_cached(found)
                self._unstorable = True
                return False
            if not isinstance(found, Split):
                mine.update(found or {})
                return False
            self.reset()
            self.items()
        return False

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
                self._earlier = self.stats()
                self.reset()

    def expect(self, order: Sequence[int], reading: bool) -> None:
        """Says in which order items will be read, as far as that is known, and whether it is known that none
        will be written to where it lies: that all are copied, or only read."""
        items = self._opened()
        if items is not None:
            items.expect(order, reading)

    def set_reads(self, i: int, paths: list[str]) -> None:
        """Says which files item i reads, where items are opened already."""
        items = self._opened()
        if items is not None:
            self._guarded(external_inputs.tell, items, i, paths)

    def stored(self, i: int) -> Any:
        """The element of item i, if it is there; nothing is computed. None too if it cannot be told."""
        items = self.items()
        return None if items is None else self._read_from(items, [i]).get(i)

    def there(self, indices: Sequence[int]) -> dict[int, Any]:
        """The elements of those items that are there, where nothing is left to be proven."""
        items = self.items()
        if items is None or self._proof is not None:
            return {}
        return self._read_from(items, self._guarded(items.locate, list(indices)) or [])

    def offer(self, i: int, leased: Any, layout: str, parts: list[Any], cpu_ns: int, io_ns: int) -> None:
        """Stores an element of item i that was made beside another's, if its input is still the same."""
        if self.items() is None or not self._is_shared([i], {}):
            return
        items = self.items()
        acquired = items and self._guarded(items.acquire, [i], [], 1)
        if not acquired or i not in acquired[0]:
            return
        if leased is not None and items.leased(i) == leased and self._still(items, True):
            self._guarded(items.put, i, layout, parts, cpu_ns, io_ns)
        else:
            self._guarded(items.release, [i])
        self._guarded(items.commit)

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
                found = self._read(i, validated) if i not in got and self._proof is None else None
                if found is not None and not self._decoded(i, found, got):
                    alone[i] = "a cached value cannot be read here"
            missing = [i for i in dict.fromkeys(indices) if i not in got and i not in alone]
            if not missing or attempt == READS_MAX or self.items() is None:
                break
            got |= self.ensure(missing, ahead, alone)
            if self._proof is not None:
                break
        self._alone.update(alone)
        return got

    def compute(self, i: int) -> Any:
        """Item i, made here and not stored."""
        if self._proof is not None:
            # Others may have stored something since, by which this world is proven.
            mine: dict[int, Any] = {}
            if self._is_shared([i], mine):
                mine = self.ensure([i], nothing_ahead)
            if i in mine:
                return mine[i]
        before = tripwire.state()
        try:
            value = self._compute(i)
        except Again:
            tripwire.restore(before)
            raise
        why = self._alone.pop(i, None)
        if why is not None:
            # Only now: of a file that is missing the user's own error tells better.
            warn_once("bypass", f"not cached: {why}")
        if self._proof is not None:
            self._proof.made(i, value)
        return value

    def array(self, indices: Sequence[int], writable: bool = True) -> Any:
        """Items as one array if they are cached arrays of one type and shape; None if not."""
        self.items()
        # Another thread may reset it meanwhile.
        items = self._items
        if items is None or not indices or self._proof is not None:
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

    def _verified(self, verifier: verify.Verifier, i: int) -> verify.Other | None:
        """Item i computed again, if it is a hit that is to be verified and is not the same."""
        items = self._opened()
        if items is None or items.missing([i]) or not verifier.due(i):
            return None
        try:
            other = verifier.check(items, i, self._culprit, self._unchanged)
        except daemon.native().Error as error:
            daemon.failed(error)
            return None
        if other is not None:
            self._left = self.stats()
            self.reset()
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

    def _read(self, i: int, validated: bool) -> Any:
        items = self._opened()
        return None if items is None else self._guarded(items.get, i, validated=validated)

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
        alone = {} if alone is None else alone
        mine: dict[int, Any] = {}
        #: Made here and not held, to be read back.
        stored: list[int] = []
        missing = list(wanted)
        while missing:
            items = self.items()
            if items is None or not self._is_shared(missing, mine):
                break
            # Of a variant, if this world has one.
            items = self.items()
            if items is None:
                break
            leases = self._leases()
            try:
                granted, bypass = items.acquire(missing, lambda: ahead(AHEAD_MAX), leases)
            except daemon.native().Error as error:
                daemon.failed(error)
                break
            if not granted and not bypass:
                for i in missing:
                    self.seen[i] = 1
                break
            self._run(items, granted, missing, mine, read_back)
            if read_back:
                held = set(items.missing(list(mine)))
                stored += [i for i in mine if i not in held]
                mine = {i: mine[i] for i in held}
            if self._items is not items:
                # The transforms changed: what was made before stays as it was made.
                mine |= self._read_from(items, stored)
                stored = []
            for i in bypass:
                self.seen[i] = 1
            alone |= bypass
            missing = [i for i in missing if i not in mine and i not in alone]
        return mine

    def _read_from(self, items: Any, indices: Sequence[int]) -> dict[int, Any]:
        """Those of the items that can be read, from a collection that may have been left."""
        found = {}
        for i in indices:
            # Only to map it.
            leased = self._guarded(items.acquire, [i], [], 1)
            if leased is not None and leased[0]:
                self._guarded(items.release, leased[0])
            element = self._guarded(items.get, i, validated=True)
            if element is not None:
                self._decoded(i, element, found)
        return found

    def _decoded(self, i: int, element: tuple[Any, str], into: dict[int, Any]) -> bool:
        """Whether an element could be made a value: the class that it is of may be another one here."""
        try:
            into[i] = values.decode(element[1], element[0])
        except Exception as error:
            not_cached(error)
            return False
        return True

    def _leases(self) -> int:
        if not self.cost_ns:
            return 1
        work = min(LOOK_WORK * self.look_ns, LOOK_WORK_NS_MAX)
        most = LEASES_MAX if work <= LEASE_NS else LEASES_LONG_MAX
        return max(1, min(most, int(max(LEASE_NS, work) / self.cost_ns)))

    def _run(
        self, items: Any, granted: list[int], wanted: Sequence[int], mine: dict[int, Any], read_back: bool
    ) -> None:
        """Computes leased items and hands them over. Only a wanted item's error is the caller's."""
        wanted_set, held = set(wanted), list(granted)
        made: list[Made] = []
        withheld = Withheld()
        try:
            if not self._still(items, False):
                return
            self._prepare(held)
            before = None
            while held:
                # As it was after the item before, if that drew nothing.
                before = before or tripwire.state()
                i = held[0]
                self.seen[i] = 1
                one, drawn = self._make(items, i, i in wanted_set, mine, before, withheld)
                before = None if drawn or tripwire.is_slow(before) else before
                if one is None:
                    self._guarded(items.release, [i])
                else:
                    made.append(one)
                held.pop(0)
                if self.items() is not items:
                    # The daemon is lost, and the leases with it: nothing is computed ahead for anyone.
                    return
                if withheld.is_full:
                    self._hand_over(items, made, read_back)
                    withheld.clear()
        finally:
            # Nothing prepared outlives its leases: its input may change.
            self._prepare(())
            if held:
                self._guarded(items.release, held)
            self._hand_over(items, made, read_back)
            withheld.close()
            self._guarded(items.commit)

    def _hand_over(self, items: Any, made: list[Made], read_back: bool) -> None:
        """Puts what was withheld, if what made it is what it was; else gives the leases back."""
        if not made:
            return
        begun = time.perf_counter_ns()
        still = self._still(items, True)
        self.look_ns = time.perf_counter_ns() - begun
        if still:
            for each in made:
                cost = each.cpu_ns, each.io_ns
                self._guarded(items.put, each.i, each.layout, each.parts, *cost, read_back=read_back)
                if self._trial is not None:
                    made_here(self._collection, items, each.i, sum(cost), self._trial.is_begun)
                if read_back and self._verifier is not None:
                    self._verifier.made(each.i)
            self._changes = 0
        else:
            self._guarded(items.release, [each.i for each in made])
        made.clear()

    def _make(
        self,
        items: Any,
        i: int,
        wanted: bool,
        mine: dict[int, Any],
        before: tripwire.Token,
        withheld: Withheld,
    ) -> tuple[Made | None, bool]:
        """Computes item i; what is to be stored of it, or None if the lease has to be given back, and whether
        the generators were drawn from meanwhile."""
        cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
        try:
            value = self._compute(i)
        except Again:
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
        if drawn is not None and self._culprit is not nobody and not tripwire.alone():
            # By whom cannot be told without running it again, while the other goes on drawing.
            if wanted:
                mine[i] = value
            return None, True
        if drawn is not None:
            culprit = self._culprit(i)
            if culprit is not None:
                raise Tripped(drawn, before, culprit)
            # Otherwise another thread drew meanwhile.
        cpu = time.thread_time_ns() - cpu
        wall = time.perf_counter_ns() - wall
        self.cost_ns += (wall - self.cost_ns) * (COST_WEIGHT if self.cost_ns else 1.0)
        if wanted:
            mine[i] = value
        try:
            layout, parts = values.encode(value)
        except Exception as error:
            not_cached(error)
            self._odd += 1
            self._unstorable = self._odd >= ODD_MAX
            return None, True
        self._odd = 0
        try:
            approved = self._approve(items, i)
        except Refused as error:
            not_cached(error)
            self._unstorable = True
            return None, True
        if not approved or not self._still(items, False):
            return None, True
        before_cpu, before_io = self._spent(i)
        cpu, io = cpu + before_cpu, max(0, wall - cpu) + before_io
        # Copied: making the next one may change what this one is made of.
        return Made(i, layout, withheld.keep(parts), cpu, io), drawn is not None

    def _still(self, items: Any, closely: bool) -> bool:
        """Whether what is computed now may be stored in these items; if not, they are opened anew."""
        if self._items is not items:
            # Another thread saw a change.
            return False
        try:
            if self._unchanged(closely):
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

    def _guarded(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A native call whose failure is only noted: the caller computes instead."""
        try:
            return call(*args, **kwargs)
        except daemon.native().Error as error:
            daemon.failed(error)
            return None
