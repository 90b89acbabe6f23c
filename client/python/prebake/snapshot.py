"""What transforms hold, by identity: a look that is cheap enough for every batch.

Two snapshots of the same objects mean that nothing was assigned in between. A change inside an array, or
deeper than the bounds, is left to the full description, which is made before anything is stored.
"""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Iterable, Sequence
from typing import Any

from prebake import bytecode

#: Objects in a snapshot: transforms hold a few dozen, and each costs some 50 ns at every batch.
OBJECTS_MAX = 512
#: Members of a container that are looked at one by one; larger ones are tables, which nobody edits in place.
MEMBERS_MAX = 64

_CONTAINERS = (list, tuple, dict, set, frozenset)
_LEAVES = (type(None), bool, int, float, complex, str, bytes, types.ModuleType, types.CodeType, type)


def take(roots: Sequence[Any]) -> list[Any]:
    """The objects that transforms reach. It holds them, so that an address is not used again."""
    found: list[Any] = list(roots)
    seen: set[int] = set()
    for value in found:
        if len(found) > OBJECTS_MAX:
            break
        # By its type: an odd object's `__class__` may raise.
        if not issubclass(type(value), _LEAVES) and id(value) not in seen:
            seen.add(id(value))
            found += _referents(value)
    return found


def same(a: list[Any], b: list[Any]) -> bool:
    """Whether two snapshots are of the same objects."""
    return len(a) == len(b) and all(map(_is, a, b))


def _is(a: Any, b: Any) -> bool:
    return a is b


def _referents(value: Any) -> Iterable[Any]:
    if type(value) is types.FunctionType:
        return _of_function(value)
    if type(value) in _CONTAINERS and len(value) > MEMBERS_MAX:
        return ()
    # Fields with and without slots, members, bound arguments: all that the object itself refers to.
    return gc.get_referents(value)


def _of_function(function: types.FunctionType) -> list[Any]:
    space = function.__globals__
    named = [space[name] for name in _globals(function.__code__) if name in space]
    return [
        function.__code__,
        function.__defaults__,
        function.__kwdefaults__,
        *(function.__closure__ or ()),
        *named,
    ]


@functools.lru_cache(maxsize=bytecode.CODES_MAX)
def _globals(code: types.CodeType) -> tuple[str, ...]:
    return tuple(sorted(bytecode.references(code).globals))
