"""Values known by what making them is seen to read, beside what is said of it.

Entries form a chain, as those of `prebake run`: an input finds its value, or says that more is read; then the
input in this working folder finds a list of files; the input and their content find the value, or a longer
list. So what a function opens by a name it made up, nobody has to declare, and an edit of it is seen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from prebake.codec import values
from prebake.compute.computation import Computation
from prebake.execution.scope import Scope
from prebake.identity.code import Identity
from prebake.leases.client import LeaseClient
from prebake.leases.read_order import Ahead, nothing_ahead
from prebake.proof.verify import Verifier
from prebake.purity import tripwire
from prebake.reads import external_inputs
from prebake.reads.record import stat_of
from prebake.reads.stat_observations import KIND, Look
from prebake.runtime.errors import Code, Refused
from prebake.runtime.statistics import Statistics, Stats
from prebake.trial.trial import Trial
from prebake.watched.watched_runs import WatchedComputation, WatchedRuns
from prebake.world import world

#: Lists on the way to a value. Each file may name the next, but one that goes on so is no input of one value.
CHAIN_MAX = 8

#: What an entry holds: None and the value, or the files that making it also reads.
Held = tuple[list[bytes] | None, Any]


def refuse_unheard(identity: Identity, name: str) -> None:
    """Raises `Refused` if what one element of a stream reads may be opened while another is made: compiled
    code that is kept from one to the next reads ahead in threads of its own."""
    if identity.unheard:
        raise Refused(
            Code.UNDECLARED,
            f"{name} calls {identity.unheard[0]}, which opens files in compiled code, perhaps ahead of "
            "their element: name them with prebake.cached(inputs=[...]), or read them with open()",
        )


class Watched:
    """The values of items in this process: those of a `computation`.

    `background` and `scope` are as in `WatchedRuns`. Items that are not `extensible` are opened anew when
    more is found. `trial` is that of a function, which is called `inside` those `with` statements.
    """

    def __init__(
        self,
        computation: WatchedComputation,
        count: int,
        background: bool = False,
        scope: Scope | None = None,
        extensible: bool = True,
        trial: Trial | None = None,
        inside: Sequence[str] = (),
    ) -> None:
        self._runs = WatchedRuns(computation, background, scope or Scope())
        self._count, self._trial, self._inside = count, trial, inside
        self._extensible = extensible
        self._statistics = Statistics()
        self._since = time.monotonic()
        #: What inputs find as they were declared, and with further files; None until there are some.
        self.client = self._client(_AsDeclared(self, self._runs))
        self._further: LeaseClient | None = None

    def many(self, indices: Sequence[int], ahead: Ahead) -> list[Any]:
        """Values in the order of `indices`."""
        made, got = self._runs.made, dict[int, Any]()
        # What an error left: its files may have changed since.
        made.clear()
        self._take(indices, self.client.many(indices, ahead), got)
        for i in [i for i in made if i not in indices]:
            # Computed ahead: others wait for it, and it is not kept for a turn that may never come.
            self._further_client().ensure([i], nothing_ahead)
            made.pop(i, None)
        for _ in range(CHAIN_MAX):
            left = [i for i in indices if i not in got]
            if not left:
                break
            self._take(left, self._further_client().many(left, nothing_ahead), got)
        return [got[i] if i in got else self._alone(i) for i in indices]

    def is_stored(self, i: int) -> bool:
        """Whether value i can be read by other processes, as far as this one knows."""
        has_further = i in self._runs.found
        for client in (self._further_client(), self.client) if has_further else (self.client,):
            items = client.collection.items()
            if items is None or items.missing([i]):
                return False
        return True

    def found(self, i: int) -> list[str]:
        """Files that item i is known to read beside those declared."""
        return self._runs.found.get(i, [])

    def stats(self) -> Stats:
        """Values by outcome; see `OpenCollection.stats`."""
        return self._statistics.read()

    def begun_in(self) -> world.World | None:
        """The world that a function was called in: what its call does may change it."""
        return None if self._extensible else self.client.collection.world

    def open_further_anew(self) -> None:
        """Opens what further files lead to anew at the next use."""
        if self._further is not None:
            self._further.collection.reset()

    def _further_client(self) -> LeaseClient:
        further = self._further
        if further is None:
            # Of two threads that make one, both use the first.
            further = vars(self).setdefault("_first_further", self._client(_AsFound(self, self._runs)))
            self._further = further
        return further

    def _client(self, entries: _Entries) -> LeaseClient:
        tolerance = self._runs.computation.tolerance
        verifier = Verifier(entries.anew, tolerance, proves=_is_value, again=entries.once_more)
        entries.client = LeaseClient(
            entries, self._count, verifier, self._trial, self._inside, self._statistics
        )
        return entries.client

    def _take(self, indices: Sequence[int], held: Sequence[Held], got: dict[int, Any]) -> None:
        for i, (reads, value) in zip(indices, held, strict=True):
            if reads is None:
                got[i] = value
                self._runs.made.pop(i, None)
            else:
                self._learn(i, [_as_it_is(os.fsdecode(path)) for path in reads])

    def _learn(self, i: int, found: list[str]) -> None:
        if self._runs.found.get(i) != found:
            self._runs.found[i] = found
            external_inputs.look(found, self._since)
            if not self._extensible:
                self.open_further_anew()
            elif self._further is not None:
                self._further.set_reads(i, self._runs.known(i))

    def _alone(self, i: int) -> Any:
        made = self._runs.made.pop(i, None)
        return self._runs.computation.compute(i) if made is None else made.value


class _Entries(Computation):
    """The entries of one link of the chain."""

    client: LeaseClient

    def __init__(self, watched: Watched, runs: WatchedRuns) -> None:
        self._watched, self._runs = watched, runs

    def is_unchanged(self, closely: bool) -> bool:
        return self._runs.computation.is_unchanged(closely)

    def culprit(self, i: int) -> Any:
        # It is known whose the draws are where nobody else runs: an item that writes is not to be made again
        # and again to tell.
        value = self._runs.computation.compute
        return self if tripwire.alone() or tripwire.draws(lambda: value(i)) else None

    def anew(self, i: int) -> Held:
        """What a hit is when it is computed again. A list of names is not: it only says where to look on. Nor
        is what this thread made and did not give out yet: code may count its calls."""
        held, made = self.client.stored(i), self._runs.made.get(i)
        if held is not None and held[0] is not None:
            return held
        return self.once_more(i) if made is None else (None, made.value)

    def once_more(self, i: int) -> Held:
        """Value i, made to be compared."""
        return None, self._runs.run_again(i)


class _AsDeclared(_Entries):
    """What inputs find as they were declared: a value, or that more is read."""

    def open(self, job: Any) -> Any:
        # Opened anew, it may be for another function: both are of one.
        self._watched.open_further_anew()
        return self._runs.computation.open(job, None)

    def compute(self, i: int) -> Held:
        made = self._runs.run(i, self.client.collection.items(), ())
        return (None, made.value) if not self._runs.beyond(i, made.record) else ([], None)

    def approve(self, items: Any, i: int) -> bool:
        made = self._runs.made[i]
        is_value = not self._runs.beyond(i, made.record)
        approved = self._runs.is_as_told(items, i, self._runs.computation.declared(i))
        if is_value:
            # It goes no further.
            del self._runs.made[i]
        if approved and is_value:
            self._runs.computation.tell_made(made)
        return approved


class _AsFound(_Entries):
    """What inputs find with further files: a value, or a longer list of these."""

    def open(self, job: Any) -> Any:
        return self._runs.computation.open(job, self._runs.found)

    def compute(self, i: int) -> Held:
        made = self._runs.made.get(i)
        if made is None:
            made = self._runs.run(i, self.client.collection.items(), self._runs.known(i))
        beyond = self._runs.beyond(i, made.record)
        if not beyond:
            return None, made.value
        found = {*self._runs.found.get(i, ()), *beyond}
        return [os.fsencode(path) for path in sorted(found)], None

    def spent(self, i: int) -> tuple[int, int]:
        made = self._runs.made.get(i)
        return (0, 0) if made is None else (made.cpu_ns, made.io_ns)

    def approve(self, items: Any, i: int) -> bool:
        approved, made = self._runs.is_as_known(items, i), self._runs.made[i]
        if approved and not self._runs.beyond(i, made.record):
            self._runs.computation.tell_made(made)
        return approved

    def begun_in(self) -> world.World | None:
        return self._watched.begun_in()


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
