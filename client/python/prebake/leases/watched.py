"""Values known by what making them is seen to read, beside what is said of it.

Entries form a chain, as those of `prebake run`: an input finds its value, or says that more is read; then the
input in this working folder finds a list of files; the input and their content find the value, or a longer
list. So what a function opens by a name it made up, nobody has to declare, and an edit of it is seen.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from prebake.codec import values
from prebake.identity.code import Identity
from prebake.leases.client import Ahead, Fill, nothing_ahead
from prebake.leases.verify import Verifier
from prebake.purity import tripwire
from prebake.reads import external_inputs, memos
from prebake.reads.audit import Recorder
from prebake.reads.checked_reads import followed
from prebake.reads.record import Record, stat_of
from prebake.reads.settled import Stat, stats_since
from prebake.reads.stat_observations import KIND, Look
from prebake.runtime.errors import Code, Refused
from prebake.runtime.refusals import not_cached
from prebake.trial.trial import Trial
from prebake.world.executed import Scope

#: Lists on the way to a value. Each file may name the next, but one that goes on so is no input of one value.
CHAIN_MAX = 8

#: What an entry holds: None and the value, or the files that making it also reads.
Held = tuple[list[bytes] | None, Any]


class Made(NamedTuple):
    """A value and what making it read; `under` are the stats of what it was known to read when it was made,
    and `known` names that."""

    value: Any
    record: Record
    known: Sequence[str]
    under: Sequence[Stat]
    #: When it was begun, in nanoseconds since 1970.
    begun_ns: int
    cpu_ns: int
    io_ns: int


def refuse_unheard(identity: Identity, name: str) -> None:
    """Raises `Refused` if what a function reads would not be heard of."""
    if identity.unheard:
        raise Refused(
            Code.UNDECLARED,
            f"{name} calls {identity.unheard[0]}, which opens files in compiled code, unheard by "
            "Python: name them with prebake.cached(inputs=[...]), or read them with open()",
        )


class Watched:
    """The values of items in this process.

    `open_items(job, found)` opens their collection. Without `found` items are as they were declared; else it
    has the items' further files by number, and the collection is another for each working folder, on which it
    depends what a name stands for. `declared(i)` names the files and folders of item i. `described()` tells
    what the values are known by, and since when (ns). With `background`, threads that record nothing
    themselves work for a fill; code that runs is watched in `scope`. Items that are not `extensible` are
    opened anew when more is found. `trial` is that of a function, which is called `inside` those `with`
    statements; `tried` is told what was made and may be stored.
    """

    def __init__(
        self,
        open_items: Callable[[Any, dict[int, list[str]] | None], Any],
        compute: Callable[[int], Any],
        count: int,
        declared: Callable[[int], Sequence[str]],
        described: Callable[[], tuple[Identity, int]],
        unchanged: Callable[[bool], bool] = lambda closely: True,
        background: bool = False,
        scope: Scope | None = None,
        extensible: bool = True,
        tolerance: Callable[[], float | None] = lambda: None,
        trial: Trial | None = None,
        inside: Sequence[str] = (),
        tried: Callable[[Made], None] = lambda made: None,
    ) -> None:
        self._open_items = open_items
        self._extensible = extensible
        self._value = compute
        self._declared = declared
        self._described = described
        self._background, self._scope = background, scope or Scope()
        self._tried = tried
        #: Files that items are known to read beside those declared.
        self._found: dict[int, list[str]] = {}
        self._own = threading.local()
        self._since = time.monotonic()

        def culprit(i: int) -> Any:
            # It is known whose the draws are where nobody else runs: an item that writes is not to be made
            # again and again to tell.
            return compute if tripwire.alone() or tripwire.draws(lambda: compute(i)) else None

        self.fill = Fill(
            self._open_first,
            self._first,
            count,
            unchanged,
            culprit=culprit,
            approve=self._approve_first,
            verifier=self._verifier(lambda i: self._anew(self.fill, i), tolerance),
            trial=trial,
            inside=inside,
        )
        # What a call does may change the world: it was made in the one before.
        begun_in = (lambda: None) if extensible else (lambda: self.fill.world)
        self._further = Fill(
            lambda job: open_items(job, self._found),
            self._next,
            count,
            unchanged,
            culprit=culprit,
            spent=self._spent,
            approve=self._approve,
            verifier=self._verifier(lambda i: self._anew(self._further, i), tolerance),
            trial=trial,
            inside=inside,
            begun_in=begun_in,
        )

    def _verifier(self, compute: Callable[[int], Held], tolerance: Callable[[], float | None]) -> Verifier:
        return Verifier(compute, tolerance, proves=_is_value, again=self._once_more)

    def many(self, indices: Sequence[int], ahead: Ahead) -> list[Any]:
        """Values in the order of `indices`."""
        got: dict[int, Any] = {}
        # What an error left: its files may have changed since.
        self._made.clear()
        self._take(indices, self.fill.many(indices, ahead), got)
        for i in [i for i in self._made if i not in indices]:
            # Computed ahead: others wait for it, and it is not kept for a turn that may never come.
            self._further.ensure([i], nothing_ahead)
            self._made.pop(i, None)
        for _ in range(CHAIN_MAX):
            left = [i for i in indices if i not in got]
            if not left:
                break
            self._take(left, self._further.many(left, nothing_ahead), got)
        return [got[i] if i in got else self._alone(i) for i in indices]

    @property
    def _made(self) -> dict[int, Made]:
        """Made by this thread, and neither stored nor given out yet."""
        if not hasattr(self._own, "made"):
            self._own.made = {}
        made: dict[int, Made] = self._own.made
        return made

    def is_stored(self, i: int) -> bool:
        """Whether value i can be read by other processes, as far as this one knows."""
        for fill in (self._further, self.fill) if i in self._found else (self.fill,):
            items = fill.items()
            if items is None or items.missing([i]):
                return False
        return True

    def found(self, i: int) -> list[str]:
        """Files that item i is known to read beside those declared."""
        return self._found.get(i, [])

    def stats(self) -> dict[str, int]:
        """Values by outcome; see `Fill.stats`."""
        first, further = self.fill.stats(), self._further.stats()
        return {name: first.get(name, 0) + further.get(name, 0) for name in first | further}

    def _open_first(self, job: Any) -> Any:
        # Opened anew, it may be for another function: both are of one.
        self._further.reset()
        return self._open_items(job, None)

    def _take(self, indices: Sequence[int], held: Sequence[Held], got: dict[int, Any]) -> None:
        for i, (reads, value) in zip(indices, held, strict=True):
            if reads is None:
                got[i] = value
                self._made.pop(i, None)
            else:
                self._learn(i, [_as_it_is(os.fsdecode(path)) for path in reads])

    def _learn(self, i: int, found: list[str]) -> None:
        if self._found.get(i) != found:
            self._found[i] = found
            external_inputs.look(found, self._since)
            if self._extensible:
                self._further.set_reads(i, [*self._declared(i), *found])
            else:
                self._further.reset()

    def _alone(self, i: int) -> Any:
        made = self._made.pop(i, None)
        return self._value(i) if made is None else made.value

    # How a value is made, and what becomes of it.

    def _run(self, fill: Fill, i: int) -> Made:
        items = fill.items()
        under = (items and items.stats_of(i)) or ()
        begun_ns, cpu, wall = time.time_ns(), time.thread_time_ns(), time.perf_counter_ns()
        known_by, _ = self._described()
        with Recorder(self._background, self._scope) as record, memos.followed(known_by.memos, record):
            value = self._value(i)
        record.gave(value)
        record.ran(self._scope, known_by.reached)
        self._keep(record, known_by)
        cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
        known = self._known(i) if fill is self._further else ()
        return Made(value, record, known, under, begun_ns, cpu, max(0, wall - cpu))

    def _keep(self, record: Record, known_by: Identity) -> None:
        """What code that nothing describes read, it may keep for later: such files are all calls'."""
        kept = self._scope.kept(record.stats, known_by.reached)
        record.keep({path: stat for path, stat in kept.items() if path not in record.stats})

    def _anew(self, fill: Fill, i: int) -> Held:
        """What a hit is when it is computed again. A list of names is not: it only says where to look on. Nor
        is what this thread made and did not give out yet: code may count its calls."""
        held, made = fill.stored(i), self._made.get(i)
        if held is not None and held[0] is not None:
            return held
        return self._once_more(i) if made is None else (None, made.value)

    def _once_more(self, i: int) -> Held:
        known_by, _ = self._described()
        with Recorder(self._background, self._scope) as record:
            value = self._value(i)
        # What is made to be compared is not stored, but its code may keep what it read all the same.
        self._scope.kept(record.stats, known_by.reached)
        return None, value

    def _first(self, i: int) -> Held:
        made = self._made[i] = self._run(self.fill, i)
        return (None, made.value) if not self._beyond(i, made.record) else ([], None)

    def _next(self, i: int) -> Held:
        made = self._made.get(i)
        if made is None:
            made = self._made[i] = self._run(self._further, i)
        beyond = self._beyond(i, made.record)
        if not beyond:
            return None, made.value
        return [os.fsencode(path) for path in sorted({*self._found.get(i, ()), *beyond})], None

    def _beyond(self, i: int, record: Record) -> list[str]:
        """Files that were read and are not known to be; none of a record that is not to be followed."""
        if not self._is_followable(i, record):
            return []
        identity, since = self._described()
        known = self._known(i)
        told = {external_inputs.canonical(name) for name in known if external_inputs.is_fact(name)}
        return [fact for fact in self._facts(i, record) if fact not in told] + [
            path
            for path in record.files()
            if not _is_within(path, known)
            and not (path in identity.files and path in record.stats and record.stats[path][4] < since)
        ]

    def _facts(self, i: int, record: Record) -> dict[str, str | None]:
        """What was seen beside the content of files; a folder that is declared counts with all in it."""
        declared = self._declared(i)
        folders = record.listings().items() if record.listed else ()
        beside = {name: held for name, held in folders if not _is_within(Look.of(name).path, declared)}
        return {**record.facts(), **beside}

    def _is_followable(self, i: int, record: Record) -> bool:
        declared = self._declared(i)
        try:
            # The folders that it lists are followed too, by the names in them.
            followed(record, [path for path in record.scanned if not _is_within(path, declared)], "it")
        except Refused as refused:
            not_cached(refused)
            return False
        return True

    def _approve_first(self, items: Any, i: int) -> bool:
        made = self._made[i]
        is_value = not self._beyond(i, made.record)
        if is_value:
            # It goes no further.
            del self._made[i]
        approved = (
            made.record.is_current()
            and self._is_followable(i, made.record)
            and external_inputs.as_told(items, i, self._facts(i, made.record), self._declared(i))
        )
        if approved and is_value:
            self._tried(made)
        return approved

    def _approve(self, items: Any, i: int) -> bool:
        approved = self._is_as_known(items, i)
        made = self._made[i]
        if approved and not self._beyond(i, made.record):
            self._tried(made)
        return approved

    def _is_as_known(self, items: Any, i: int) -> bool:
        """Whether it was made of what it reads as the entry knows that."""
        made, known = self._made[i], self._known(i)
        if not made.record.is_current() or not self._is_followable(i, made.record):
            return False
        if not external_inputs.as_told(items, i, self._facts(i, made.record), known):
            return False
        if made.known == known:
            # Made under the lease itself: that the files are as they were then is looked at natively.
            return True
        stats = stats_since(items, i, made.begun_ns)
        read = [path for path in made.record.files() if _is_within(path, known)]
        seen = {made.record.stats.get(path) for path in read}
        return stats is not None and {*seen, *made.under} <= set(stats)

    def _known(self, i: int) -> list[str]:
        return [*self._declared(i), *self._found.get(i, ())]

    def _spent(self, i: int) -> tuple[int, int]:
        made = self._made.get(i)
        return (0, 0) if made is None else (made.cpu_ns, made.io_ns)


def _is_value(stored: Any, layout: str) -> bool:
    """Whether an entry holds a value, and no list of names that leads to one."""
    try:
        held: Held = values.decode(layout, stored)
    except Refused:
        # A list of names can be read anywhere. A value may be of a package of another version.
        return True
    return held[0] is None


def _as_it_is(name: str) -> str:
    """A name among those of what is read: of a file that is gone, that it is."""
    is_there = external_inputs.is_fact(name) or stat_of(name) is not None
    return name if is_there else Look(KIND, name).text


def _is_within(path: str, known: Sequence[str]) -> bool:
    """Whether a file is one of those known, or below a folder that is."""
    for each in known:
        each = os.path.join(os.getcwd(), each)
        if path == each or path.startswith(os.path.join(each, "")) and "/../" not in path[len(each) :]:
            return True
    return False
