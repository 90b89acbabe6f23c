"""Values that lie in the memory of what they were made from: a view of an argument changes with it, a hit
does not. Nor is a hit what a function holds itself: a table of its module that it returns; nor the array that
a data set keeps its items in."""

from __future__ import annotations

import bisect
import functools
import itertools
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prebake.runtime import packages
from prebake.trial.given import ATOMS

#: Containers within containers that are looked into, and members of each.
DEPTH_MAX, MEMBERS_MAX = 3, 64
#: Containers of one value in all: this is done for each that is stored.
CONTAINERS_MAX = 256
#: Functions whose names are looked at for one; and functions of which the places are kept.
FUNCTIONS_MAX = 64


def is_view(value: Any, given: Any) -> bool:
    """Whether an array or tensor in a value lies in the memory of another one in what was given."""
    theirs = [(own, *_extent(own)) for own in _arrays(given, DEPTH_MAX)]
    if not theirs:
        return False
    for mine in _arrays(value, DEPTH_MAX):
        start, end = _extent(mine)
        if any(mine is not own and start < last and first < end for own, first, last in theirs):
            return True
    return False


class Kept:
    """Memory and containers that a data set and its steps keep: `objects`, of which no address is used again
    for as long as this is asked."""

    def __init__(self, objects: Iterable[Any]) -> None:
        self._arrays = _array_types()
        image = getattr(sys.modules.get("PIL.Image"), "Image", ())
        whole = (list, dict, set, bytearray, *self._arrays, *([image] if isinstance(image, type) else ()))
        kept = {id(each): each for each in objects if issubclass(type(each), whole)}
        self._ids = kept.keys()
        arrays = (each for each in kept.values() if issubclass(type(each), self._arrays))
        extents = sorted(map(_extent, arrays))
        self._starts = [start for start, _ in extents]
        #: Of each and all before it, the last end.
        self._ends = list(itertools.accumulate((end for _, end in extents), max))

    def is_most_of(self, values: list[Any], size: Callable[[Any], int]) -> bool:
        """Whether more of what values hold is kept than was made: `size` tells the bytes of something where
        it is stored. What lies beside something that was made (a mean, names of classes) is little; so are
        numbers beside what is kept."""
        kept, made = list[Any](), list[Any]()
        small, pending = 0, list(values)
        # Of what has many members, the first; of what has more of them in all, it is not known.
        for each in itertools.islice(pending, CONTAINERS_MAX):
            kind = type(each)
            if kind in ATOMS:
                small += len(each) if kind in (str, bytes) else each is not None
            elif id(each) in self._ids or issubclass(kind, self._arrays) and self._has(*_extent(each)):
                kept.append(each)
            elif kind in (list, tuple, dict):
                members = each.values() if kind is dict else each
                pending += itertools.islice(members, MEMBERS_MAX)
                small += max(0, len(each) - MEMBERS_MAX)
            else:
                made.append(each)
        if not kept or len(pending) > CONTAINERS_MAX:
            # As for most: to ask for sizes takes a copy of some.
            return False
        return sum(map(size, kept)) > small + sum(map(size, made))

    def _has(self, start: int, end: int) -> bool:
        before = bisect.bisect_left(self._starts, end)
        return before > 0 and self._ends[before - 1] > start


def held_by(function: Callable[..., Any], value: Any, known: bytes) -> str | None:
    """The name by which a function, or one of the user's that it names, holds what it returned, or the memory
    of that; None if none does. Functions of which the same is `known` name the same."""
    arrays = list(_arrays(value, DEPTH_MAX))
    mine = set(map(id, itertools.islice(_containers(value, DEPTH_MAX), CONTAINERS_MAX)))
    if type(function) is not types.FunctionType or not arrays and not mine:
        return None
    for space, name in _places(function, known):
        each = _value(space, name)
        if any(id(own) in mine for own in itertools.islice(_containers(each, DEPTH_MAX), CONTAINERS_MAX)):
            return name
        if arrays and (any(array is each for array in arrays) or is_view(value, each)):
            return name
    return None


@functools.lru_cache(maxsize=FUNCTIONS_MAX)
def _places(function: types.FunctionType, known: bytes) -> list[tuple[Any, str]]:
    """Where functions may hold something: globals, closures, their attributes, those of what they name."""
    pending, seen, found = [function], {id(function)}, list[tuple[Any, str]]()
    for each in pending:
        code = each.__code__
        names, namespace = {*code.co_names, *code.co_freevars}, each.__globals__
        modules = [vars(value) for name in names if _is_own(value := namespace.get(name), types.ModuleType)]
        cells = dict(zip(code.co_freevars, each.__closure__ or (), strict=True))
        named = [(space, name) for space in (namespace, cells, *modules) for name in names if name in space]
        found += [*((vars(each), name) for name in list(vars(each))), *named]
        for space, name in named:
            value = _value(space, name)
            if _is_own(value, types.FunctionType) and id(value) not in seen and len(pending) < FUNCTIONS_MAX:
                seen.add(id(value))
                pending.append(value)
    return found


def _value(space: Any, name: str) -> Any:
    # Another thread may have taken it away, and a cell may be empty.
    value = space.get(name)
    return getattr(value, "cell_contents", None) if type(value) is types.CellType else value


def _is_own(value: Any, kind: type) -> bool:
    """Whether it is a function or module of the user's own."""
    if type(value) is not kind:
        return False
    module = getattr(value, "__module__" if kind is types.FunctionType else "__name__", None)
    return type(module) is str and packages.owner(module) is None


def _containers(value: Any, depth: int) -> Iterator[Any]:
    """What can be changed in place, in a value and its containers."""
    kind = type(value)
    if kind in (list, dict, set, bytearray):
        yield value
    if depth and kind in (list, tuple, dict):
        members = value.values() if kind is dict else value
        for each in list(itertools.islice(members, MEMBERS_MAX)):
            yield from _containers(each, depth - 1)


def _arrays(value: Any, depth: int) -> Iterator[Any]:
    kind = type(value)
    if isinstance(value, _array_types()):
        yield value
    elif depth and kind in (list, tuple):
        for each in value[:MEMBERS_MAX]:
            yield from _arrays(each, depth - 1)
    elif depth and kind is dict:
        for each in list(value.values())[:MEMBERS_MAX]:
            yield from _arrays(each, depth - 1)


def _array_types() -> tuple[type, ...]:
    """Those of modules that are imported."""
    named = (("numpy", "ndarray"), ("torch", "Tensor"))
    found = (getattr(sys.modules.get(module), name, None) for module, name in named)
    # One that is being imported by another thread has none yet.
    return tuple(each for each in found if isinstance(each, type))


def _extent(array: Any) -> tuple[int, int]:
    """First byte and the one after the last; of what has no address, none."""
    try:
        if hasattr(array, "untyped_storage"):
            first, size = array.data_ptr(), array.element_size()
            steps = [step * size for step in array.stride()]
        else:
            first, size = array.ctypes.data, array.itemsize
            steps = list(array.strides)
        reach = [(length - 1) * step for length, step in zip(array.shape, steps, strict=True)]
        if 0 in array.shape:
            return 0, 0
        return first + sum(min(0, each) for each in reach), first + sum(max(0, each) for each in reach) + size
    except Exception:
        # A tensor of another layout or device shares nothing that a caller writes to in place.
        return 0, 0
