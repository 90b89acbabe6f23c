"""`@prebake.cached`: a function whose value is computed once for all jobs on the node."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from prebake.bytecode.instructions import converses
from prebake.identity import graph
from prebake.identity.code import identify
from prebake.known import marks
from prebake.leases.client import nothing_ahead
from prebake.leases.restart_signals import Tripped
from prebake.leases.watched import Made, Watched, refuse_unheard
from prebake.purity import tripwire
from prebake.purity.named_files import named_files
from prebake.reads import external_inputs, object_store
from prebake.reads.audit import hidden, served
from prebake.reads.settled import SETTLED_NS
from prebake.runtime.daemon import native
from prebake.runtime.errors import Code, Refused, warn_once
from prebake.runtime.refusals import not_cached
from prebake.runtime.wrapper import Wrapper
from prebake.stream import Called, shared
from prebake.trial import aliases
from prebake.trial.given import Arguments, Holding
from prebake.trial.trial import Trial
from prebake.world import ambient, executed, within, world
from prebake.world.executed import Scope

Function = TypeVar("Function", bound=Callable[..., Any])


def cached(
    function: Function | None = None, *, inputs: Iterable[str | Path] = ()
) -> Function | Callable[[Function], Function]:
    """Caches a function's value by its code, its arguments, and the content of the files that it reads.

    `inputs` says which files and folders it reads: a string names the parameter that holds a path or several,
    a `Path` is a fixed one. Other files are found out by watching what it opens; those that compiled code
    opens (`cv2.imread`, HDF5) have to be declared. The function must be deterministic. When an argument's
    identity or what it reads cannot be known, it is simply called (and a warning says so, once).

    Of a generator function the elements are cached in turn, and the files that it is seen to open count. A
    list among its arguments counts as far as it is gone through: with more items at its end, the elements
    before are those that are there.
    """
    if function is None:
        return lambda function: _cached(function, list(inputs))
    return _cached(function, list(inputs))


def _cached(function: Any, inputs: list[str | Path]) -> Any:
    try:
        signature = inspect.signature(function)
    except ValueError as error:
        # Some of what is compiled tells no parameters.
        not_cached(Refused(Code.OPAQUE, f"{error}: it is called each time"))
        return function
    unknown = [each for each in inputs if isinstance(each, str) and each not in signature.parameters]
    if unknown:
        raise Refused(
            Code.DATASET,
            f"{_shown(function)} has no parameter {unknown[0]!r}; use a Path for a fixed file",
        )

    scope, graphs, defaults = Scope(), graph.OfCalls(function), _defaults(function)
    if inspect.isgeneratorfunction(function):
        return _generator(function, inputs, signature)

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal signature, defaults
        if native() is None or ambient.is_traced():
            return function(*args, **kwargs)
        now = _defaults(function)
        if list(map(id, now)) != list(map(id, defaults)):
            signature, defaults = inspect.signature(function), now
        bound = _bound(signature, args, kwargs)
        found = None if bound is None else _fill(function, inputs, bound, scope, graphs, within.of_caller())
        if found is None:
            return function(*args, **kwargs)
        assert bound is not None, "it was filled"
        fill, settle, made_once = found
        paths = [path for each in inputs for path in _paths(each, bound)]
        served(path for path in paths if not object_store.is_object(path))
        try:
            value = settle(fill.many([0], nothing_ahead)[0])
            others = [name for name in fill.found(0) if not executed.passed_on(name)]
            if others or any(map(object_store.is_object, paths)):
                # What takes the value depends on these too, and cannot tell when they were looked at.
                hidden("a function that reads more than files that are named")
            return value
        except Tripped as tripped:
            name = _shown(function)
            not_cached(Refused(Code.RANDOM, f"{name} draws from {tripped.generator}: it is called each time"))
            # What it drew and did then is what the caller asked for.
            if made := made_once():
                return made[0]
            tripwire.restore(tripped.before)
        # After the handler: what it raises would be told as raised in one.
        return function(*args, **kwargs)

    return Wrapper(call, _cached, function, inputs)


def _generator(function: Any, inputs: list[str | Path], signature: inspect.Signature) -> Any:
    """A generator function whose elements are shared in turn."""
    plain = function
    while isinstance(plain, functools.partial):
        plain = plain.func
    if converses(plain.__code__):
        why = f"{_shown(plain)} takes what is sent to it, or returns a value: it is called each time"
        not_cached(Refused(Code.OPAQUE, why))
        return function

    def call(*args: Any, **kwargs: Any) -> Iterator[Any]:
        elements = None
        if native() is not None:
            bound = _bound(signature, args, kwargs)
            try:
                elements = None if bound is None else shared(_called(function, inputs, bound))
            except Refused as refused:
                not_cached(refused)
        return function(*args, **kwargs) if elements is None else elements

    return Wrapper(call, _cached, function, inputs)


def _shown(function: Any) -> str:
    """What a person calls it: an object or a partial by its class or its function."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def _defaults(function: Any) -> list[Any]:
    """Its parameters' defaults, which can be replaced."""
    named = getattr(function, "__kwdefaults__", None) or {}
    return [*(getattr(function, "__defaults__", None) or ()), *named.values()]


def _bound(signature: inspect.Signature, args: Any, kwargs: Any) -> inspect.BoundArguments | None:
    """Arguments by parameter; None if they do not fit, of which the call itself tells in Python's words."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    return bound


def _called(function: Any, inputs: list[str | Path], bound: inspect.BoundArguments) -> Called:
    lists = {each for each in inputs if isinstance(each, str) and type(bound.arguments[each]) is list}
    paths = [path for each in inputs for path in _paths(each, bound) if each not in lists]
    for each in lists:
        _paths(each, bound)
    return Called(function, bound, paths, frozenset(map(str, lists)))


def _fill(
    function: Any,
    inputs: list[str | Path],
    bound: inspect.BoundArguments,
    scope: Scope,
    graphs: graph.OfCalls,
    inside: Sequence[str],
) -> tuple[Watched, Callable[[Any], Any], Callable[[], list[Any]]] | None:
    """The one item that a call is, what makes the caller's of its value, and what it returned if it was run
    exactly once; None if it is unknowable."""
    name, since, begun = _shown(function), time.time_ns() - SETTLED_NS, time.monotonic()
    try:
        known = identify(function, graph.called(function), arguments=bound.arguments)
        arguments_known = identify(dict(bound.arguments), f"{name} arguments")
        arguments = arguments_known.digest
        known.reached.update(arguments_known.reached)
        paths = [path for each in inputs for path in _paths(each, bound)]
        if not inputs:
            refuse_unheard(known, name)
    except Exception as error:
        # Looking at an odd object can raise anything; its call must not.
        not_cached(error)
        return None

    def open_items(job: Any, found: dict[int, list[str]] | None) -> Any:
        collection = job.plan_once(graphs.of(known, here=found is not None))
        if collection.bypass:
            warn_once(f"bypass {collection.bypass}", f"not cached: {collection.bypass}")
            return None
        reads = [*paths, *(found or {}).get(0, ())]
        files = [name for name in reads if not external_inputs.is_fact(name)]
        seen = [name for name in reads if external_inputs.is_fact(name)]
        external_inputs.look(seen, begun)
        if any(external_inputs.shows(name) is None for name in seen):
            files.append(object_store.unknown(seen[0]))
        items = collection.call(name, arguments, files)
        external_inputs.tell_facts(items, 0, seen)
        return items

    def given() -> bytes:
        return identify(dict(bound.arguments), f"{name} arguments").digest

    #: The arguments before it ran, unless they were others already; what it returned; what is stored of that.
    before: Arguments | None = None
    returned: Any = None
    stored: Any = None
    #: What it returned a part of, if that is so: written to, that changes too.
    aliased: str | None = None
    #: What it set for the whole process.
    switched = ""
    begun_runs, ended_runs = 0, 0

    def compute(_: int) -> Any:
        nonlocal before, returned, stored, aliased, switched, begun_runs, ended_runs
        begun_runs += 1
        with executed.unheard():
            was = world.Switches()
            before = Arguments(bound.arguments, name) if given() == arguments else None
            if before is not None:
                before.remember()
            if not marks.is_pure(function):
                served(named_files([*bound.arguments.values(), function]))
        with executed.unwatched() if marks.is_pure(function) else contextlib.nullcontext():
            returned = function(*bound.args, **bound.kwargs)
        ended_runs += 1
        with executed.unheard():
            switched = was.changed(watched.fill.world)
            is_view = aliases.is_view(returned, bound.arguments)
            aliased = "an argument" if is_view else aliases.held_by(function, returned, known.digest)
            stored = returned if before is None else before.stored(returned)
        return stored

    def settle(value: Any) -> Any:
        """What the caller is given of what is stored."""
        if type(value) is not Holding:
            return value
        if value is stored:
            return returned
        try:
            return (before or Arguments(bound.arguments, name)).returned(value)
        except LookupError:
            # Another thread changed what was given meanwhile.
            return function(*bound.args, **bound.kwargs)

    def unchanged(closely: bool) -> bool:
        if not closely:
            return True
        if aliased is not None:
            why = f"{name} returns memory of {aliased}, which changes with it; return a copy"
            not_cached(Refused(Code.MUTATES, why))
            return False
        if switched:
            why = f"{name} changes what the whole process is set to ({switched}), which a hit would not"
            not_cached(Refused(Code.EFFECT, why))
            return False
        if given() != arguments if before is None else before.are_changed(returned):
            # By itself, or by another thread meanwhile.
            not_cached(Refused(Code.MUTATES, f"{name}: its arguments change while it runs"))
            return False
        return identify(function, graph.called(function), arguments=bound.arguments) == known

    #: Not of what its user vouches for.
    trial = None if marks.is_pure(function) else Trial(function, known, arguments_known, paths)

    def tried(made: Made) -> None:
        if trial is None:
            return
        given = bound
        if before is not None:
            given = inspect.BoundArguments(bound.signature, OrderedDict(before.as_given()))
        read: dict[str, tuple[int, ...] | None] = {
            path: made.record.stats.get(path) for path in made.record.reads
        }
        trial.begin((given.args, given.kwargs), stored, made.cpu_ns, made.io_ns, read)

    watched = Watched(
        open_items,
        compute,
        1,
        declared=lambda _: paths,
        described=lambda: (known, since),
        unchanged=unchanged,
        extensible=False,
        tolerance=lambda: marks.tolerance(function),
        scope=scope,
        trial=trial,
        inside=inside,
        tried=tried,
    )
    return watched, settle, lambda: [returned] if begun_runs == ended_runs == 1 else []


def _paths(each: str | Path, bound: inspect.BoundArguments) -> list[str]:
    value = bound.arguments[each] if isinstance(each, str) else each
    if isinstance(value, (str, os.PathLike)):
        return [os.fspath(value)]
    if isinstance(value, (list, tuple)) and all(isinstance(path, (str, os.PathLike)) for path in value):
        return [os.fspath(path) for path in value]
    raise Refused(Code.DATASET, f"argument {each} is not a path or a list of paths")
