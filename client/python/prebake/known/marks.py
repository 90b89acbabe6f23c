"""What users say of transforms: that they are random, pure, or where a list of them is cut."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

from prebake.runtime import packages

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
T = TypeVar("T")

#: What a mark hangs on: functions and classes stay themselves.
PURE = "__prebake_pure__"

DETERMINISTIC, RANDOM = "deterministic", "random"


class Random(Generic[P, R]):
    """A transform marked as random: it and all after it run in the job, every time. Calls pass through."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Random[..., R]:
        bound = _bound(self.function, instance, owner)
        return self if bound is self.function else Random(bound)

    def __reduce__(self) -> Any:
        # Under a decorator the function's own name stands for the mark, as pickle sees it.
        name = getattr(self.function, "__qualname__", "")
        module = getattr(self.function, "__module__", None)
        if name and packages.resolve(module or "", name) is self:
            return name
        if type(self.function) is types.MethodType:
            # Its object's attribute is marked already.
            marked = getattr(self.function.__self__, self.function.__name__, None)
            if type(marked) is Random:
                return getattr, (self.function.__self__, self.function.__name__)
        return (Random, (self.function,))


class Pure(Generic[P, R]):
    """A transform whose user vouches for it. Calls pass through."""

    def __init__(self, function: Callable[P, R], tolerance: float | None) -> None:
        self.function = function
        self.tolerance = tolerance

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Pure[..., R]:
        bound = _bound(self.function, instance, owner)
        return self if bound is self.function else Pure(bound, self.tolerance)


def _bound(function: Any, instance: Any, owner: type | None) -> Any:
    """What a class that has a function in its body gives of it: a method, if it is one."""
    bind = getattr(type(function), "__get__", None)
    return function if bind is None else bind(function, instance, owner)


class PureMark(Protocol):
    """What `pure(tolerance=...)` is: the decorator."""

    @overload
    def __call__(self, function: type[C], /) -> type[C]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...


def random(function: Callable[P, R]) -> Callable[P, R]:
    """Marks a transform as random, in a list of transforms or as a decorator of a function or method.

    Everything before the first random transform is shared. That transform and everything after it run in the
    job, every time, with the job's own random numbers.

    Parameters
    ----------
    function
        A function, method or callable object that takes one element.

    Returns
    -------
    callable
        `function` with the mark; calls pass through to it. What is marked already is returned as it is.

    Examples
    --------
    >>> import random
    >>> import prebake
    >>> @prebake.random
    ... def jitter(value: float) -> float:
    ...     return value + random.random()
    >>> 1.0 <= jitter(1.0) < 2.0
    True
    """
    return function if isinstance(function, Random) else Random(function)


@overload
def pure(function: type[C], *, tolerance: float | None = None) -> type[C]: ...
@overload
def pure(function: Callable[P, R], *, tolerance: float | None = None) -> Callable[P, R]: ...
@overload
def pure(function: None = None, *, tolerance: float | None = None) -> PureMark: ...
def pure(function: Any = None, *, tolerance: float | None = None) -> Any:
    """Marks a function, class or transform as depending on nothing but its arguments and what it holds.

    It is shared although its code cannot be seen to be deterministic, on its user's word.

    Parameters
    ----------
    function
        A function, method, class of transforms or callable object. Without it, `pure` is a decorator that
        takes arguments.
    tolerance
        By how much floating-point numbers may differ when a hit is computed again to verify it
        (accelerators): a share, from 0 to 1, of the largest magnitude in their array. None asks for equal
        bits.

    Returns
    -------
    callable
        `function` itself if it is a function or class, else a callable that passes calls on to it; without
        `function`, a decorator.

    Raises
    ------
    ValueError
        If `tolerance` is no number from 0 to 1.

    Examples
    --------
    >>> import prebake
    >>> @prebake.pure(tolerance=1e-6)
    ... def normalized(values: list[float]) -> list[float]:
    ...     return [each / max(values) for each in values]
    >>> normalized([1.0, 2.0])
    [0.5, 1.0]
    """
    if tolerance is not None:
        tolerance = float(tolerance)
        if not 0 <= tolerance <= 1:
            raise ValueError(f"a tolerance is a number from 0 to 1, not {tolerance}")
    if function is None:
        return functools.partial(pure, tolerance=tolerance)
    if isinstance(function, (types.FunctionType, type)):
        setattr(function, PURE, tolerance if tolerance is not None else True)
        return function
    return Pure(function, tolerance)


class Split:
    """Where a list of transforms is cut; see `split`. As a transform it does nothing."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, value: T) -> T:
        return value


def split(i: int) -> Split:
    """Says that the first `i` of the transforms are deterministic, and that all others run in the job.

    It stands anywhere in the list of transforms, or is all that is given to `wrap` beside a data set that has
    transforms of its own; it counts as none. It is for transforms of which it cannot be told: those that are
    known to be random still run in the job, and so does one that is seen to draw.

    Parameters
    ----------
    i
        How many of the transforms are shared: 0, 1, ...

    Returns
    -------
    Split
        The cut, for the list of transforms.

    Raises
    ------
    ValueError
        If `i` is negative.

    Examples
    --------
    >>> from pathlib import Path
    >>> import prebake
    >>> def read(path: str) -> str:
    ...     return Path(path).read_text()
    >>> files = sorted(Path("texts").glob("*.txt"))
    >>> ds = prebake.wrap(files, [read, str.upper, prebake.split(1)])
    >>> ds[0]
    'BAKE ONCE'
    """
    if i < 0:
        raise ValueError(f"transforms are cut after the first 0, 1, ..., not {i}")
    return Split(i)


#: By class, what `register` was told.
registered: dict[type, str] = {}


def register(cls: type, kind: Literal["random", "deterministic"]) -> None:
    """Says of a class of transforms that it is random or deterministic.

    Parameters
    ----------
    cls
        The class; its subclasses are not meant.
    kind
        "random" or "deterministic".

    Raises
    ------
    ValueError
        If `kind` is another word.

    Examples
    --------
    >>> import random
    >>> import prebake
    >>> class Jitter:
    ...     def __call__(self, value: float) -> float:
    ...         return value + random.random()
    >>> prebake.register(Jitter, "random")
    """
    if kind not in (RANDOM, DETERMINISTIC):
        raise ValueError(f'a class is "random" or "deterministic", not {kind!r}')
    registered[cls] = kind


def is_pure(value: Any) -> bool:
    """Whether its user vouches for a value."""
    if type(value) is Pure:
        return True
    marked = value if type(value) is types.FunctionType else type(value)
    return PURE in getattr(marked, "__dict__", {})
