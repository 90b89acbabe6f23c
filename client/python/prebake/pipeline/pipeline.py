"""A source and the steps after it: the elements that a data set asks for, shared up to the cut."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Any

from prebake.codec.collated import token_of
from prebake.codec.values import copied
from prebake.compute.restart_signals import Moved, Restart, Tripped
from prebake.identity import graph
from prebake.leases.client import LeaseClient
from prebake.leases.read_order import Ahead
from prebake.pipeline.cut import Cut
from prebake.pipeline.epoch import Epoch
from prebake.pipeline.findings import Findings
from prebake.pipeline.reuse import Reuse
from prebake.pipeline.shared_items import SharedItems
from prebake.pipeline.warm_path import WarmPath
from prebake.purity import tripwire
from prebake.runtime.errors import Code, Refused
from prebake.runtime.refusals import not_cached
from prebake.runtime.statistics import Statistics
from prebake.runtime.working_folder import working_folder
from prebake.sources.source import Source, Step


class Pipeline:
    """Elements by number: what comes before the cut is taken from the cache or computed and stored, the rest
    runs here."""

    #: What is shared, and what of that can be given at once. Others stand in their place after a restart.
    _items: SharedItems
    warm: WarmPath

    def __init__(
        self,
        source: Source,
        split: int | None = None,
        reuse: Reuse | None = None,
        token: str | None = None,
        statistics: Statistics | None = None,
    ) -> None:
        """`split` is how many steps its user says are deterministic, and no more; `reuse` keeps what the
        others make for as often as the user says; `token` names the same pipeline in other processes, and
        `statistics` counts what they read."""
        self.token = token_of(self, token)
        self.statistics = Statistics.shared() if statistics is None else statistics
        self.source = source
        self.split = split
        self.reuse = reuse
        self._findings = Findings()
        #: What was gathered for the element that a thread makes now.
        self._own = threading.local()
        self._epoch = Epoch(0)
        self._begin([])

    def restart(self) -> None:
        """Cuts the pipeline anew and forgets what was opened."""
        self._items.is_left = True
        self._begin(self._items.client.collection.inside)

    def _begin(self, inside: Sequence[str]) -> None:
        folder = working_folder()
        self.source.refresh()
        steps = self.source.steps
        if self._epoch.count != self.source.count:
            self._epoch = Epoch(self.source.count)
        # Steps before the cut are shared, as far as they can be known.
        end = len(steps) if self.split is None else min(self.split, len(steps))
        random = (i for i, step in enumerate(steps[:end]) if self._findings.is_random(step))
        cut = Cut(steps, next(random, end))
        self._items = SharedItems(
            self.source, cut, self.split, self._findings, folder, inside, self.statistics
        )
        self.warm = WarmPath(self.source, cut, self._items, self.token)
        if self.reuse is not None:
            self.reuse.begin(_FinishedItems(self, self._items), self.source.count)

    @property
    def steps(self) -> list[Step]:
        """All of them."""
        return self._items.cut.steps

    @property
    def client(self) -> LeaseClient:
        """Through which items up to the cut are read and computed."""
        return self._items.client

    def is_whole(self) -> bool:
        """Whether an element is what is cached of it."""
        return self._items.cut.is_at_end() and self.source.bare

    def is_alone(self) -> bool:
        """Whether nothing is shared, so that the data set itself may as well be asked: it may keep something
        from one item for the next."""
        return self.reuse is None and self.client.collection.is_closed()

    def identity(self) -> str:
        """Of what is shared, as it is now."""
        self.renew(closely=True)
        return self._items.subgraph.identity(self._items.cut.position)

    # What comes before a request.

    def enter(self, inside: Sequence[str]) -> None:
        """Says in which `with` statements elements are asked for from now on."""
        items = self._items
        if inside != items.client.collection.inside:
            for client in (items.client, *items.intermediate.clients()):
                client.collection.enter(inside)

    def renew_for(self, indices: Sequence[int]) -> None:
        """As `renew`, closely where an epoch begins: what was edited in place between two is seen."""
        items = self._items
        begins = self._epoch.begins(indices, items.subgraph.look_is_due)
        if begins:
            items.inputs.look_at_facts()
        # That the cut moves, or that more code ran, is no change of what it is.
        is_due = items.cut.is_due
        renewed = self.renew(begins)
        if not is_due:
            self._findings.requested(renewed)

    def renew(self, closely: bool = False) -> bool:
        """Leaves the collection if the steps are others than it was opened for; whether it did."""
        items = self._items
        subgraph, cut = items.subgraph, items.cut
        held = subgraph.held
        if not cut.is_due and subgraph.is_unchanged(cut.position, closely, while_closed=True):
            if closely or subgraph.held is not held:
                # A setting that the job switched may stand otherwise: then the items are opened anew.
                items.client.collection.look_around()
            return False
        if not cut.is_due:
            # It is another pipeline.
            self.statistics.begin_anew()
        self.restart()
        return True

    def begin(self) -> object:
        """To be called before items are asked for: opens what is shared. Only now may the cut move."""
        cut = self._items.cut
        with cut.may_move():
            self.client.collection.items()
        return cut, cut.token()

    def end(self, begun: Any) -> None:
        """To be called before items are given out. Raises `Moved` if they are of two cuts."""
        cut, token = begun
        if cut is not self._items.cut:
            raise Moved("the pipeline was cut anew")
        cut.check(token)

    def begin_at_once(self) -> bool:
        """Begins an epoch, if nothing of the user's has to run for it; whether it did."""
        if not self.warm.is_open():
            return False
        self.validate()
        return True

    def validate(self) -> None:
        """Looks at every known input again, so that edits made before now are seen."""
        self._items.inputs.look_at_facts()
        self.client.collection.validate()

    def expect(self, order: Sequence[int], writable: bool) -> None:
        """Says in which order items will be read, so that what is on disk is read ahead."""
        in_turn = len(order) < 2 or order[1] == order[0] + 1
        self.client.expect(order, self.is_whole() and not (writable and in_turn))

    # Items up to the cut.

    def gather(
        self, indices: Sequence[int], ahead: Ahead, got: dict[int, Any] | None = None, validated: bool = False
    ) -> dict[int, Any]:
        """Items up to the cut; see `LeaseClient.gather`."""
        inputs = self._items.inputs
        found = inputs.find(indices, ahead)
        found |= got or {}
        if not validated:
            inputs.look_again(indices)
        return self.client.gather(inputs.told(indices), inputs.told_ahead(ahead), found, validated)

    def ensure(self, indices: Sequence[int], ahead: Ahead) -> dict[int, Any]:
        """Makes items readable; see `LeaseClient.ensure`."""
        inputs = self._items.inputs
        inputs.find(indices, ahead)
        return self.client.ensure(inputs.told(indices), inputs.told_ahead(ahead), read_back=True)

    # Elements, which come after the last step.

    def element(self, i: int, got: dict[int, Any]) -> Any:
        """The element of item i from what was gathered; if it was not, made here, in the caller's order."""
        cut = self._items.cut
        if self.reuse is not None and not cut.is_at_end():
            self._own.got = got
            return self.source.finish(i, self.reuse.element(i), ())
        value = got[i] if i in got else self.client.compute(i)
        return self.source.finish(i, value, cut.steps[cut.position :])

    def element_list(self, indices: Sequence[int], got: dict[int, Any]) -> list[Any]:
        """Elements in turn. If it is left to be begun again, no random numbers were drawn."""
        cut = self._items.cut
        if self.reuse is not None:
            self.reuse.look(cut.steps[cut.position :])
        if len(indices) < 2:
            return [self.element(i, got) for i in indices]
        if len(set(indices)) < len(indices):
            return self._with_twins(indices, got)
        return self._in_turn(indices, got)

    def made(self, indices: Sequence[int]) -> list[Any]:
        """Items after all of their steps, from nothing that is cached."""
        return [self._items.runs.load(i, len(self.steps)) for i in indices]

    def uncached(self, indices: Sequence[int]) -> list[Any]:
        """Elements as without a cache: each made to its end before the next."""
        return [self.source.finish(i, self.source.load(i), self.steps) for i in indices]

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
        except Restart as reason:
            # Steps in the job drew for the elements before.
            tripwire.restore(before)
            if isinstance(reason, Tripped):
                reason.before = before
            raise

    def finished(self, items: SharedItems, i: int) -> Any:
        """Item i after the last step, from what was gathered, which nobody else is given."""
        got = self._own.got
        value = got[i] if i in got else items.client.compute(i)
        return items.runs.run(value, items.cut.position, len(items.cut.steps))

    # When a request cannot go on.

    def again(self, reason: Restart) -> None:
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
            self._findings.loading_draws, what = True, "loading an item"
        else:
            self._findings.drew.append(tripped.culprit)
            at = next(n for n, step in enumerate(self.steps, 1) if step is tripped.culprit)
            what = graph.step_name(at, tripped.culprit)
        not_cached(Refused(Code.RANDOM, f"{what} draws from {tripped.generator}: it runs in the job"))


class _FinishedItems:
    """What the steps after the cut make of its items: see `RandomResults`."""

    def __init__(self, pipeline: Pipeline, items: SharedItems) -> None:
        self._pipeline, self._items = pipeline, items

    def open_after(self, job: Any, operator: graph.Json) -> Any:
        return self._items.open_at(job, self._items.cut.position, operator)

    def finished(self, i: int) -> Any:
        return self._pipeline.finished(self._items, i)

    def approve(self, items: Any, i: int) -> bool:
        return self._items.is_as_shared(items, i)
