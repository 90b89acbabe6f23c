"""Whether what is stored in a collection may be served in this process's world: proven, not assumed.

In the world in which a collection was begun, and in those in which it was proven, hits are served at once. In
any other, the process first computes a few of the items that it wants (canaries) and compares them with what
is stored. If all are equal, the world joins the proven ones. If one differs, something that no rule sees
changes the result: this world, and all that yield the same, get a variant of the collection. Until one of
these is known, the process neither serves nor stores: it computes, as without the cache.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from prebake.compute.computation import Computation
from prebake.compute.restart_signals import Tripped
from prebake.encoding.digests import digest
from prebake.proof.canaries import CANARIES, DEAR_NS, LOOKED_AT_MAX, Canaries, needed
from prebake.proof.comparison import Other, compare, decoded, element_digest, encoded_digest, is_steady
from prebake.proof.variants import CONTEXT, Split
from prebake.proof.verify import Verifier
from prebake.proof.world_standing import WorldStanding
from prebake.purity import tripwire
from prebake.runtime.errors import Refused, warn_once
from prebake.trial.checked import Checked
from prebake.trial.trial import Trial
from prebake.world.world import World

#: Items made here of which it is remembered what they were, to be compared once others store them.
MADE_MAX = 64
#: So many items, or so long (seconds), are made here for nothing while others may store some of them; then
#: the world is taken for one of its own.
ALONE_MAX, ALONE_SECONDS = 512, 10.0


class Unsteady(NamedTuple):
    """An item that is something else each time it is made."""

    i: int
    other: Other


class Proof:
    """What is still to be proven of one collection in this world."""

    def __init__(self, collection: Any, here: World, job: Any, trial: Trial | None = None) -> None:
        """`trial` is that of a function."""
        self._standing = WorldStanding(collection, here, job)
        self._world = here.digest
        self._job, self._trial = job, trial
        self._canaries = Canaries(here.digest)
        #: Nothing but the trial is left to be waited for.
        self._is_tried = False
        #: Nothing but the one element is left to be compared, for its kind or to be surer of the world: the
        #: part of the world that it tells of.
        self._part = b""
        #: Nothing but that is left to be compared: what this process was given for the same before.
        self._is_own = False
        #: What this process made of items itself: digests.
        self._made: dict[int, bytes] = {}
        self._alone, self._since = 0, time.monotonic()
        #: Items that were compared and are equal.
        self._same: set[int] = set()

    # How it begins.

    def stand(self, items: Any) -> Split | Refused | bool:
        """Whether nothing is left to be proven of items; else the variant to be used, or why nothing is
        shared."""
        found = self._standing.ask()
        if self._trial is None or isinstance(found, Split):
            return found
        outcome = self._trial.outcome(self._job)
        if isinstance(outcome, Refused):
            return outcome
        self._is_tried = found is True
        if not found or outcome is None and not self._standing.was_tried():
            return False
        if self._is_own_untold(items):
            return False
        return self._standing.is_first() or self._stand_of_kind(items)

    def _is_own_untold(self, items: Any) -> bool:
        """Whether a function's value was made by this process, and is to be compared before it is given out
        again."""
        own = self._standing.own_calls()
        if own.are_told:
            return False
        given = items.input(0)
        self._is_own = given is not None and own.wants(given[0]) and bool(items.locate([0]))
        return self._is_own

    def _stand_of_kind(self, items: Any) -> Split | bool:
        """The same of the kind of a function's value, in a world that a few values proved."""
        stored = items.stored(0) if items.locate([0]) else None
        given = items.input(0)
        if stored is None or given and given[0] in self._standing.own_calls():
            return True
        kind = self._standing.of_kind(stored[1])
        found = self._standing.ask_kind(kind)
        if found is True and self._standing.wants_checks():
            kind, found = self._world, False
        self._part = b"" if found else kind
        return found

    # How it goes on.

    def made(self, i: int, value: Any) -> None:
        """Item i was made here, and is not shared."""
        self._alone += 1
        if len(self._made) < MADE_MAX:
            self._made[i] = element_digest(value)

    def progress(
        self, items: Any, wanted: Sequence[int], verifier: Verifier, computation: Computation
    ) -> bool | Split | Unsteady | Refused | dict[int, Any]:
        """Compares what there is of wanted items: true if that proves the collection, or the variant to be
        used in its place. Else the items that may be served in any case; the others are to be made here."""
        if self._is_own:
            return self._compare_own(items, verifier, computation)
        if self._part:
            return self._compare_one(items, verifier, computation)
        if not self._is_tried:
            # Now that something is wanted: the first to make anything of a collection begins it.
            found = self._standing.ask(begins=True)
            if isinstance(found, Split) or found and self._trial is None:
                return found
            self._is_tried = found
        there = items.locate(list(wanted[:LOOKED_AT_MAX]))
        if self._is_tried and self._trial is not None:
            # What is made here is of use in any case: whoever is served it compares.
            outcome = self._trial.awaited(self._job) if there else self._trial.outcome(self._job)
            if isinstance(outcome, Refused):
                return outcome
            if outcome is not None and self._is_own_untold(items):
                return self._compare_own(items, verifier, computation)
            if outcome is not None or not there:
                return True
            if self._trial.is_under_way(self._job):
                return {}
        self._compare_made(items)
        differing = self._compare_canaries(items, there, verifier, computation)
        return differing or self._concluded(items, wanted, there)

    def _concluded(
        self, items: Any, wanted: Sequence[int], there: Sequence[int]
    ) -> bool | Split | dict[int, Any]:
        """What follows of what was compared, where nothing differs."""
        if self._is_enough():
            if self._is_tried:
                self._standing.tell_trial()
            else:
                self._standing.prove()
            return True
        count = len(items)
        if count == 1 and self._same:
            given = items.input(0)
            if given is not None:
                self._standing.tell_item(given[0], self._is_tried)
        elif self._is_stuck(count, there or list(self._same)):
            # This world begins a variant of its own.
            differs = self._standing.differences()
            why = f"nothing could be compared with what was made in another world: {differs}"
            return self._split(self._world, why)
        return {i: value for i in wanted if i in self._same for value in decoded(items, i)}

    def _compare_canaries(
        self, items: Any, there: Sequence[int], verifier: Verifier, computation: Computation
    ) -> Split | Unsteady | None:
        """Compares as many items as are needed; what follows if one differs."""
        count, begun, cpu = len(items), time.perf_counter_ns(), list[int]()
        for i in self._canaries.chosen(items, there, self._same, computation):
            cpu.append(time.thread_time_ns())
            spent = time.perf_counter_ns() - begun
            if self._standing.compared >= needed(count, spent, cpu, self._standing.cost_ns):
                break
            given = items.input(i)
            if given is None or count == 1 and self._standing.was_equal(given[0], self._is_tried):
                self._same.update([i] if given else [])
                continue
            clocks = Checked.clocks()
            found = compare(verifier, items, i, computation)
            if found is True:
                self._equal(i, given[0])
                if count == 1 and not self._is_tried:
                    self._standing.check(clocks)
                    stored = items.stored(i)
                    # It may be evicted by now, or be looked for anew.
                    if stored is not None:
                        self._standing.tell_kind(self._standing.of_kind(stored[1]))
            elif isinstance(found, Other):
                if self._is_tried or not is_steady(verifier, i, found):
                    return Unsteady(i, found)
                return self._differ(given[0], found)
            elif verifier.is_aside(items, i):
                self._same.add(i)
        return None

    def _compare_one(
        self, items: Any, verifier: Verifier, computation: Computation
    ) -> bool | Split | Unsteady | dict[int, Any]:
        """Whether a function's value is equal, where its world is proven."""
        given, clocks = items.input(0), Checked.clocks()
        found = None if given is None else compare(verifier, items, 0, computation)
        if found is True:
            if self._part != self._world:
                self._standing.tell_kind(self._part)
            self._standing.check(clocks)
            return True
        if given is not None and isinstance(found, Other):
            return self._differ(given[0], found) if is_steady(verifier, 0, found) else Unsteady(0, found)
        # What only leads to a value is compared there.
        return {i: value for i in (0,) if verifier.is_aside(items, i) for value in decoded(items, i)}

    def _compare_own(
        self, items: Any, verifier: Verifier, computation: Computation
    ) -> bool | Split | Unsteady | dict[int, Any]:
        """Whether a function's value is what this process was given for the same before."""
        given, own = items.input(0), self._standing.own_calls()
        if given is None:
            return {}
        try:
            found = compare(verifier, items, 0, computation)
        except Tripped:
            # What draws is never given out again; by whom it was cannot be told while another thread may.
            if tripwire.alone():
                raise
            found = None
        if isinstance(found, Other):
            # It may have been made in another world than this.
            if not self._standing.is_first() and is_steady(verifier, 0, found):
                return self._differ(given[0], found)
            return Unsteady(0, found)
        if found is None and not verifier.is_aside(items, 0):
            # It fails now, or what it read was changed: it is not made twice each time for that.
            own.tries(given[0])
            return {}
        own.tell(given[0])
        return True

    def _compare_made(self, items: Any) -> None:
        """Items that were made here before others stored them need not be made again."""
        for i in items.locate(list(self._made)) if self._made else ():
            found, given, known = items.stored(i), items.input(i), self._made[i]
            if found is not None and given is not None and known == encoded_digest(found[1], found[0]):
                self._equal(i, given[0])
            # If it differs, or cannot be told so, it is compared like any other.
            del self._made[i]

    # What follows.

    def _equal(self, i: int, fingerprint: bytes) -> None:
        self._same.add(i)
        if not self._is_tried or fingerprint not in self._standing.own_calls():
            self._standing.equal(fingerprint)

    def _is_enough(self) -> bool:
        # Where one is there in all, it is compared with that one.
        enough = 1 if self._standing.cost_ns >= DEAR_NS else min(CANARIES, max(1, self._standing.entries))
        return self._standing.compared >= enough

    def _is_stuck(self, count: int, there: Sequence[int]) -> bool:
        """Whether there is nothing to compare with, and it is of no use to wait for it."""
        if there:
            return False
        if count == 1 or not self._standing.has_others:
            return True
        return self._alone >= ALONE_MAX or time.monotonic() - self._since > ALONE_SECONDS

    def _differ(self, fingerprint: bytes, other: Other) -> Split:
        """The variant of all worlds that yield this value for an item that is not equal."""
        key = digest(CONTEXT, fingerprint + element_digest(other.value))
        split = self._split(key, f"{self._standing.differences()} ({other.how})")
        what = f"something outside the identity changes the result: {split.why}"
        warn_once(
            f"variant {split.key.hex()}", f"{what}. This run shares with those that are like it in this."
        )
        return split

    def _split(self, key: bytes, why: str) -> Split:
        # It may be of one kind of a function's values alone, where the others are proven.
        return self._standing.split(self._part or self._world, key, why)
