"""cloudpickle: what its tests pickle and load again has the same identity as before, or none; and a function
that was loaded, cached, gives what it gives.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import asked
import cloudpickle
import fresh

import prebake


def prepare() -> None:
    """The tests are of an older release than the one that is installed: names that are gone."""
    if not hasattr(cloudpickle.cloudpickle, "cell_set"):
        cloudpickle.cloudpickle.cell_set = lambda cell, value: setattr(cell, "cell_contents", value)


def patch(module: Any) -> None:
    """Patches the function by which a module of tests pickles and loads."""
    through_pickle = getattr(module, "pickle_depickle", None)
    if through_pickle is None:
        return

    def pickle_depickle(obj: Any, *args: Any, **kwargs: Any) -> Any:
        # Before it is loaded: loading a class anew puts other functions into the one that is there.
        before = asked.identity(obj, _refusal) if asked.on else None
        loaded = through_pickle(obj, *args, **kwargs)
        return loaded if before is None else _checked(obj, before, loaded)

    module.pickle_depickle = pickle_depickle


class Differs(AssertionError):
    """The identity of what was loaded is another one."""


def _checked(obj: Any, before: Any, loaded: Any) -> Any:
    if not before == asked.identity(loaded, _refusal):
        raise Differs(f"{obj!r:.200}: another identity once it was pickled and loaded")
    if isinstance(loaded, types.FunctionType):
        fresh.goes_through(loaded, cloudpickle)
    if asked.wrapped and isinstance(loaded, types.FunctionType):
        return functools.wraps(loaded)(fresh.cached(loaded))
    return loaded


def _refusal(refused: Any) -> BaseException:
    return prebake.Refused(refused.code, refused.reason)
