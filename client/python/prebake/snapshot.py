"""What transforms hold, by identity: a look that is cheap enough for every batch.

While it holds, nothing was assigned since it was taken. A change inside an array or a long table, or deeper
than the bounds, is left to the full description, which is made before anything is stored.
"""

from __future__ import annotations

import functools
import gc
import itertools
import operator
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from prebake import bytecode
from prebake._job import native

#: Objects in a snapshot: transforms hold a few dozen, and each costs some 50 ns at every batch.
OBJECTS_MAX = 512
#: Members of a container that are looked at one by one; larger ones are tables, which nobody edits in place.
MEMBERS_MAX = 64

_CONTAINERS = (list, tuple, dict, set, frozenset)
_LEAVES = (type(None), bool, int, float, complex, str, bytes, types.ModuleType, types.CodeType, type)


class Snapshot:
    """The objects that transforms reach. It holds them, so that an address is not used again."""

    __slots__ = ("_lengths", "_referents", "_roots", "_spaces", "_tables", "_values", "_walked", "reached")

    def __init__(self, roots: Sequence[Any]) -> None:
        self._roots = list(roots)
        #: Objects whose references are looked at, and those one after the other.
        self._walked: list[Any] = []
        self._referents: list[Any] = []
        #: Where the globals of functions are looked up, and what is there.
        self._spaces: list[tuple[Callable[..., Any], tuple[str, ...]]] = []
        self._values: list[Any] = []
        #: Containers that are not looked into, and how long they are.
        self._tables: list[Any] = []
        #: All that was met.
        self.reached: list[Any] = list(roots)
        seen: set[int] = set()
        for value in self.reached:
            if len(self.reached) > OBJECTS_MAX:
                break
            # By its type: an odd object's `__class__` may raise.
            if not issubclass(type(value), _LEAVES) and id(value) not in seen:
                seen.add(id(value))
                self.reached += self._walk(value)
        self._lengths = list(map(len, self._tables))

    def _walk(self, value: Any) -> Iterable[Any]:
        if type(value) in _CONTAINERS and len(value) > MEMBERS_MAX:
            self._tables.append(value)
            return ()
        # Fields with and without slots, members, bound arguments: all that the object itself refers to.
        referents = gc.get_referents(value)
        self._walked.append(value)
        self._referents += referents
        if type(value) is not types.FunctionType:
            return referents
        # Not all that is in its module.
        space, names = value.__globals__, _globals(value.__code__)
        self._spaces.append((space.get, names))
        named = [space.get(name, _ABSENT) for name in names]
        self._values += named
        held = (value.__code__, value.__defaults__, value.__kwdefaults__, *(value.__closure__ or ()))
        return [*held, *named]

    def holds(self, roots: list[Any]) -> bool:
        """Whether the same roots reach the same objects now."""
        # One call for all: a look at each by itself would cost ten times as much.
        same = _identical()
        return (
            same(roots, self._roots)
            and same(gc.get_referents(*self._walked), self._referents)
            and same(self._named(), self._values)
            and list(map(len, self._tables)) == self._lengths
        )

    def _named(self) -> list[Any]:
        named: list[Any] = []
        for get, names in self._spaces:
            named += map(get, names, itertools.repeat(_ABSENT))
        return named


#: What a module has under a name that is builtin, or nowhere.
_ABSENT = object()


def same(a: list[Any], b: list[Any]) -> bool:
    """Whether two lists are of the same objects."""
    return len(a) == len(b) and all(map(operator.is_, a, b))


@functools.cache
def _identical() -> Callable[[list[Any], list[Any]], bool]:
    module = native()
    return same if module is None else module.identical


@functools.lru_cache(maxsize=bytecode.CODES_MAX)
def _globals(code: types.CodeType) -> tuple[str, ...]:
    return tuple(sorted(bytecode.references(code).globals))
