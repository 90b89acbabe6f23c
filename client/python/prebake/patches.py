"""What was set in installed code at run time: its version does not tell.

A distribution's version says what its modules and classes hold when they are imported. A job may set a
constant of a module, replace a method of a class, or put an object of its own in the place of either.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import TYPE_CHECKING, Any

from prebake import packages

if TYPE_CHECKING:
    from prebake.encoder import Encoder

#: Members of a table in an installed module that is compared by what it holds.
MEMBERS_MAX = 1000
_SCALARS = (bool, int, float, complex, str, bytes, type(None))


def is_own(value: Any) -> bool:
    """Whether something is the user's own, wherever it stands."""
    if isinstance(value, types.FunctionType):
        return _is_own_module(value.__globals__.get("__name__"))
    if isinstance(value, types.MethodType):
        return is_own(value.__func__) or is_own(value.__self__)
    if isinstance(value, (functools.partial, functools.partialmethod)):
        return is_own(value.func)
    if isinstance(value, (staticmethod, classmethod)):
        return is_own(value.__func__)
    if isinstance(value, property):
        return any(is_own(each) for each in (value.fget, value.fset) if each is not None)
    if isinstance(value, types.ModuleType):
        return False
    cls = value if isinstance(value, type) else type(value)
    return _is_own_module(getattr(cls, "__module__", None))


def _is_own_module(name: Any) -> bool:
    """Whether a module is the user's. Generated code names modules that are none, or have no file."""
    if not isinstance(name, str) or name not in sys.modules or packages.owner(name) is not None:
        return False
    return name in packages.SCRIPTS or getattr(sys.modules[name], "__file__", None) is not None


def counts(value: Any) -> bool:
    """Whether a value in an installed module is known by itself: the user's own, a number or text, or a plain
    table of such.
    """
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind in (list, tuple, set, frozenset, dict):
        members = (
            [*value, *(value.values() if kind is dict else ())] if len(value) <= MEMBERS_MAX else [value]
        )
        return all(type(each) in _SCALARS for each in members)
    return is_own(value)


def write(encoder: Encoder, cls: type) -> None:
    """Writes what may have been set in an installed class and those that it extends, once for each."""
    for each in cls.__mro__:
        if id(each) in encoder.looked_at or not each.__flags__ & (1 << 9):
            continue
        encoder.looked_at[id(each)] = each
        for name, value in sorted(vars(each).items()):
            special = name.startswith("_")
            if type(value) in _SCALARS and not special or is_own(value):
                encoder.text("set", each.__qualname__, name)
                encoder.member(f".{name}", value)
