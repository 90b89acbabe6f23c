"""Which transforms are random: those the user marks, and those of well-known packages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from prebake import packages

#: Words in the names of installed transforms that draw random numbers. A missed one would be frozen in the
#: cache, a wrong one is only computed again.
RANDOM_WORDS = ("Random", "Jitter", "AutoAugment", "AugMix", "TrivialAugment", "Elastic", "Gaussian", "Mix")


class Random:
    """A transform marked as random: it and all after it run in the job, every time. Calls pass through."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __reduce__(self) -> Any:
        # Under a decorator the function's own name stands for the mark, as pickle sees it.
        name = getattr(self.function, "__qualname__", "")
        module = getattr(self.function, "__module__", None)
        if name and packages.resolve(module or "", name) is self:
            return name
        return (Random, (self.function,))


def random(function: Callable[..., Any]) -> Random:
    """Marks a transform as random, in a list of transforms or as a decorator.

    Everything before the first random transform is shared; it and everything after it runs in the job with
    the job's own random numbers.
    """
    return function if isinstance(function, Random) else Random(function)


def is_random(transform: Any) -> bool:
    """Whether a transform is marked as random or is known to be."""
    if isinstance(transform, Random):
        return True
    cls = type(transform)
    installed = packages.owner(cls.__module__)
    return (
        installed is not None
        and installed is not packages.PYTHON
        and any(word in cls.__qualname__ for word in RANDOM_WORDS)
    )
