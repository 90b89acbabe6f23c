"""Whether what is stored in a collection may be served in this process's world: proven, not assumed.

In the world in which a collection was begun, and in those in which it was proven, hits are served at once. In
any other, the process first computes a few of the items that it wants (canaries) and compares them with what
is stored. If all are equal, the world joins the proven ones. If one differs, something that no rule sees
changes the result: this world, and all that yield the same, get a variant of the collection. Until one of
these is known, the process neither serves nor stores: it computes, as without the cache.

The daemon keeps which worlds were proven (`daemon/src/worlds.rs`).
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from prebake.codec import values
from prebake.encoding.encoder import digest
from prebake.leases.restart_signals import Again, Tripped
from prebake.leases.verify import Verifier, difference
from prebake.purity import tripwire
from prebake.runtime import daemon
from prebake.runtime.errors import Refused, printable, warn_once
from prebake.runtime.refusals import not_cached
from prebake.trial import kinds
from prebake.trial.checked import Checked
from prebake.trial.own_calls import OwnCalls
from prebake.trial.trial import Trial
from prebake.world import world
from prebake.world.world import World

#: Items that have to be equal: one may be so by chance (0 times 2 is 0 times 3).
CANARIES = 2
#: More of them, as long as all together take no longer than this: cheap items are not worth a risk. Those of
#: a function are compared in calls of their own (`Checked`).
CANARIES_MAX, CHEAP_NS = 64, 4_000_000
#: Items of which one is compared in less CPU time than this are hardly worth keeping: of them, and of those
#: of data sets of so few, in so much of it; and no longer than that, should they wait for a disk.
TRIFLE_NS, FEW = 400_000, 8
TRIFLES_NS, TRIFLES_WALL_NS = 25_000_000, 100_000_000
#: Of items that take so long on average, one is enough.
DEAR_NS = 2_000_000_000
#: Items made here of which it is remembered what they were, to be compared once others store them.
MADE_MAX = 64
#: So many items, or so long (seconds), are made here for nothing while others may store some of them; then
#: the world is taken for one of its own.
ALONE_MAX, ALONE_SECONDS = 512, 10.0
#: Wanted items that are looked at to find some that are there.
LOOKED_AT_MAX = 256
#: So often it is looked for others to compare with, one question to the daemon each time.
SAMPLES_MAX = 64
#: Variants of variants: each is what some world yields where all before it agree.
DEPTH_MAX = 4

CONTEXT = "prebake 2026 variant v1"

#: Worlds that were proven while this process ran, by the daemon's run, collection and world; and those of
#: them with which others are compared.
_proven: set[tuple[int, str, bytes]] = set()
_first: set[tuple[int, str, bytes]] = set()
#: Kinds of a function's elements that are equal in a world that is not the first; by the same.
_kinds: dict[tuple[int, str, bytes], set[bytes]] = {}
#: Items of functions that were compared by this process, which proved their world.
_checked: dict[tuple[int, str, bytes], Checked] = {}
#: Items that were equal, where too few were compared; by the same.
_equal: dict[tuple[int, str, bytes], set[bytes]] = {}
#: Items of functions that were made in this process, by collection: that one is equal here tells less.
_made_here: dict[str, OwnCalls] = {}


if hasattr(os, "register_at_fork"):
    # What a parent made was made by another process than this.
    os.register_at_fork(after_in_child=_made_here.clear)


class Other(NamedTuple):
    """What an item is here, which is not what is stored, and how it differs."""

    value: Any
    how: str


class Unsteady(NamedTuple):
    """An item that is something else each time it is made."""

    i: int
    other: Other


class Split(NamedTuple):
    """A variant of a graph: its key, and what differs, in words."""

    key: bytes
    why: str


def made_here(collection: Any, items: Any, i: int, ns: int, is_tried: bool) -> None:
    """Takes note of an item of a function that this process made in so many nanoseconds, and stored;
    `is_tried` if a trial makes just that one again."""
    given = items.input(i)
    if given is not None:
        _of_here(collection).add(given[0], ns, is_tried)


def _of_here(collection: Any) -> OwnCalls:
    return _made_here.setdefault(collection.digest, OwnCalls())


class Planner:
    """Stands for a native job where items are opened: plans the variant of each graph, and notes what was
    planned last, which is what the items are of."""

    def __init__(self, job: Any, variants: Sequence[Split] = ()) -> None:
        self.job = job
        self.variants = list(variants)
        self.collection: Any = None

    def plan(self, graph_json: str) -> Any:
        self.collection = self.job.plan(varied(graph_json, self.variants))
        return self.collection

    def plan_once(self, graph_json: str) -> Any:
        """The same of a graph that this process asks for at every call of a function."""
        here = daemon.current()
        plan = here.plan_once if here is not None and here.job is self.job else self.job.plan
        self.collection = plan(varied(graph_json, self.variants))
        return self.collection


def varied(graph_json: str, variants: Sequence[Split]) -> str:
    """The graph of a variant: its output is another operator, for a reason that a leaf tells."""
    if not variants:
        return graph_json
    graph = json.loads(graph_json)
    output = next(each for each in graph["operators"] if each["id"] == graph["output"])
    keys = b"".join(variant.key for variant in variants)
    known = base64.b64decode(output.get("codeDigest", ""))
    output["codeDigest"] = base64.b64encode(digest(CONTEXT, known + keys)).decode()
    leaf = {
        "path": "world",
        "kind": "world",
        "digest": base64.b64encode(variants[-1].key[:16]).decode(),
        "shown": variants[-1].why[:200],
        "location": "",
    }
    output["leaves"] = [leaf, *output.get("leaves", [])]
    return json.dumps(graph)


class Proof:
    """What is still to be proven of one collection in this world."""

    def __init__(self, collection: Any, here: World, job: Any, trial: Trial | None = None) -> None:
        """`trial` is that of a function."""
        self._collection, self._here = collection, here
        self._job, self._trial = job, trial
        self._name = job.boot_id, collection.digest, here.digest
        #: Nothing but the trial is left to be waited for.
        self._is_tried = False
        #: Nothing but the one element is left to be compared, for its kind or to be surer of the world: which
        #: of these it tells of.
        self._place = b""
        #: Nothing but that is left to be compared: what this process was given for the same before.
        self._is_own = False
        self._described, self._others, self._cost_ns = b"", False, 0
        #: What this process made of items itself: digests.
        self._made: dict[int, bytes] = {}
        self._alone, self._since = 0, time.monotonic()
        #: How often it was looked for items that are not wanted yet.
        self._samples = 0
        #: Items that were compared and are equal.
        self._same: set[int] = set()

    # How it begins.

    def stand(self, items: Any) -> Split | Refused | bool:
        """Whether nothing is left to be proven of items; else the variant to be used, or why nothing is
        shared."""
        found = self._stand()
        if self._trial is None or isinstance(found, Split):
            return found
        outcome = self._trial.outcome(self._job)
        if isinstance(outcome, Refused):
            return outcome
        self._is_tried = found is True
        if not found or outcome is None and not self._was_tried():
            return False
        if self._is_own_untold(items):
            return False
        return self._name in _first or self._stand_of_kind(items)

    def _is_own_untold(self, items: Any) -> bool:
        """Whether a function's value was made by this process, and is to be compared before it is given out
        again."""
        own = _made_here.get(self._collection.digest)
        if own is None or own.are_told:
            return False
        given = items.input(0)
        self._is_own = given is not None and own.wants(given[0]) and bool(items.locate([0]))
        return self._is_own

    def _stand_of_kind(self, items: Any) -> Split | bool:
        """The same of the kind of a function's value, in a world that a few values proved."""
        stored = items.stored(0) if items.locate([0]) else None
        given = items.input(0)
        own = _made_here.get(self._collection.digest)
        if stored is None or given and own is not None and given[0] in own:
            return True
        kind, known = self._of_kind(stored[1]), _kinds.setdefault(self._name, set())
        if kind not in known and len(known) < kinds.KINDS_MAX:
            standing, *more = self._collection.stand(kind, part=True)
            if standing == "variant":
                return Split(*more)
            if standing == "unproven":
                self._place = kind
                return False
            known.add(kind)
        checked = _checked.get(self._name)
        if checked is not None and checked.wants_more():
            self._place = self._here.digest
        return not self._place

    def _was_tried(self) -> bool:
        """Whether another process than those that made them found items of a function to be equal."""
        name = *self._name[:2], self._of_trial()
        if name not in _proven and self._collection.stand(self._of_trial(), part=True)[0] == "proven":
            _proven.add(name)
        return name in _proven

    def _of_trial(self) -> bytes:
        return digest(CONTEXT, b"trial" + self._here.digest)

    def _stand(self, begins: bool = False) -> Split | bool:
        if self._name in _proven:
            return True
        kind, *more = self._collection.stand(self._here.digest, begins=begins)
        if kind == "variant":
            return Split(*more)
        if kind == "proven":
            first, undescribed = more
            if undescribed:
                self._collection.stand(self._here.digest, description=self._here.described())
            _proven.add(self._name)
            _first.update([self._name] if first else [])
            return True
        self._described, self._others, self._cost_ns = more
        return False

    # How it goes on.

    def made(self, i: int, value: Any) -> None:
        """Item i was made here, and is not shared."""
        self._alone += 1
        if len(self._made) < MADE_MAX:
            self._made[i] = element_digest(value)

    def progress(
        self,
        items: Any,
        wanted: Sequence[int],
        verifier: Verifier,
        culprit: Callable[[int], Any],
        unchanged: Callable[[bool], bool],
        look_up: Callable[[Sequence[int]], None],
    ) -> bool | Split | Unsteady | Refused | dict[int, Any]:
        """Compares what there is of wanted items: true if that proves the collection, or the variant to be
        used in its place. Else the items that may be served in any case; the others are to be made here.
        `look_up` has it known what items that nobody asked for yet read."""
        if self._is_own:
            return self._compare_own(items, verifier, culprit, unchanged)
        if self._place:
            return self._compare_one(items, verifier, culprit, unchanged)
        if not self._is_tried:
            # Now that something is wanted: the first to make anything of a collection begins it.
            found = self._stand(begins=True)
            if isinstance(found, Split) or found and self._trial is None:
                return found
            self._is_tried = found
        count, begun = len(items), time.perf_counter_ns()
        there = items.locate(list(wanted[:LOOKED_AT_MAX]))
        if self._is_tried and self._trial is not None:
            # What is made here is of use in any case: whoever is served it compares.
            outcome = self._trial.awaited(self._job) if there else self._trial.outcome(self._job)
            if isinstance(outcome, Refused):
                return outcome
            if outcome is not None and self._is_own_untold(items):
                return self._compare_own(items, verifier, culprit, unchanged)
            if outcome is not None or not there:
                return True
            if self._trial.is_under_way(self._job):
                return {}
        self._compare_made(items)
        cpu = list[int]()
        for i in self._chosen(items, there, look_up):
            cpu.append(time.thread_time_ns())
            if self._compared >= self._needed(count, time.perf_counter_ns() - begun, cpu):
                break
            given = items.input(i)
            if given is None or count == 1 and self._was_equal(given[0]):
                self._same.update([i] if given else [])
                continue
            clocks = Checked.clocks()
            found = compare(verifier, items, i, culprit, unchanged)
            if found is True:
                self._equal(i, given[0])
                if count == 1 and not self._is_tried:
                    self._check(clocks)
                    stored = items.stored(i)
                    # It may be evicted by now, or be looked for anew.
                    if stored is not None:
                        self._tell_kind(self._of_kind(stored[1]))
            elif isinstance(found, Other):
                if self._is_tried or not is_steady(verifier, i, found):
                    return Unsteady(i, found)
                return self._differ(given[0], found)
            elif verifier.is_aside(items, i):
                self._same.add(i)
        if self._is_enough():
            if self._is_tried:
                self._collection.stand(self._of_trial(), agrees=True, part=True)
            else:
                self._prove()
            return True
        if count == 1 and self._same:
            self._tell_item(items)
        elif self._is_stuck(count, there or list(self._same)):
            return self._own()
        return {i: value for i in wanted if i in self._same for value in _decoded(items, i)}

    def _compare_one(
        self,
        items: Any,
        verifier: Verifier,
        culprit: Callable[[int], Any],
        unchanged: Callable[[bool], bool],
    ) -> bool | Split | Unsteady | dict[int, Any]:
        """Whether a function's value is equal, where its world is proven."""
        given, clocks = items.input(0), Checked.clocks()
        found = None if given is None else compare(verifier, items, 0, culprit, unchanged)
        if found is True:
            if self._place != self._here.digest:
                self._tell_kind(self._place)
            self._check(clocks)
            return True
        if isinstance(found, Other):
            return self._differ(given[0], found) if is_steady(verifier, 0, found) else Unsteady(0, found)
        # What only leads to a value is compared there.
        return {i: value for i in (0,) if verifier.is_aside(items, i) for value in _decoded(items, i)}

    def _compare_own(
        self,
        items: Any,
        verifier: Verifier,
        culprit: Callable[[int], Any],
        unchanged: Callable[[bool], bool],
    ) -> bool | Split | Unsteady | dict[int, Any]:
        """Whether a function's value is what this process was given for the same before."""
        given, own = items.input(0), _of_here(self._collection)
        if given is None:
            return {}
        try:
            found = compare(verifier, items, 0, culprit, unchanged)
        except Tripped:
            # What draws is never given out again; by whom it was cannot be told while another thread may.
            if tripwire.alone():
                raise
            found = None
        if isinstance(found, Other):
            # It may have been made in another world than this.
            if self._name not in _first and is_steady(verifier, 0, found):
                return self._differ(given[0], found)
            return Unsteady(0, found)
        if found is None and not verifier.is_aside(items, 0):
            # It fails now, or what it read was changed: it is not made twice each time for that.
            own.tries(given[0])
            return {}
        own.tell(given[0])
        return True

    def _check(self, clocks: tuple[int, int]) -> None:
        """Counts an item of a function that was compared since then."""
        _checked[self._name] = _checked.get(self._name, Checked()).one_more(clocks)

    def _compare_made(self, items: Any) -> None:
        """Items that were made here before others stored them need not be made again."""
        for i in items.locate(list(self._made)) if self._made else ():
            found, given, known = items.stored(i), items.input(i), self._made[i]
            if found is not None and given is not None and known == encoded_digest(found[1], found[0]):
                self._equal(i, given[0])
            # If it differs, or cannot be told so, it is compared like any other.
            del self._made[i]

    def _chosen(
        self, items: Any, there: Sequence[int], look_up: Callable[[Sequence[int]], None]
    ) -> Iterator[int]:
        """The items to be compared, of those that are there: what is wanted first, then one of each kind, by
        digest; then what is not wanted yet."""

        def by_digest(indices: Sequence[int]) -> list[int]:
            return sorted(indices, key=lambda i: digest(CONTEXT, b"%d" % i + self._here.digest))

        def in_turn(indices: Sequence[int]) -> list[int]:
            return kinds.rarest_first(by_digest(indices), items.layouts)

        yield from (i for i in [*there[:1], *in_turn(there[1:])] if i not in self._same)
        count = len(items)
        if count > 1 and self._samples < SAMPLES_MAX:
            self._samples += 1
            step = max(1, count // LOOKED_AT_MAX)
            others = [i for i in range(0, count, step) if i not in there][:LOOKED_AT_MAX]
            look_up(others)
            others = items.locate(others)
            yield from (i for i in in_turn(others) if i not in self._same)

    def _needed(self, count: int, spent_ns: int, cpu: Sequence[int]) -> int:
        """How many items of `count` have to be equal in all, after so much time was spent on comparing; `cpu`
        is what CPU time it was before each."""
        if self._cost_ns >= DEAR_NS:
            return 1
        fastest_ns = min((after - before for before, after in itertools.pairwise(cpu)), default=TRIFLE_NS)
        if (
            (count <= FEW or fastest_ns < TRIFLE_NS)
            and spent_ns < TRIFLES_WALL_NS
            and cpu[-1] - cpu[0] < TRIFLES_NS
        ):
            return CANARIES_MAX
        return CANARIES_MAX if spent_ns < CHEAP_NS else CANARIES

    def _is_enough(self) -> bool:
        # Where one is there in all, it is compared with that one. Of a function's, this process may have
        # stored more since it was planned.
        there = max(1, self._collection.entries, len(_made_here.get(self._collection.digest, ())))
        return self._compared >= (1 if self._cost_ns >= DEAR_NS else min(CANARIES, there))

    @property
    def _compared(self) -> int:
        """Items of this collection that were equal in this world, in this process."""
        return len(_equal.get(self._name, ()))

    def _equal(self, i: int, fingerprint: bytes) -> None:
        self._same.add(i)
        if not self._is_tried or fingerprint not in _of_here(self._collection):
            _equal.setdefault(self._name, set()).add(fingerprint)

    def _was_equal(self, fingerprint: bytes) -> bool:
        """Whether the item of this fingerprint was found to be equal in this world, by whichever process."""
        if fingerprint in _equal.get(self._name, ()):
            return True
        kind, *_ = self._collection.stand(self._of_item(fingerprint), part=True)
        return bool(kind == "proven")

    def _tell_item(self, items: Any) -> None:
        """Has it known that the one item of these was equal, where no more could be compared."""
        given = items.input(0)
        if given is not None and given[0] in _equal.get(self._name, ()):
            self._collection.stand(self._of_item(given[0]), agrees=True, part=True)

    def _tell_kind(self, kind: bytes) -> None:
        """Has it known that a value of a kind was equal."""
        known = _kinds.setdefault(self._name, set())
        if kind not in known:
            self._collection.stand(kind, agrees=True, part=True)
            known.add(kind)

    def _of_kind(self, layout: str) -> bytes:
        return digest(CONTEXT, b"kind" + self._here.digest + kinds.of_layout(layout).encode())

    def _of_item(self, fingerprint: bytes) -> bytes:
        what = b"tried item" if self._is_tried else b"item"
        return digest(CONTEXT, what + self._here.digest + fingerprint)

    def _is_stuck(self, count: int, there: Sequence[int]) -> bool:
        """Whether there is nothing to compare with, and it is of no use to wait for it: this world begins a
        variant of its own."""
        if there:
            return False
        if count == 1 or not self._others:
            return True
        return self._alone >= ALONE_MAX or time.monotonic() - self._since > ALONE_SECONDS

    def _own(self) -> Split:
        """The variant that this world begins."""
        differs = world.differences(self._here, self._described)
        why = f"nothing could be compared with what was made in another world: {differs}"
        return self._split(self._here.digest, why)

    def _differ(self, fingerprint: bytes, other: Other) -> Split:
        """The variant of all worlds that yield this value for an item that is not equal."""
        differs = world.differences(self._here, self._described)
        key = digest(CONTEXT, fingerprint + element_digest(other.value))
        split = self._split(key, f"{differs} ({other.how})")
        what = f"something outside the identity changes the result: {split.why}"
        warn_once(
            f"variant {split.key.hex()}", f"{what}. This run shares with those that are like it in this."
        )
        return split

    def _split(self, key: bytes, why: str) -> Split:
        # It may be of one kind of a function's values alone, where the others are proven.
        place, why = self._place or self._here.digest, printable(why)
        _proven.discard((*self._name[:2], place))
        kind, *more = self._collection.stand(place, differs=(key, why), part=place != self._here.digest)
        # Another process of the same world may have been first.
        return Split(*more) if kind == "variant" else Split(key, why)

    def _prove(self) -> None:
        self._collection.stand(self._here.digest, agrees=True)
        _proven.add(self._name)
        _equal.pop(self._name, None)


def _decoded(items: Any, i: int) -> Iterator[Any]:
    found = items.stored(i)
    if found is not None:
        try:
            yield values.decode(found[1], found[0])
        except Exception as error:
            # The class that it is of may be another one here.
            not_cached(error)


def encoded_digest(layout: str, *parts: Any) -> bytes:
    """The digest of an element."""
    return digest(CONTEXT, b"".join([layout.encode(), b"\0", *map(bytes, parts)]))


def element_digest(value: Any) -> bytes:
    """The digest of a value as an element; empty if it cannot be one."""
    try:
        return encoded_digest(*_flat(values.encode(value)))
    except Exception:
        return b""


def _flat(encoded: values.Encoded) -> tuple[Any, ...]:
    return encoded.layout, *encoded.parts


def compare(
    verifier: Verifier,
    items: Any,
    i: int,
    culprit: Callable[[int], Any],
    unchanged: Callable[[bool], bool],
) -> Other | bool | None:
    """Computes item i again and compares it with what is stored: whether it is equal, or what it is; None if
    it could not be told (it fails, or its input changed meanwhile).

    Raises `Tripped` as a fill does, with the generators at where they were.
    """
    given, found = items.input(i), items.stored(i)
    if given is None or found is None:
        return None
    stored, layout = found
    if not verifier.proves(stored, layout):
        return None
    before = tripwire.state()
    try:
        value = verifier.compute(i)
        how = verifier.differs(value, layout, stored)
    except Again:
        tripwire.restore(before)
        raise
    except Exception:
        # It raises again when its turn comes.
        tripwire.restore(before)
        return None
    drawn = tripwire.moved(before)
    by = culprit(i) if drawn is not None else None
    if by is not None:
        raise Tripped(drawn or "", before, by)
    # What is equal is served after the same look as any other hit; what differs has to be what was opened.
    if items.input(i) != given or not unchanged(how is not None):
        return None
    return True if how is None else Other(value, how)


def is_steady(verifier: Verifier, i: int, other: Other) -> bool:
    """Whether an item that is not what is stored is at least the same twice: else no world is to blame."""
    before = tripwire.state()
    try:
        again, once = values.encode(verifier.again(i)), values.encode(other.value)
        return difference(once, again, verifier.tolerance()) is None
    except Exception:
        return False
    finally:
        if tripwire.moved(before) is not None:
            tripwire.restore(before)
