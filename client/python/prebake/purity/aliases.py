"""Values that lie in the memory of what they were made from: a view of an argument changes with it, a hit
does not. Nor is a hit what a function holds itself: a table of its module that it returns."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

#: Containers within containers that are looked into, and members of each.
DEPTH_MAX, MEMBERS_MAX = 3, 64
#: Containers of one value in all: this is done for each that is stored.
CONTAINERS_MAX = 256


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


def held_by(function: Callable[..., Any], value: Any) -> str | None:
    """The name by which a function holds what it returned, or the memory of that; None if it does not."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    namespace = function.__globals__
    held = {name: namespace[name] for name in code.co_names if name in namespace}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            held[name] = cell.cell_contents
    arrays = list(_arrays(value, DEPTH_MAX))
    mine = set(map(id, itertools.islice(_containers(value, DEPTH_MAX), CONTAINERS_MAX)))
    for name, each in held.items():
        if any(id(own) in mine for own in itertools.islice(_containers(each, DEPTH_MAX), CONTAINERS_MAX)):
            return name
        if arrays and (any(array is each for array in arrays) or is_view(value, each)):
            return name
    return None


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
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    arrays = [numpy.ndarray] if numpy is not None else []
    arrays += [torch.Tensor] if torch is not None else []
    if isinstance(value, tuple(arrays)):
        yield value
    elif depth and kind in (list, tuple):
        for each in value[:MEMBERS_MAX]:
            yield from _arrays(each, depth - 1)
    elif depth and kind is dict:
        for each in list(value.values())[:MEMBERS_MAX]:
            yield from _arrays(each, depth - 1)


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
