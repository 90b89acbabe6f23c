"""What of a pipeline is shared, and what its collection is: described, planned, and probed if nobody has."""

from __future__ import annotations

import os
from typing import Any

from prebake.compute.restart_signals import Restart
from prebake.execution.scope import Scope
from prebake.known import determinism, marks
from prebake.memo import kept_files, manifest
from prebake.memo.manifest import Manifest
from prebake.memo.probe_cache import reading, verdict
from prebake.pipeline.cut import Cut
from prebake.pipeline.findings import Findings
from prebake.pipeline.subgraph import Described, Subgraph
from prebake.purity import tripwire
from prebake.reads.record import Record
from prebake.reads.recorder import Recorder
from prebake.runtime.errors import Code, Refused
from prebake.runtime.refusals import not_cached
from prebake.sources.source import Source

#: What this process, or the one that it is a fork of, keeps of files, by description.
_KEPT: dict[tuple[bytes, ...], kept_files.Kept] = {}


class Planning:
    """Plans one cut pipeline's collection. In `scope` it is watched what code runs."""

    def __init__(
        self,
        source: Source,
        cut: Cut,
        split: int | None,
        subgraph: Subgraph,
        findings: Findings,
        scope: Scope,
    ) -> None:
        self._source, self._cut, self._split = source, cut, split
        self._subgraph, self._findings, self._scope = subgraph, findings, scope
        self._manifest: Manifest | None = None
        #: What was found to be deterministic, here or by another job.
        self._proven: Described | None = None
        #: It is known that nothing can be shared.
        self._is_unshared = False

    def plan(self, job: Any) -> tuple[Any, Described, bool] | None:
        """The collection of what is shared, what that is, and whether it is another pipeline than the one
        opened before; None if nothing is shared. Raises `Refused`, saying why nothing can be."""
        subgraph, cut, source = self._subgraph, self._cut, self._source
        subgraph.close()
        if self._is_unshared or self._findings.is_hopeless():
            return None
        if cut.position < source.floor:
            raise Refused(Code.RANDOM, "every transform is random, so nothing can be shared")
        taken = subgraph.take(cut.position)
        known = taken.known
        self._follow_manifest(job, known)
        if self._is_changed_by_keeping(known):
            return self.plan(job)
        collection = job.plan(subgraph.graph(len(known.steps), known=known))
        proven = collection.bypass or collection.entries or known == self._proven or self._is_vouched(known)
        self._findings.probes = 0 if proven else self._findings.probes + 1
        if not proven:
            self._findings.futile += 1
            end = self._deterministic(known)
            if end < source.floor:
                self._is_unshared = True
                cut.move(max(end, 0))
                return None
            if end < len(known.steps):
                known, taken = known.until(end), subgraph.take(end)
                if taken.known != known:
                    # It was changed meanwhile.
                    return self.plan(job)
            # With what the probe saw to run.
            self._follow_manifest(job, known)
            if self._is_changed_by_keeping(known):
                return self.plan(job)
            collection = job.plan(subgraph.graph(end, known=known))
            self._proven = known
        if not cut.move(len(known.steps)):
            return None
        return collection, known, subgraph.open(taken)

    def is_in_manifest(self) -> bool:
        """Whether all that ran is known to be a part of what the items are; else it is from now on. Raises
        `Refused` if what runs cannot be known."""
        manifest, scope = self._manifest, self._scope
        if manifest is None:
            return False
        if new := manifest.beyond(scope):
            manifest.add(new)
            self._cut.is_due = True
        if scope.unseen:
            raise Refused(Code.OPAQUE, f"what code runs cannot be known: {scope.unseen}")
        return not new

    def steps_that_read(self) -> int:
        """How many of the first steps open files of their own: an item's files are known once they ran."""
        known, end = self._subgraph.known, self._cut.position
        if known is None or not end:
            return 0

        def make(i: int) -> list[Record]:
            records, value = [], None
            for at in range(end + 1):
                with Recorder() as record:
                    value = self._source.apply(value, self._cut.steps[at - 1]) if at else self._source.load(i)
                records.append(record)
            return records

        before = tripwire.state()
        try:
            return reading([*known.loading, *known.steps[:end]], make)
        except Exception:
            # The user's own error: it raises again when the item's turn comes.
            return 0
        finally:
            tripwire.restore(before)

    def _follow_manifest(self, job: Any, known: Described) -> None:
        self._manifest = Manifest([*known.loading, *known.steps])
        self._manifest.follow(job)
        self._source.leave_out(self._manifest.opened())
        self._subgraph.manifest = self._manifest.held()

    def _is_changed_by_keeping(self, known: Described) -> bool:
        """Sees what the process keeps of files, before it is given any item. Whether the pipeline is another
        one then, as a data set is that keeps what it read as an attribute.
        Raises `Refused` if what it keeps cannot be known."""
        names = [] if self._manifest is None else self._manifest.kept()
        if self._manifest is None or not names:
            self._subgraph.kept = None
            return False
        key = tuple(each.digest for each in (*known.loading, *known.steps))
        kept = _KEPT.get(key)
        if kept is None:
            memos = [memo for each in (*known.loading, *known.steps) for memo in each.reached.memos]
            kept = self._first_kept(memos, len(known.steps))
            if self._subgraph.take(len(known.steps)).known != known:
                return True
            _KEPT[key] = kept
        why = kept.unknown or ("" if kept.holds() else "it was changed since it was read")
        if why:
            fix = "name the files of an item with wrap(..., inputs=fn)"
            raise Refused(
                Code.UNDECLARED, f"making an item keeps {names[0]} for later ones, and {why}; {fix}"
            )
        self._subgraph.kept = kept
        if new := set(kept.paths).difference(names):
            self._manifest.add(kept_files.KEPT + path for path in new)
            self._subgraph.manifest = self._manifest.held()
        return False

    def _first_kept(self, memos: list[Any], end: int) -> kept_files.Kept:
        def make() -> None:
            value = self._source.load(0)
            for step in self._cut.steps[:end]:
                value = self._source.apply(value, step)

        before = tripwire.state()
        try:
            return kept_files.Kept(memos, make)
        except Exception as error:
            # The user's own: it raises again when the item's turn comes.
            raise Refused(Code.UNDECLARED, f"making the first item raises {type(error).__name__}") from error
        finally:
            tripwire.restore(before)

    def _is_vouched(self, described: Described) -> bool:
        """Whether all that is described is known to be deterministic, or its user says so."""
        end = len(described.steps)
        shared = self._cut.steps[:end] if self._source.floor else self._subgraph.roots(end)
        return all(determinism.known(each).kind == determinism.DETERMINISTIC for each in shared)

    def _deterministic(self, known: Described) -> int:
        """How many steps a probe in other processes finds to be deterministic."""
        shared = self._cut.steps[: len(known.steps)]
        load, steps = self._source.probed(shared)
        all_known = [*known.loading, *known.steps]
        first = len(steps) - len(shared)
        said = self._split is not None
        vouched = [first + i for i, step in enumerate(shared) if said or marks.is_pure(step)]
        found, items = verdict(all_known, load, steps, vouched, self._source.count)
        fault = None if found.code is None else Refused(found.code, found.reason)
        try:
            end = self._source.accept(found, items)
        except Refused as refused:
            if fault is not None and fault.reason not in refused.reason:
                not_cached(fault)
            raise
        except Restart:
            if fault is not None:
                not_cached(fault)
            raise
        if fault is not None:
            not_cached(fault)
        if end >= 0:
            kept = [kept_files.KEPT + os.path.abspath(path) for path in self._source.kept(found, items)]
            opened = manifest.opened_names(self._source.leave_out(found.opened))
            Manifest([*known.loading, *known.steps[:end]]).add([*found.ran, *kept, *opened])
        return end
