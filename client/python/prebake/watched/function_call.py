"""One call of a function whose values are shared: the one item of its collection."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from prebake.execution import active_scopes, executed
from prebake.execution.profile_watcher import unheard
from prebake.execution.scope import Scope
from prebake.identity import graph
from prebake.identity.code import Identity, identify
from prebake.known import determinism, marks
from prebake.leases.read_order import nothing_ahead
from prebake.purity.named_files import named_files
from prebake.reads import external_inputs, object_store
from prebake.reads.open_records import hidden, served
from prebake.reads.settled import SETTLED_NS
from prebake.runtime.errors import Code, Refused, warn_once
from prebake.runtime.refusals import not_cached
from prebake.trial import aliases
from prebake.trial.given import Arguments, Holding
from prebake.trial.trial import Trial
from prebake.watched.watched import Watched
from prebake.watched.watched_runs import Made, WatchedComputation
from prebake.world.switches import Switches


class FunctionCall(WatchedComputation):
    """A call of `function` with `bound` arguments. `inputs` are fixed paths, and names (`str`) of parameters
    that hold paths."""

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Sequence[str | Path],
        bound: inspect.BoundArguments,
        scope: Scope,
        graphs: graph.OfCalls,
        inside: Sequence[str],
    ) -> None:
        """Raises `Refused`, or whatever odd arguments raise, if it cannot be known what it is called with."""
        self._function, self._bound, self._graphs = function, bound, graphs
        self.name = shown(function)
        self._since, self._begun = time.time_ns() - SETTLED_NS, time.monotonic()
        self._known = known = self._described()
        arguments = identify(dict(bound.arguments), f"{self.name} arguments")
        self._arguments = arguments.digest
        known.reached.update(arguments.reached)
        self._paths = [path for each in inputs for path in paths_of(each, bound)]
        #: The arguments before it ran, unless they were others already; what it returned; what is stored of
        #: that.
        self._before: Arguments | None = None
        self._returned: Any = None
        self._stored: Any = None
        #: What it returned a part of, if that is so: written to, that changes too. What it set for the whole
        #: process.
        self._aliased: str | None = None
        self._switched = ""
        self._begun_runs = self._ended_runs = 0
        # Not of what its user vouches for.
        is_vouched = marks.is_pure(function)
        self._trial = None if is_vouched else Trial(function, known, arguments, self._paths)
        self._watched = Watched(self, 1, scope=scope, extensible=False, trial=self._trial, inside=inside)

    def value(self) -> Any:
        """Its value: read, waited for, or computed here."""
        served(path for path in self._paths if not object_store.is_object(path))
        value = self._given_out(self._watched.many([0], nothing_ahead)[0])
        others = [name for name in self._watched.found(0) if not active_scopes.passed_on(name)]
        if others or any(map(object_store.is_object, self._paths)):
            # What takes the value depends on these too, and cannot tell when they were looked at.
            hidden("a function that reads more than files that are named")
        return value

    def made_once(self) -> list[Any]:
        """What it returned, if it was run exactly once."""
        return [self._returned] if self._begun_runs == self._ended_runs == 1 else []

    # What it is.

    def open(self, job: Any, found: dict[int, list[str]] | None) -> Any:
        collection = job.plan_once(self._graphs.of(self._known, here=found is not None))
        if collection.bypass:
            warn_once(f"bypass {collection.bypass}", f"not cached: {collection.bypass}")
            return None
        reads = [*self._paths, *(found or {}).get(0, ())]
        files = [name for name in reads if not external_inputs.is_fact(name)]
        seen = [name for name in reads if external_inputs.is_fact(name)]
        external_inputs.look(seen, self._begun)
        if any(external_inputs.shows(name) is None for name in seen):
            files.append(object_store.unknown(seen[0]))
        items = collection.call(self.name, self._arguments, files)
        external_inputs.tell_facts(items, 0, seen)
        return items

    def declared(self, i: int) -> Sequence[str]:
        return self._paths

    def described(self) -> tuple[Identity, int]:
        return self._known, self._since

    def tolerance(self) -> float | None:
        return determinism.tolerance(self._function)

    def is_unchanged(self, closely: bool) -> bool:
        if not closely:
            return True
        if self._aliased is not None:
            why = f"{self.name} returns memory of {self._aliased}, which changes with it; return a copy"
            not_cached(Refused(Code.MUTATES, why))
            return False
        if self._switched:
            what = f"what the whole process is set to ({self._switched})"
            not_cached(Refused(Code.EFFECT, f"{self.name} changes {what}, which a hit would not"))
            return False
        before = self._before
        is_other = self._given() != self._arguments if before is None else before.are_changed(self._returned)
        if is_other:
            # By itself, or by another thread meanwhile.
            why = f"{self.name}: its arguments change while it runs; work on a copy"
            not_cached(Refused(Code.MUTATES, why))
            return False
        now = self._described()
        if now != self._known:
            pairs = zip(now.leaves, self._known.leaves, strict=False)
            what = next((one.path for one, other in pairs if one != other), "what it refers to")
            why = f"{self.name}: {what} changes while it runs, so that a result can depend on earlier calls"
            not_cached(Refused(Code.CARRIES_STATE, why))
            return False
        return True

    def _described(self) -> Identity:
        function = self._function
        return identify(function, graph.called(function), arguments=self._bound.arguments)

    def _given(self) -> bytes:
        """What it is called with, as it is now."""
        return identify(dict(self._bound.arguments), f"{self.name} arguments").digest

    def _remembered(self) -> Arguments | None:
        """The arguments, to see later what was changed; None if they are others than it is described by."""
        before = Arguments(self._bound.arguments, self.name)
        try:
            before.remember()
            # Last: what another thread changes earlier is seen here, and later by what is remembered.
            return before if self._given() == self._arguments else None
        except Refused:
            return None

    # How its value is made.

    def compute(self, i: int) -> Any:
        function, bound = self._function, self._bound
        self._begun_runs += 1
        with unheard():
            was = Switches()
            self._before = before = self._remembered()
            if not marks.is_pure(function):
                served(named_files([*bound.arguments.values(), function]))
        with executed.unwatched() if marks.is_pure(function) else contextlib.nullcontext():
            self._returned = returned = function(*bound.args, **bound.kwargs)
        self._ended_runs += 1
        with unheard():
            self._switched = was.changed(self._watched.client.collection.world)
            is_view = aliases.is_view(returned, bound.arguments)
            held_by = "an argument" if is_view else aliases.held_by(function, returned, self._known.digest)
            self._aliased = held_by
            self._stored = returned if before is None else before.stored(returned)
        return self._stored

    def tell_made(self, made: Made) -> None:
        if self._trial is None:
            return
        given = self._bound
        if self._before is not None:
            given = inspect.BoundArguments(given.signature, OrderedDict(self._before.as_given()))
        read: dict[str, tuple[int, ...] | None] = {
            path: made.record.stats.get(path) for path in made.record.reads
        }
        self._trial.begin((given.args, given.kwargs), self._stored, made.cpu_ns, made.io_ns, read)

    def _given_out(self, value: Any) -> Any:
        """What the caller is given of what is stored."""
        if type(value) is not Holding:
            return value
        if value is self._stored:
            return self._returned
        try:
            return (self._before or Arguments(self._bound.arguments, self.name)).returned(value)
        except LookupError:
            # Another thread changed what was given meanwhile.
            return self._function(*self._bound.args, **self._bound.kwargs)


def paths_of(each: str | Path, bound: inspect.BoundArguments) -> list[str]:
    """The paths that one of `inputs` stands for. Raises `Refused` if it holds none."""
    value = bound.arguments[each] if isinstance(each, str) else each
    if isinstance(value, (str, os.PathLike)):
        return [os.fspath(value)]
    if isinstance(value, (list, tuple)) and all(isinstance(path, (str, os.PathLike)) for path in value):
        return [os.fspath(path) for path in value]
    raise Refused(Code.DATASET, f"argument {each} is not a path or a list of paths")


def shown(function: Any) -> str:
    """What a person calls it: an object or a partial by its class or its function."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__qualname__", None) or type(function).__qualname__
