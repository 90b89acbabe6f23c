"""A source and the steps after it: where it is cut, and what is cached on both sides of the cut."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from prebake.codec import values
from prebake.codec.collated import token_of
from prebake.codec.values import copied
from prebake.identity import graph
from prebake.known import marks
from prebake.leases.client import ODD_MAX, Ahead, Fill
from prebake.leases.manifest import Manifest
from prebake.leases.probe_cache import reading, verdict
from prebake.leases.restart_signals import Again, Moved, Tripped
from prebake.leases.verify import Verifier
from prebake.leases.warm_read import AtOnce
from prebake.pipeline.discovery import Discovery
from prebake.pipeline.epoch import Epoch
from prebake.pipeline.inputs import Inputs
from prebake.pipeline.intermediate_cut import Middle, Stopwatch
from prebake.pipeline.mismatch_bisection import blamed, tolerance
from prebake.pipeline.reuse import Reuse
from prebake.pipeline.source import Source, Step
from prebake.pipeline.store_check import Approval
from prebake.pipeline.subgraph import Described, Subgraph
from prebake.purity import tripwire
from prebake.reads.audit import Recorder
from prebake.reads.record import Record
from prebake.runtime import daemon
from prebake.runtime.errors import Code, Refused, warn_once
from prebake.runtime.refusals import not_cached
from prebake.runtime.working_folder import working_folder
from prebake.world import executed
from prebake.world.executed import Scope

#: What was probed so often, as something else each time, and could never be shared, changes itself: no more
#: is tried.
FUTILE_MAX = 4
#: So many requests in a row found the pipeline changed. Each costs a description, and perhaps a probe, for
#: what no other request asks for: nothing is shared from then on.
CHANGED_MAX = 8
#: So many probes in a row, each of something else: what a probe imports may change it, as code does that
#: writes to a file when it is imported.
PROBES_MAX = 12


class Pipeline:
    """Items by number, taken from the cache or made here up to the cut."""

    def __init__(
        self,
        source: Source,
        split: int | None = None,
        reuse: Reuse | None = None,
        token: str | None = None,
    ) -> None:
        """`split` is how many steps its user says are deterministic, and no more; `reuse` keeps what the
        others make for as often as the user says; `token` names the same pipeline in other processes."""
        self.token = token_of(self, token)
        self.source = source
        self.split = split
        self.reuse = reuse
        #: Steps that were seen to draw random numbers.
        self._drew: list[Step] = []
        #: Loading itself draws: nothing can be shared.
        self._loading_draws = False
        #: Probes in a row after which nothing could be shared.
        self._futile = 0
        #: Items in a row that the data set keeps in memory.
        self._kept_in_row = 0
        #: Probes in a row.
        self._probes = 0
        #: Requests in a row before which it was changed.
        self._changed = 0
        #: Of each thread: the record of what it made last, what it was given, and whether the cut may move.
        self._own = threading.local()
        self._epoch = Epoch(0)
        #: The `with` statements that elements are asked for in.
        self._inside: Sequence[str] = []
        self.restart()

    def restart(self) -> None:
        """Cuts the pipeline anew and forgets what was opened."""
        #: Until the next restart. What is made across one is not stored.
        era = self._era = object()
        #: Until the cut moves, in whichever way.
        self._at = object()
        #: The cut has to move, and could not while an item was being made.
        self._due = False
        #: It is known that nothing can be shared.
        self._unshared = False
        folder = working_folder()
        self.source.refresh()
        self.steps = self.source.steps
        if self._epoch.count != self.source.count:
            self._epoch = Epoch(self.source.count)
        #: Steps before the cut are shared, as far as they can be known.
        end = len(self.steps) if self.split is None else min(self.split, len(self.steps))
        self.cut = next((i for i, step in enumerate(self.steps[:end]) if self._is_random(step)), end)
        self._subgraph = subgraph = Subgraph(self.source, self.steps, self.split, self.cut, folder)
        #: What code runs, and what all items are made of beside what is described.
        self._scope = Scope()
        self._manifest: Manifest | None = None
        #: What was found to be deterministic, here or by another job.
        self._proven: Described | None = None
        count = self.source.count

        def is_as_opened(closely: bool) -> bool:
            # While another thread opens it anew, nothing tells what this one's items were opened as.
            return era is self._era and self._is_as_opened(closely, while_closed=False)

        def approve(items: Any, i: int) -> bool:
            return era is self._era and self._approve(items, i)

        def is_as_shared(items: Any, i: int) -> bool:
            return era is self._era and self._is_as_shared(items, i)

        self.fill = Fill(
            self._open,
            self._compute,
            count,
            is_as_opened,
            culprit=self._culprit,
            spent=self._spent,
            prepare=self._prepare,
            look_up=lambda indices: self._inputs.look_up(indices),
            approve=approve,
            verifier=Verifier(self._anew, self._tolerance, self._blamed),
            inside=self._inside,
        )
        self._middle = Middle(
            lambda cut: Fill(
                lambda job: self._open_at(job, cut),
                lambda i: self._compute_to(i, cut),
                count,
                is_as_opened,
                culprit=self._culprit,
                approve=approve,
                spent=lambda i: self._inputs.spent(i),
                verifier=Verifier(lambda i: self._anew_to(i, cut), self._tolerance),
                inside=self._inside,
            )
        )
        self._inputs = Inputs(
            self.source,
            self.fill,
            self._middle.fills,
            lambda reading: self._discover(reading, is_as_opened),
            self._steps_that_read,
        )
        self._approval = Approval(self.source, self._inputs, subgraph.described_files)
        if self.reuse is not None:
            self.reuse.begin(self._finished, self._open_after, count, is_as_shared)

    def _is_random(self, step: Step) -> bool:
        return marks.is_random(step) or any(step is each for each in self._drew)

    # What the caller asks for.

    def begin(self) -> object:
        """To be called before items are asked for: opens what is shared. Only now may the cut move."""
        self._own.may_move = True
        try:
            self.fill.items()
        finally:
            self._own.may_move = False
        return self._at

    def end(self, begun: object) -> None:
        """To be called before items are given out. Raises `Moved` if they are of two cuts."""
        if begun is not self._at:
            raise Moved("the cut was moved")

    def _move(self, cut: int) -> bool:
        """Moves the cut, if this thread has made nothing at the one that is."""
        if cut == self.cut:
            return True
        if not getattr(self._own, "may_move", False):
            self._due = True
            return False
        self.cut, self._at = cut, object()
        return True

    def gather(
        self, indices: Sequence[int], ahead: Ahead, got: dict[int, Any] | None = None, validated: bool = False
    ) -> dict[int, Any]:
        """Items up to the cut; see `Fill.gather`."""
        found = self._inputs.find(indices, ahead)
        found |= got or {}
        if not validated:
            self._inputs.look_again(indices)
        return self.fill.gather(self._inputs.told(indices), self._inputs.told_ahead(ahead), found, validated)

    def batch_at_once(self, order: Sequence[int], start: int, end: int, writable: bool) -> Any:
        """Items of an order as one array, or as a list where no array can be made of them, of inputs as they
        were last looked at; if all of them are there and everything is as it was, so that nothing of the
        user's has to run. Else None. No generator is looked at: nothing can draw."""
        # Written out: each call costs as much as the rest, once what is read has driven Python from the
        # processor's caches.
        fill, steps, held = self.fill, self.steps, self._subgraph.held
        ready = fill.ready
        if ready is None or ready.connection.lost:
            ready = fill.at_once()
        whole = not self._due and self.cut == len(steps) and self.source.bare
        if ready is None or held is None or not whole or not held.look.holds(steps) or not held.others_hold():
            return None
        try:
            return ready.items.array(order, start, end, writable, values.stacked_form)
        except daemon.native().Error:
            # They are there, but no array. What is not there is asked for at once, not looked at one by one:
            # it may come meanwhile, and would be made of its elements here.
            return ready.values(order[start:end], validated=True)

    def elements_at_once(self, indices: Sequence[int]) -> list[Any] | None:
        """Items' elements, under the same conditions. Inputs are looked at now."""
        at_once = self._at_once()
        values = None if at_once is None else at_once.values(indices)
        if values is None:
            return None
        return [self.source.finish(i, value, ()) for i, value in zip(indices, values, strict=True)]

    def collated_at_once(self, indices: Sequence[int], sent: bool) -> Any:
        """What torch's `default_collate` makes of items' elements, under the same conditions; if it is to be
        `sent`, what becomes that in another process."""
        at_once = self._at_once() if indices else None
        if at_once is None:
            return None
        made = at_once.sent(indices, (self.token, self._subgraph.opened_as())) if sent else None
        if made is None:
            # Also what is on disk, which a worker reads before it is wanted.
            made = at_once.tensor(indices)
        return None if made is None else self.source.collated(indices, made)

    def runs_nothing(self) -> bool:
        """Whether an element that is there needs nothing of the user's to run."""
        return self._at_once() is not None

    def _at_once(self) -> AtOnce | None:
        plain = not self._due and self.cut == len(self.steps) and self.source.plain
        return self.fill.at_once() if plain else None

    def identity(self) -> str:
        """Of what is shared, as it is now."""
        self.renew(closely=True)
        return self._subgraph.identity(self.cut)

    def made(self, indices: Sequence[int]) -> list[Any]:
        """Items after all of their steps, from nothing that is cached."""
        return [self._run(self.source.load(i), 0, len(self.steps)) for i in indices]

    def ensure(self, indices: Sequence[int], ahead: Ahead) -> dict[int, Any]:
        """Makes items readable; see `Fill.ensure`."""
        self._inputs.find(indices, ahead)
        return self.fill.ensure(self._inputs.told(indices), self._inputs.told_ahead(ahead), read_back=True)

    def element(self, i: int, got: dict[int, Any]) -> Any:
        """The element of item i from what was gathered; if it was not, made here, in the caller's order."""
        if self.reuse is not None and self.cut < len(self.steps):
            self._own.got = got
            return self.source.finish(i, self.reuse.element(i), ())
        value = got[i] if i in got else self.fill.compute(i)
        return self.source.finish(i, value, self.steps[self.cut :])

    def element_list(self, indices: Sequence[int], got: dict[int, Any]) -> list[Any]:
        """Elements in turn. If it is left to be begun again, no random numbers were drawn."""
        if self.reuse is not None:
            self.reuse.look(self.steps[self.cut :])
        if len(indices) < 2:
            return [self.element(i, got) for i in indices]
        if len(set(indices)) < len(indices):
            return self._with_twins(indices, got)
        return self._in_turn(indices, got)

    def _with_twins(self, indices: Sequence[int], got: dict[int, Any]) -> list[Any]:
        """Elements of which some are the same item's: each has a value of its own, since steps and callers
        may work in place. They are copied before any step runs."""
        given, copies = set[int](), list[dict[int, Any]]()
        for i in indices:
            own = {}
            if i in given and i in got:
                with contextlib.suppress(Refused):
                    own[i] = copied(got[i])
            elif i in got:
                own[i] = got[i]
            given.add(i)
            copies.append(own)
        return self._in_turn(indices, *copies)

    def _in_turn(self, indices: Sequence[int], *got: dict[int, Any]) -> list[Any]:
        """Elements in turn, each from what was gathered for it, or for all."""
        values = got if len(got) == len(indices) else got * len(indices)
        before = tripwire.state()
        try:
            return [self.element(i, each) for i, each in zip(indices, values, strict=True)]
        except Again as reason:
            # Steps in the job drew for the elements before.
            tripwire.restore(before)
            if isinstance(reason, Tripped):
                reason.before = before
            raise

    def uncached(self, indices: Sequence[int]) -> list[Any]:
        """Elements as without a cache: each made to its end before the next."""
        return [self.source.finish(i, self.source.load(i), self.steps) for i in indices]

    def enter(self, inside: Sequence[str]) -> None:
        """Says in which `with` statements elements are asked for from now on."""
        if inside == self._inside:
            return
        self._inside = inside
        for fill in (self.fill, *self._middle.fills()):
            fill.enter(inside)

    def begin_at_once(self) -> bool:
        """Begins an epoch where all is open, and a look tells that it is what it was opened as: then nothing
        of the user's has to run for it. Whether it did."""
        opened = self.fill.at_once()
        if opened is None or self._due or opened.connection is not daemon.current():
            return False
        # A child that was forked past Python has its parent's.
        if opened.connection.pid != os.getpid():
            return False
        if not self._subgraph.is_as_watched(self.cut):
            return False
        self.validate()
        return True

    def renew_for(self, indices: Sequence[int]) -> bool:
        """As `renew`, closely where an epoch begins: what was edited in place between two is seen."""
        begins = self._epoch.begins(indices, self._subgraph.look_is_due)
        if begins:
            self._inputs.look_at_facts()
        # That the cut moves, or that more code ran, is no change of what it is.
        due = self._due
        renewed = self.renew(begins)
        if not due and self._changed < CHANGED_MAX:
            self._changed = self._changed + 1 if renewed else 0
            if self._changed == CHANGED_MAX:
                why = "the steps, or files that they name, change between requests: each would be alone"
                not_cached(Refused(Code.CARRIES_STATE, why))
        return renewed

    def renew(self, closely: bool = False) -> bool:
        """Leaves the collection if the steps are others than it was opened for; whether it did."""
        held = self._subgraph.held
        if not self._due and self._is_as_opened(closely):
            if closely or self._subgraph.held is not held:
                # A setting that the job switched may stand otherwise: then the items are opened anew.
                self.fill.look_around()
            return False
        self.restart()
        return True

    def validate(self) -> None:
        """Looks at every known input again, so that edits made before now are seen."""
        self._inputs.look_at_facts()
        self.fill.validate()

    def expect(self, order: Sequence[int], writable: bool) -> None:
        """Says in which order items will be read, so that what is on disk is read ahead."""
        in_turn = len(order) < 2 or order[1] == order[0] + 1
        self.fill.expect(order, self.is_whole() and not (writable and in_turn))

    def is_alone(self) -> bool:
        """Whether nothing is shared, so that the data set itself may as well be asked: it may keep something
        from one item for the next."""
        return self.reuse is None and self.fill.is_closed()

    def is_whole(self) -> bool:
        """Whether an element is what is cached of it."""
        return self.cut == len(self.steps) and self.source.bare

    def again(self, reason: Again) -> None:
        """Takes the pipeline otherwise, for a reason met while an item was made."""
        if isinstance(reason, Moved):
            return
        if isinstance(reason, Tripped):
            self._trip(reason)
        else:
            not_cached(Refused(Code.DATASET, f"its transform cannot be taken out of the data set: {reason}"))
            self.source.join()
        self.restart()

    def _trip(self, tripped: Tripped) -> None:
        """Cuts before the step that draws random numbers. They are left as they were before the item."""
        tripwire.restore(tripped.before)
        if tripped.culprit is self.source:
            self._loading_draws, what = True, "loading an item"
        else:
            self._drew.append(tripped.culprit)
            at = next(n for n, step in enumerate(self.steps, 1) if step is tripped.culprit)
            what = graph.step_name(at, tripped.culprit)
        not_cached(Refused(Code.RANDOM, f"{what} draws from {tripped.generator}: it runs in the job"))

    def _culprit(self, i: int) -> Any:
        """The step that draws random numbers for item i, or the source if loading does; None if neither."""
        if not self.source.floor and tripwire.draws(lambda: self.source.load(i)):
            return self.source
        value = self.source.load(i)
        for step in self.steps[: self.cut]:
            made: list[Any] = []
            given = value
            if tripwire.draws(lambda: made.append(self.source.apply(given, step))):  # noqa: B023
                return step
            value = made[-1]
        return None

    # What is shared.

    def _discover(self, reading: int, is_as_opened: Callable[[bool], bool]) -> Discovery:
        """Finds out what items read in loading and so many of the first steps."""
        return Discovery(
            self.source,
            lambda i: self._run(self.source.load(i), 0, reading),
            lambda: self._subgraph.operators(reading),
            lambda i, paths: self._inputs.found(i, paths),
            self._culprit,
            is_as_opened,
            self._scope,
        )

    def _is_as_opened(self, closely: bool, while_closed: bool = True) -> bool:
        """For what is stored: if asked closely, at any cost."""
        return self._subgraph.is_unchanged(self.cut, closely, while_closed)

    def _open(self, job: Any) -> Any:
        subgraph = self._subgraph
        subgraph.close()
        if self._loading_draws or self._unshared:
            return None
        if self._futile >= FUTILE_MAX or self._changed >= CHANGED_MAX or self._probes >= PROBES_MAX:
            return None
        if self.cut < self.source.floor:
            raise Refused(Code.RANDOM, "every transform is random, so nothing can be shared")
        taken = subgraph.take(self.cut)
        known = taken.known
        self._follow_manifest(job, known)
        collection = job.plan(subgraph.graph(len(known.steps), known=known))
        proven = collection.bypass or collection.entries or known == self._proven or self._is_vouched(known)
        self._probes = 0 if proven else self._probes + 1
        if not proven:
            self._futile += 1
            cut = self._deterministic(known)
            if cut < self.source.floor:
                self._unshared = True
                self._move(max(cut, 0))
                return None
            if cut < len(known.steps):
                known, taken = known.until(cut), subgraph.take(cut)
                if taken.known != known:
                    # It was changed meanwhile.
                    return self._open(job)
            # With what the probe saw to run.
            self._follow_manifest(job, known)
            collection = job.plan(subgraph.graph(cut, known=known))
            self._proven = known
        if not self._move(len(known.steps)):
            return None
        if subgraph.open(taken):
            # It was changed in place: what items read, and what they are on the way, was of what it was.
            self._inputs.forget()
            self._middle.reset()
        if collection.bypass:
            warn_once(f"bypass {collection.bypass}", f"not cached: {collection.bypass}")
            return None
        first = len(self.source.operators(known.loading)) - 1
        stored, common = (
            [cut for name in names if self.source.floor <= (cut := int(name) - first) < self.cut]
            for names in (collection.ancestors, collection.common)
        )
        self._middle.begin(stored, common, undecided=collection.entries == 0)
        self._futile = 0
        return self._inputs.open(collection)

    def _follow_manifest(self, job: Any, known: Described) -> None:
        self._manifest = Manifest([*known.loading, *known.steps])
        self._manifest.follow(job)
        self._subgraph.manifest = self._manifest.held()

    def _is_vouched(self, described: Described) -> bool:
        """Whether all that is described is known to be deterministic, or its user says so."""
        cut = len(described.steps)
        shared = self.steps[:cut] if self.source.floor else self._subgraph.roots(cut)
        return all(marks.known(each).kind == marks.DETERMINISTIC for each in shared)

    def _deterministic(self, known: Described) -> int:
        """How many steps a probe in other processes finds to be deterministic."""
        shared = self.steps[: len(known.steps)]
        load, steps = self.source.probed(shared)
        all_known = [*known.loading, *known.steps]
        first = len(steps) - len(shared)
        said = self.split is not None
        vouched = [first + i for i, step in enumerate(shared) if said or marks.is_pure(step)]
        found, items = verdict(all_known, load, steps, vouched, self.source.count)
        fault = None if found.code is None else Refused(found.code, found.reason)
        try:
            cut = self.source.accept(found, items)
        except Refused as refused:
            if fault is not None and fault.reason not in refused.reason:
                not_cached(fault)
            raise
        except Again:
            if fault is not None:
                not_cached(fault)
            raise
        if fault is not None:
            not_cached(fault)
        if cut >= 0:
            Manifest([*known.loading, *known.steps[:cut]]).add(found.ran)
        return cut

    def _steps_that_read(self) -> int:
        known = self._subgraph.known
        if known is None or not self.cut:
            return 0

        def make(i: int) -> list[Record]:
            records, value = [], None
            for at in range(self.cut + 1):
                with Recorder() as record:
                    value = self.source.apply(value, self.steps[at - 1]) if at else self.source.load(i)
                records.append(record)
            return records

        before = tripwire.state()
        try:
            return reading([*known.loading, *known.steps[: self.cut]], make)
        except Exception:
            # The user's own error: it raises again when the item's turn comes.
            return 0
        finally:
            tripwire.restore(before)

    def _open_at(self, job: Any, cut: int) -> Any:
        if self._subgraph.known is None:
            return None
        collection = job.plan(self._subgraph.graph(cut))
        return None if collection.bypass else self._inputs.open(collection)

    # What is reused of what is not shared.

    def _finished(self, i: int) -> Any:
        """Item i after the last step, which nobody else is given."""
        got = self._own.got
        value = got[i] if i in got else self.fill.compute(i)
        return self._run(value, self.cut, len(self.steps))

    def _open_after(self, job: Any, operator: graph.Json) -> Any:
        if self._subgraph.known is None:
            return None
        collection = job.plan(self._subgraph.graph(self.cut, operator))
        return None if collection.bypass else self._inputs.open(collection)

    def _is_as_shared(self, items: Any, i: int) -> bool:
        """Whether what was shared of item i was made of the input that it now has."""
        of, leased = self.fill.items(), items.leased(i)
        return of is not None and leased is not None and of.stats_of(i) == leased[1]

    # How a hit is verified.

    def _anew(self, i: int) -> Any:
        """Item i from nothing that is cached, of the middle cut neither."""
        return self._run(self.source.load(i), 0, self.cut)

    def _anew_to(self, i: int, cut: int) -> Any:
        """The same as far as a cut before."""
        return self._run(self.source.load(i), 0, cut)

    def _tolerance(self) -> float | None:
        return tolerance(self._subgraph.roots(self.cut))

    def _blamed(self, i: int) -> tuple[Any, str]:
        """The items of the subgraph after which item i is not what it should be."""
        middle = self._middle.at
        cut, more = blamed(self.source, self.steps[: self.cut], i, middle)
        connection = daemon.connection()
        if connection is None or cut in (None, self.cut):
            return None, more
        return self._open_at(connection.job, cut), more

    # How an item is made.

    def _prepare(self, indices: Sequence[int]) -> None:
        self._middle.prepare(indices)

    def _compute(self, i: int) -> Any:
        with Recorder(scope=self._scope) as record:
            if self._middle.undecided and self.cut - self.source.floor > 0:
                value = self._measured(i)
            else:
                end = self.cut
                begun = self._middle.value(i, end)
                value = self._run(*(begun or self._inputs.begun(i, end)), end)
        return self._noted(value, record)

    def _compute_to(self, i: int, cut: int) -> Any:
        with Recorder(scope=self._scope) as record:
            value = self._run(*self._inputs.begun(i, cut), cut)
        return self._noted(value, record)

    def _noted(self, value: Any, record: Record) -> Any:
        """A value that was just made, as it is; for `_approve`."""
        self._own.record, self._own.is_kept = record, self._subgraph.keeps(value)
        return record.gave(value)

    def _spent(self, i: int) -> tuple[int, int]:
        """What it took to get to where `_compute` begins; up to the middle cut, on average."""
        middle = self._middle.at
        return self._inputs.spent(i) if middle is None else (int(middle[1].cost_ns), 0)

    def _run(self, value: Any, start: int, end: int) -> Any:
        for step in self.steps[start:end]:
            value = self._applied(value, step)
        return value

    def _applied(self, value: Any, step: Step) -> Any:
        """One step further. For what runs in a step that its user vouches for, he does too."""
        if self.split is None and not marks.is_pure(step):
            return self.source.apply(value, step)
        with executed.unwatched():
            return self.source.apply(value, step)

    def _measured(self, i: int) -> Any:
        """As `_run`, taking notes for the middle cut."""
        watch = Stopwatch(*self._inputs.spent(i))
        value, start = self._inputs.begun(i, self.cut)
        if not self.source.floor:
            watch.note(start, value)
        for at, step in enumerate(self.steps[start : self.cut], start=start + 1):
            value = self._applied(value, step)
            watch.note(at, value)
        *before, last = watch.measured or [None]
        if last is not None and last.cut == self.cut:
            self._middle.decide(i, before, last.cpu_ns, last.bytes)
        else:
            self._middle.undecided = False
        return value

    def _approve(self, items: Any, i: int) -> bool:
        """Whether what was just made of item i may be stored."""
        if self._own.is_kept:
            self._kept_in_row += 1
            refused = Refused(Code.TOO_CHEAP, "an item is in memory already, which its data set keeps")
            if self._kept_in_row >= ODD_MAX:
                raise refused
            not_cached(refused)
            return False
        self._kept_in_row = 0
        if not self._is_in_manifest():
            return False
        approved = self._approval(items, i, self._own.record)
        if approved:
            self._middle.store_first(i, items.leased(i))
        return approved

    def _is_in_manifest(self) -> bool:
        """Whether all that ran is known to be a part of what the items are; else it is from now on."""
        manifest, scope = self._manifest, self._scope
        if manifest is None:
            return False
        if new := manifest.beyond(scope):
            manifest.add(new)
            self._due = True
        if scope.unseen:
            raise Refused(Code.OPAQUE, f"what code runs cannot be known: {scope.unseen}")
        return not new
