"""Values of one function, known by a digest each: what shims make of a framework's chunks and shards."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from prebake.compute.restart_signals import Tripped
from prebake.execution.scope import Scope
from prebake.identity import graph, snapshot
from prebake.identity.code import Identity, identify
from prebake.known import determinism
from prebake.leases.read_order import nothing_ahead, unseen
from prebake.purity import tripwire
from prebake.reads import external_inputs
from prebake.reads.open_records import also
from prebake.reads.record import Record
from prebake.reads.recorder import Background, Recorder
from prebake.reads.settled import SETTLED_NS
from prebake.runtime.errors import Code, Refused, warn_once
from prebake.runtime.refusals import not_cached
from prebake.runtime.statistics import Stats
from prebake.watched.held_files import HeldFiles
from prebake.watched.watched import Watched, refuse_unheard
from prebake.watched.watched_runs import WatchedComputation
from prebake.world import within


class Input(NamedTuple):
    """What a value is made from: a digest, a name for people, and the files that are read."""

    digest: bytes
    name: str
    paths: Sequence[str] = ()


#: Inputs described at once where it is not known how many there are.
BLOCK = 64


def in_turn(
    step: Callable[..., Any],
    describe: Callable[[int], Input],
    begin: Callable[[int], Iterator[Any]],
    take: Callable[[Iterator[Any]], Any],
    background: bool = False,
) -> Iterator[Any]:
    """Values of `Entries` from the first on, without end; each is the next that is taken from one source.

    `begin` opens the source where value i begins. It is begun anew after values that were there already, and
    if a file was edited since: what it read before must not be stored as made of the file's new content. What
    it opened since it was begun, every later value may be made of; with `background`, in threads of its own.
    """
    with contextlib.closing(_Resumed(begin, take, background)) as resumed:
        for first in itertools.count(0, BLOCK):
            inputs = [describe(i) for i in range(first, first + BLOCK)]
            entries = Entries(
                step,
                inputs,
                lambda i, first=first, inputs=inputs: resumed.take(first + i, inputs[i].paths),
                in_turn=True,
            )
            for i in range(BLOCK):
                yield entries.get(i)


class _Resumed:
    """A source, and what comes next of it."""

    def __init__(
        self, begin: Callable[[int], Iterator[Any]], take: Callable[[Iterator[Any]], Any], background: bool
    ) -> None:
        self._begin = begin
        self._take = take
        self._source: Iterator[Any] = iter(())
        self._next = -1
        self._stats: list[Any] = []
        self._opened = Record()
        self._scope = Scope()
        self._background = Background() if background else None

    def close(self) -> None:
        """Ends the source."""
        self._source = iter(())
        if self._background is not None:
            self._background.close()

    def take(self, i: int, paths: Sequence[str]) -> Any:
        stats = [_stat(path) for path in paths]
        with Recorder(self._background is not None, self._scope) as record:
            if i != self._next or stats != self._stats:
                self._source, self._stats, self._opened = self._begin(i), stats, Record()
            # After an error it is nowhere.
            self._next = -1
            value = self._take(self._source)
        self._next = i + 1
        record.gave(value)
        self._opened.merge(record)
        also(self._opened)
        return value


def _stat(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class Entries(WatchedComputation):
    """The values of `step` over `inputs`; `compute(i)` makes the one of input i.

    `step` is what the values are known by: a function, or a partial of one with parameters. Raises `Refused`
    if that cannot be known. With `in_turn` no value is made before those that stand before it. With
    `background`, threads that record nothing themselves work for what is made.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        inputs: Sequence[Input],
        compute: Callable[[int], Any],
        in_turn: bool = False,
        background: bool = False,
    ) -> None:
        self._step = step
        self._in_turn = in_turn
        self._inputs = inputs
        self._known: Identity = identify(step)
        refuse_unheard(self._known, graph.called(step))
        self._held = snapshot.Snapshot([step])
        self._files = HeldFiles((), 0)
        self._compute = compute
        #: Whether making a value drew random numbers.
        self._drew = False
        self._described_ns = 0
        self._watched = Watched(self, len(inputs), background=background, inside=within.of_request())

    def __len__(self) -> int:
        return len(self._inputs)

    def get(self, i: int) -> Any:
        """Value i: read, waited for, or computed here."""
        if self._drew:
            return self._compute(i)
        ahead = nothing_ahead if self._in_turn else unseen(range(len(self)), i + 1, self._watched.client.seen)
        try:
            return self._watched.many([i], ahead)[0]
        except Tripped as tripped:
            # By name it may be anything's; that it drew makes it random, even if what came out is fixed.
            tripwire.restore(tripped.before)
            self._drew = True
            not_cached(Refused(Code.RANDOM, f"it draws from {tripped.generator} as it runs"))
        # After the handler: what it raises would be told as raised in one.
        return self._compute(i)

    def is_stored(self, i: int) -> bool:
        """Whether value i can be read by other processes, as far as this one knows."""
        return self._watched.is_stored(i)

    def stats(self) -> Stats:
        """Values by outcome (computed, reused, followed, bypassed), as this process saw them."""
        return self._watched.stats()

    # How a value is made.

    def compute(self, i: int) -> Any:
        return self._compute(i)

    def declared(self, i: int) -> Sequence[str]:
        return self._inputs[i].paths

    def described(self) -> tuple[Identity, int]:
        return self._known, self._described_ns - SETTLED_NS

    def tolerance(self) -> float | None:
        return determinism.tolerance(self._step)

    def open(self, job: Any, found: dict[int, list[str]] | None) -> Any:
        if found is None:
            self._described_ns = time.time_ns()
            # First what it is held to be, then what is planned: `is_unchanged` sees a change in between.
            self._held, self._known = snapshot.Snapshot([self._step]), identify(self._step)
            self._files = HeldFiles(self._known.files, self._described_ns)
        elif not self.is_unchanged(True):
            return None
        collection = job.plan(graph.of_call(self._step, self._known, here=found is not None))
        if collection.bypass:
            warn_once(f"bypass {collection.bypass}", f"not cached: {collection.bypass}")
            return None
        named = [(each.digest, each.name) for each in self._inputs]
        # What has no files reads none.
        items = collection.named(os.sep, named, unread=True)
        for i, each in enumerate(self._inputs):
            reads = [*each.paths, *(found or {}).get(i, ())]
            if reads:
                external_inputs.tell(items, i, reads)
        return items

    def is_unchanged(self, closely: bool) -> bool:
        if not closely and self._held.holds([self._step]) and self._files.hold():
            return True
        held, begun_ns = snapshot.Snapshot([self._step]), time.time_ns()
        try:
            unchanged = identify(self._step) == self._known
        except Exception:
            # It cannot be known any more; opening the collection anew says why.
            return False
        if unchanged:
            self._held, self._files = held, HeldFiles(self._known.files, begun_ns)
        return unchanged
