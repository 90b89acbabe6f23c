"""The items of a pipeline up to its cut: opened, computed, and checked before they are stored."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from prebake.compute.computation import Computation
from prebake.execution.scope import Scope
from prebake.identity import graph
from prebake.leases.client import LeaseClient
from prebake.leases.open_collection import ODD_MAX
from prebake.pipeline.cut import Cut
from prebake.pipeline.discovery import Discovery
from prebake.pipeline.findings import Findings
from prebake.pipeline.inputs import Inputs
from prebake.pipeline.intermediate_cut import IntermediateCut, Stopwatch
from prebake.pipeline.mismatch_bisection import blamed, tolerance
from prebake.pipeline.planning import Planning
from prebake.pipeline.store_check import StoreCheck
from prebake.pipeline.subgraph import Subgraph
from prebake.proof.verify import Verifier
from prebake.reads.record import Record
from prebake.reads.recorder import Recorder
from prebake.runtime import daemon
from prebake.runtime.errors import Code, Refused, warn_once
from prebake.runtime.refusals import not_cached
from prebake.runtime.statistics import Statistics
from prebake.sources.source import Source
from prebake.sources.step_runs import StepRuns


class SharedItems(Computation):
    """Of one pipeline, until it is restarted: what is made across a restart is not stored."""

    def __init__(
        self,
        source: Source,
        cut: Cut,
        split: int | None,
        findings: Findings,
        folder: str,
        inside: Sequence[str],
        statistics: Statistics,
    ) -> None:
        self._source, self.cut, self._findings = source, cut, findings
        #: The pipeline was restarted: other items stand in the place of these.
        self.is_left = False
        self.subgraph = Subgraph(source, cut.steps, split, cut.position, folder)
        #: What code runs, and what all items are made of beside what is described.
        self._scope = Scope()
        self._planning = Planning(source, cut, split, self.subgraph, findings, self._scope)
        self.runs = StepRuns(source, cut.steps, split)
        verifier = Verifier(self._anew, self._tolerance, self._blamed)
        self.client = LeaseClient(self, source.count, verifier=verifier, inside=inside, statistics=statistics)
        self.intermediate = IntermediateCut(self._client_at)
        self.inputs = Inputs(
            source, self.client, self.intermediate.clients, self._discover, self._planning.steps_that_read
        )
        self._store_check = StoreCheck(source, self.inputs, self.subgraph.described_files)
        #: Of each thread: the record of what it made last, and whether the data set keeps that in memory.
        self._own = threading.local()

    # How they are opened.

    def open(self, job: Any) -> Any:
        planned = self._planning.plan(job)
        if planned is None:
            return None
        # Another thread may close the subgraph meanwhile.
        collection, known, is_other = planned
        if is_other:
            # It was changed in place: what items read, and what they are on the way, was of what it was.
            self.inputs.forget()
            self.intermediate.reset()
        if collection.bypass:
            warn_once(f"bypass {collection.bypass}", f"not cached: {collection.bypass}")
            return None
        first, floor = len(self._source.operators(known.loading)) - 1, self._source.floor
        stored, common = (
            [at for name in names if floor <= (at := int(name) - first) < self.cut.position]
            for names in (collection.ancestors, collection.common)
        )
        self.intermediate.begin(stored, common, undecided=collection.entries == 0)
        self._findings.futile = 0
        return self.inputs.open(collection)

    def open_at(self, job: Any, cut: int, *more: graph.Json) -> Any:
        """The native items at an earlier cut, or after further operators."""
        if self.subgraph.known is None:
            return None
        collection = job.plan(self.subgraph.graph(cut, *more))
        return None if collection.bypass else self.inputs.open(collection)

    def is_unchanged(self, closely: bool) -> bool:
        # While another thread opens it anew, nothing tells what this one's items were opened as.
        return not self.is_left and self.subgraph.is_unchanged(self.cut.position, closely, while_closed=False)

    def look_up(self, indices: Sequence[int]) -> None:
        self.inputs.look_up(indices)

    def _discover(self, reading: int) -> Discovery:
        """Finds out what items read in loading and so many of the first steps."""
        return Discovery(
            self._source,
            lambda i: self.runs.load(i, reading),
            lambda: self.subgraph.operators(reading),
            lambda i, paths: self.inputs.found(i, paths),
            self,
            self._scope,
        )

    def _client_at(self, cut: int) -> LeaseClient:
        """The items at an earlier cut."""
        verifier = Verifier(lambda i: self.runs.load(i, cut), self._tolerance)
        items = _ItemsAtCut(self, cut)
        return LeaseClient(items, self._source.count, verifier, inside=self.client.collection.inside)

    # How one is made.

    def prepare(self, indices: Sequence[int]) -> None:
        self.intermediate.prepare(indices)

    def compute(self, i: int) -> Any:
        with Recorder(scope=self._scope) as record:
            end = self.cut.position
            if self.intermediate.undecided and end - self._source.floor > 0:
                value = self._measured(i, end)
            else:
                begun = self.intermediate.value(i, end)
                value = self.runs.run(*(begun or self.inputs.begun(i, end)), end)
        return self._noted(value, record)

    def compute_at(self, i: int, cut: int) -> Any:
        """Item i at an earlier cut."""
        with Recorder(scope=self._scope) as record:
            value = self.runs.run(*self.inputs.begun(i, cut), cut)
        return self._noted(value, record)

    def spent(self, i: int) -> tuple[int, int]:
        # Up to the intermediate cut, on average.
        at = self.intermediate.at
        return self.inputs.spent(i) if at is None else (int(at[1].costs.item_ns), 0)

    def culprit(self, i: int) -> Any:
        return self.runs.culprit(i, self.cut.position)

    def _measured(self, i: int, end: int) -> Any:
        """Item i, with notes for the intermediate cut."""
        watch = Stopwatch(*self.inputs.spent(i))
        value, start = self.inputs.begun(i, end)
        if not self._source.floor:
            watch.note(start, value)
        for at, step in enumerate(self.cut.steps[start:end], start=start + 1):
            value = self.runs.apply(value, step)
            watch.note(at, value)
        measured = watch.measured
        if measured and measured[-1].cut == end:
            self.intermediate.decide(i, measured[:-1], measured[-1].cpu_ns, measured[-1].bytes)
        else:
            self.intermediate.undecided = False
        return value

    def _noted(self, value: Any, record: Record) -> Any:
        """A value that was just made, as it is; for `approve`."""
        self._own.record, self._own.is_kept = record, self.subgraph.keeps(value)
        return record.gave(value)

    # Whether it may be stored.

    def approve(self, items: Any, i: int) -> bool:
        if self.is_left:
            return False
        if self._own.is_kept:
            self._findings.kept_in_row += 1
            why = "an item is in memory already, which its data set keeps: wrap what is made of such items"
            refused = Refused(Code.TOO_CHEAP, why)
            if self._findings.kept_in_row >= ODD_MAX:
                raise refused
            not_cached(refused)
            return False
        self._findings.kept_in_row = 0
        if not self._planning.is_in_manifest():
            return False
        approved = self._store_check(items, i, self._own.record)
        if approved:
            self.intermediate.store_first(i, items.leased(i))
        return approved

    def is_as_shared(self, items: Any, i: int) -> bool:
        """Whether what was shared of item i was made of the input that it now has."""
        if self.is_left:
            return False
        of, leased = self.client.collection.items(), items.leased(i)
        return of is not None and leased is not None and of.stats_of(i) == leased[1]

    # How a hit is verified.

    def _anew(self, i: int) -> Any:
        """Item i from nothing that is cached, at the intermediate cut neither."""
        return self.runs.load(i, self.cut.position)

    def _tolerance(self) -> float | None:
        return tolerance(self.subgraph.roots(self.cut.position))

    def _blamed(self, i: int) -> tuple[Any, str]:
        """The items of the subgraph after which item i is not what it should be."""
        end = self.cut.position
        cut, more = blamed(self._source, self.cut.steps[:end], i, self.intermediate.at)
        connection = daemon.connection()
        if connection is None or cut in (None, end):
            return None, more
        return self.open_at(connection.job, cut), more


class _ItemsAtCut(Computation):
    """The same items at an earlier cut."""

    def __init__(self, items: SharedItems, cut: int) -> None:
        self._items, self._cut = items, cut

    def open(self, job: Any) -> Any:
        return self._items.open_at(job, self._cut)

    def compute(self, i: int) -> Any:
        return self._items.compute_at(i, self._cut)

    def is_unchanged(self, closely: bool) -> bool:
        return self._items.is_unchanged(closely)

    def culprit(self, i: int) -> Any:
        return self._items.culprit(i)

    def spent(self, i: int) -> tuple[int, int]:
        return self._items.inputs.spent(i)

    def approve(self, items: Any, i: int) -> bool:
        return self._items.approve(items, i)
