"""`@prebake.cached`: a function whose value is computed once for all jobs on the node."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from prebake.bytecode.instructions import converses
from prebake.compute.restart_signals import Tripped
from prebake.execution.scope import CHEAP_CALL_SECONDS, Scope
from prebake.identity import graph
from prebake.purity import tripwire
from prebake.runtime.daemon import native
from prebake.runtime.errors import Code, Refused
from prebake.runtime.refusals import not_cached
from prebake.runtime.wrapper import Wrapper
from prebake.stream import Called, shared
from prebake.watched.function_call import FunctionCall, paths_of, shown
from prebake.world import ambient, within

P = ParamSpec("P")
R = TypeVar("R")


class Decorator(Protocol):
    """What `cached(inputs=...)` is."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def cached(function: Callable[P, R], *, inputs: Iterable[str | Path] = ()) -> Callable[P, R]: ...
@overload
def cached(function: None = None, *, inputs: Iterable[str | Path] = ()) -> Decorator: ...
def cached(function: Any = None, *, inputs: Iterable[str | Path] = ()) -> Any:
    """Caches a function's value by its code, its arguments, and the content of the files that it reads.

    The function must be deterministic. If it cannot be known what an argument is, or what the function reads,
    the function is simply called, and a warning says so, once. Of a generator function the elements are
    cached in turn, and the files that it is seen to open count. A list among its arguments counts as far as
    it is gone through: with more items at its end, the elements before are those that are there.

    Parameters
    ----------
    function
        The function, or a method. Without it, `cached` is a decorator that takes arguments.
    inputs
        The files and folders that the function reads: a string names the parameter that holds a path or
        several, a `Path` is a fixed one. Other files are found out by watching what the function opens, in
        compiled code (`cv2.imread`, HDF5) too.

    Returns
    -------
    callable
        What is called as `function` is, and returns what it returns; without `function`, a decorator.

    Raises
    ------
    Refused
        R30, if `inputs` names a parameter that the function has not.

    Examples
    --------
    >>> from pathlib import Path
    >>> import prebake
    >>> @prebake.cached(inputs=["folder"])
    ... def count(folder: str) -> int:
    ...     return sum(len(path.read_text().split()) for path in sorted(Path(folder).iterdir()))
    >>> count("texts")
    5
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
            f"{shown(function)} has no parameter {unknown[0]!r}; use a Path for a fixed file",
        )

    scope, graphs, defaults = (
        Scope(cheap_seconds=CHEAP_CALL_SECONDS),
        graph.OfCalls(function),
        _defaults(function),
    )
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
        inside = within.of_caller()
        one = None if bound is None else _call_of(function, inputs, bound, scope, graphs, inside)
        if one is None:
            return function(*args, **kwargs)
        try:
            return one.value()
        except Tripped as tripped:
            why = f"{one.name} draws from {tripped.generator}: it is called each time"
            not_cached(Refused(Code.RANDOM, why))
            # What it drew and did then is what the caller asked for.
            if made := one.made_once():
                return made[0]
            tripwire.restore(tripped.before)
        # After the handler: what it raises would be told as raised in one.
        return function(*args, **kwargs)

    return Wrapper(call, _cached, function, inputs)


def _call_of(function: Any, inputs: list[str | Path], bound: inspect.BoundArguments, *more: Any) -> Any:
    """The call, as a `FunctionCall`; None if it cannot be known what it is."""
    try:
        return FunctionCall(function, inputs, bound, *more)
    except Exception as error:
        # Looking at an odd object can raise anything; its call must not.
        not_cached(error)
        return None


def _generator(function: Any, inputs: list[str | Path], signature: inspect.Signature) -> Any:
    """A generator function whose elements are shared in turn."""
    plain = function
    while isinstance(plain, functools.partial):
        plain = plain.func
    try:
        if converses(plain.__code__):
            why = f"{shown(plain)} takes what is sent to it, or returns a value: it is called each time"
            raise Refused(Code.OPAQUE, why)
    except Refused as refused:
        not_cached(refused)
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
    paths = [path for each in inputs for path in paths_of(each, bound) if each not in lists]
    for each in lists:
        paths_of(each, bound)
    return Called(function, bound, paths, frozenset(map(str, lists)))
