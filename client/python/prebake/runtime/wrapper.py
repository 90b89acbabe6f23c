"""What `cached` makes of a function: called and looked at like it, and pickled with it."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from prebake.runtime import packages


class Wrapper:
    """Stands in a function's place. A function of Python's own pickles by its name alone, under which
    `cached(f)` is not found."""

    # What a callable object holds is shown too, and is not to hide these.
    __slots__ = ("__dict__", "__weakref__", "_call", "_made")

    def __init__(
        self,
        call: Callable[..., Any],
        make: Callable[..., Any],
        function: Any,
        inputs: Sequence[str | Path],
    ) -> None:
        """`call` is what calling it does; `make` makes it of the function and its inputs."""
        functools.update_wrapper(self, function)
        self._call = call
        self._made = make, (function, list(inputs))

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<cached {self._made[1][0]!r}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        # By its name where it is a decorator, as functions are. Of a script cloudpickle sends functions by
        # value, as there is another in the other process.
        names = (getattr(self, each, None) for each in ("__module__", "__qualname__"))
        module, name = (each if isinstance(each, str) else "" for each in names)
        sent = module in packages.SCRIPTS and _is_cloudpickle(sys._getframe(1))
        if name and not sent and packages.resolve(module, name) is self:
            return name
        return self._made

    def __prebake_token__(self) -> Any:
        return self._made[1]


def _is_cloudpickle(frame: types.FrameType) -> bool:
    # Ray and joblib have one of their own.
    return "cloudpickle" in str(frame.f_globals.get("__name__")).split(".")
