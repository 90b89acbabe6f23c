"""The subgraph of a pipeline that is shared, loading and the steps before the cut: what it is, and whether it
still is what it was opened as.
"""

from __future__ import annotations

import os
import time
from typing import Any, NamedTuple

from prebake.codec import values
from prebake.encoding.digests import digest
from prebake.encoding.watch import Watch
from prebake.identity import graph, snapshot
from prebake.identity.code import Identity, identify
from prebake.known import marks
from prebake.memo.kept_files import Kept
from prebake.runtime.errors import Code, Refused
from prebake.runtime.refusals import not_cached
from prebake.runtime.working_folder import working_folder
from prebake.sources.source import FileSource, Source, Step
from prebake.trial import aliases
from prebake.watched.held_files import HeldFiles

CONTEXT = "prebake 2026 pipeline v1"
#: A description (loading and all steps, with what they hold) takes no more than this share of the time where
#: it is not clear that an epoch begins.
LOOK_SHARE = 0.01


class Described(NamedTuple):
    """What it is: loading, and each step up to the cut."""

    loading: list[Identity]
    steps: list[Identity]

    def until(self, cut: int) -> Described:
        """The same of fewer steps."""
        return Described(self.loading, self.steps[:cut])

    def files(self) -> set[str]:
        """Files whose content is a part of it."""
        return {os.path.abspath(path) for each in [*self.loading, *self.steps] for path in each.files}


class Taken(NamedTuple):
    """A description, and what tells without another one that it still holds."""

    known: Described
    #: Taken before.
    held: snapshot.Snapshot
    #: What else it was made of.
    watch: Watch
    #: And what is in files.
    files: HeldFiles


class Subgraph:
    """Of one data set and its steps, for as long as both are the same objects; the cut may move meanwhile."""

    def __init__(self, source: Source, steps: list[Step], split: int | None, cut: int, folder: str) -> None:
        """Names of files are relative to `folder`; `split` is how many steps their user vouches for."""
        self._source, self._steps, self._split = source, steps, split
        self._folder, self._numbered = folder, source.numbered
        #: When the last description was made, and how long it took.
        self._looked, self._look_s = time.monotonic(), 0.0
        #: What was described when the collection was opened; None while it is not.
        self.known: Described | None = None
        #: The same; of the last collection while none is.
        self._opened: Described | None = None
        #: What else all elements are made of: see `graph.made_of`.
        self.manifest: list[tuple[str, str, str]] = []
        #: Of what it was, for other processes; empty until one is sent something.
        self._identity = ""
        self._described_ns = 0
        #: What it held when it was last seen to be as it was opened; of a list of files, whose source stays
        #: what it is, None until it is described.
        self.held: snapshot.Snapshot | None = self._snapshot(cut) if source.shared() else None
        #: What else is compared where that tells all; None where only a description does.
        self._watched: Any = None
        #: Files that the process keeps what it read of, and that are a part of it by what they hold.
        self.kept: Kept | None = None
        #: The files that are a part of what was opened.
        self._files = HeldFiles((), 0)
        #: Memory that it keeps, by what is held.
        self._kept: tuple[snapshot.Snapshot, aliases.Kept] | None = None

    # What it is.

    def take(self, cut: int) -> Taken:
        """Describes it as it is now."""
        self._described_ns = time.time_ns()
        held, watch = self._snapshot(cut), Watch()
        known = self._describe(cut, watch)
        if held.is_short():
            again = self._snapshot(cut)
            # What changed meanwhile is seen by the first.
            held = again if held.holds(self._steps[:cut]) else held
        return Taken(known, held, watch, HeldFiles(known.files(), self._described_ns))

    def close(self) -> None:
        """Nothing is opened any more."""
        self.known = self._watched = None

    def open(self, taken: Taken) -> bool:
        """Takes note of what is opened now; whether that is other than what was opened last."""
        is_other = self._opened is not None and taken.known != self._opened
        self.held, self.known, self._opened = taken.held, taken.known, taken.known
        self._watched, self._files = taken.watch.watched(taken.held), taken.files
        self._identity = ""
        return is_other

    def identity(self, cut: int) -> str:
        """What it is now, as one text."""
        return self._identified(self._describe(cut))

    def opened_as(self) -> str:
        """The same of what was opened; empty if nothing is."""
        if not self._identity and self.known is not None:
            self._identity = self._identified(self.known)
        return self._identity

    def described_files(self) -> tuple[set[str], int] | None:
        """Files that are part of what was opened, and when that was described, in nanoseconds since 1970."""
        return None if self.known is None else (self.known.files(), self._described_ns)

    def graph(self, cut: int, *more: graph.Json, known: Described | None = None) -> str:
        """In the words of the daemon: of what was opened, unless something else is `known`."""
        return graph.chain([*self.operators(cut, known), *more])

    def operators(self, cut: int, known: Described | None = None) -> list[graph.Json]:
        """The operators that the graph is a chain of."""
        known = known or self.known
        assert known is not None, "described before it is opened"
        steps = zip(self._steps[:cut], known.steps, strict=False)
        source, *operators = [
            *self._source.operators(known.loading),
            *(graph.step(step, identity) for step, identity in steps),
        ]
        if operators:
            operators[0] = graph.in_folder(operators[0], self._source.folder)
        if self.manifest and operators:
            # In the first, so that all that is downstream is another one too.
            operators[0] = graph.made_of(operators[0], self.manifest)
        return [source, *operators]

    def roots(self, cut: int) -> list[Any]:
        """The objects that make what is before a cut."""
        return [*self._source.shared(), *self._steps[:cut]]

    # Whether it still is.

    def holds(self, cut: int) -> bool:
        """Whether all that makes it is the same as when it was last described, as far as a cheap look
        tells."""
        held, steps = self.held, self._steps
        return (
            held is not None
            and held.holds(steps if cut == len(steps) else steps[:cut])
            and (self.known is None or self._files.hold())
            and (self.kept is None or self.kept.holds())
        )

    def keeps(self, value: Any) -> bool:
        """Whether most of a value that it made is there already: in memory that it keeps."""
        held, kept = self.held, self._kept
        if held is None:
            return False
        try:
            if kept is None or kept[0] is not held:
                kept = self._kept = held, aliases.Kept(held.met())
            return kept[1].is_most_of(self._source.parts(value), _stored_bytes)
        except Exception:
            # It has odd objects, or some that are not stored anyway.
            return False

    def is_as_watched(self, cut: int) -> bool:
        """Whether the same description would be made again, as far as that is told without making it. Enough
        to serve what is there; before anything is stored it is made."""
        watched = self._watched
        return (
            watched is not None
            and working_folder() == self._folder
            and self.holds(cut)
            and watched.holds([])
            and self._is_same_source()
        )

    def is_unchanged(self, cut: int, closely: bool, while_closed: bool) -> bool:
        """Whether it is what it was opened as; if asked closely, at any cost. While nothing is opened, a
        close look has no description to compare with, and tells `while_closed`."""
        if not closely and self.holds(cut):
            return True
        if working_folder() != self._folder:
            return False
        # The description that is made next takes what it holds then.
        held = None if closely and self.known is None else self._snapshot(cut)
        begun = time.monotonic()
        try:
            return self._is_unchanged_closely(cut, held, while_closed)
        finally:
            self._looked = time.monotonic()
            self._look_s = self._looked - begun

    def look_is_due(self) -> bool:
        """Whether another description would not take too large a share of the time."""
        return time.monotonic() - self._looked >= self._look_s / LOOK_SHARE

    def _is_unchanged_closely(self, cut: int, held: snapshot.Snapshot | None, while_closed: bool) -> bool:
        if not self._is_same_source() or self.kept is not None and not self.kept.holds():
            return False
        # Another thread may close it, and open it as something else.
        known = self.known
        if known is None or held is None:
            self.held = held or self.held
            return while_closed
        watch, begun_ns = Watch(), time.time_ns()
        try:
            unchanged = self._describe(cut, watch) == known
        except Exception:
            # It cannot be known any more; opening the collection anew says why.
            return False
        if unchanged:
            self.held, self._watched = held, watch.watched(held)
            self._files = HeldFiles(known.files(), begun_ns)
        return unchanged

    def _is_same_source(self) -> bool:
        self._source.refresh()
        return self._source.numbered == self._numbered and snapshot.same(self._source.steps, self._steps)

    def _snapshot(self, cut: int) -> snapshot.Snapshot:
        return snapshot.Snapshot(self.roots(cut), len(self._source.shared()), self._folder)

    def _describe(self, cut: int, watch: Watch | None = None) -> Described:
        """Up to the first step that cannot be known; `watch` is told what else is read for it."""
        loading, steps, watch = self._source.identities(), [], watch or Watch()
        # What those read is not told, nor what a data set of the user's holds.
        watch.is_loose |= bool(loading) or type(self._source) is not FileSource
        for i, step in enumerate(self._steps[:cut]):
            try:
                vouched = self._split is not None and not marks.is_pure(step)
                known = marks.Pure(step, None) if vouched else step
                steps.append(identify(known, graph.step_name(i + 1, step), watch))
            except Refused as refused:
                # Of what made it so nothing is told.
                watch.is_loose = True
                if i < self._source.floor:
                    raise
                # Random steps are nothing to speak of: they run in the job.
                if refused.code != Code.RANDOM:
                    not_cached(refused)
                break
        return Described(loading, steps)

    def _identified(self, known: Described) -> str:
        return digest(CONTEXT, self.graph(len(known.steps), known=known).encode()).hex()


def _stored_bytes(value: Any) -> int:
    return sum(memoryview(each).nbytes for each in values.encode(value)[1])
