"""cloudpickle: what its tests pickle and load again has the same identity as before, or none; and a function
that was loaded, cached, gives what it gives.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import asked
import fresh

import prebake


def prepare() -> None:
    """Nothing: the tests have one function of their own that all go through."""


def patch(module: Any) -> None:
    """Patches the function by which a module of tests pickles and loads."""
    through_pickle = getattr(module, "pickle_depickle", None)
    if through_pickle is None:
        return

    def pickle_depickle(obj: Any, *args: Any, **kwargs: Any) -> Any:
        loaded = through_pickle(obj, *args, **kwargs)
        return _checked(obj, loaded) if asked.on else loaded

    module.pickle_depickle = pickle_depickle


class Differs(AssertionError):
    """The identity of what was loaded is another one."""


def _checked(obj: Any, loaded: Any) -> Any:
    before, after = (asked.identity(each, _refusal) for each in (obj, loaded))
    if not before == after:
        raise Differs(f"{obj!r:.200}: another identity once it was pickled and loaded")
    if asked.wrapped and isinstance(loaded, types.FunctionType):
        return functools.wraps(loaded)(fresh.cached(loaded))
    return loaded


def _refusal(refused: Any) -> BaseException:
    return prebake.Refused(refused.code, refused.reason)
