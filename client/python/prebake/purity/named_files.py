"""Files that a function is given by name: each counts as one that it reads. A package may have read it for an
earlier call and kept what it held (a font, a table of metadata), and then nothing is opened."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import types
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any

#: Values that are looked at, containers and what they hold: more are a data set rather than a call's.
LOOKED_AT_MAX = 256
#: Of a name, Linux's `PATH_MAX`: a longer text is none.
NAME_MAX = 4_096
#: Of a variable that is not set yet.
_EMPTY = types.CellType()


def named_files(values: Iterable[Any]) -> list[str]:
    """Those that are there, in the order in which they stand in values: texts, paths, and what collections,
    objects, partials, methods and closures hold."""
    found: dict[str, None] = {}
    pending, left = list(values)[::-1], LOOKED_AT_MAX
    while pending and left:
        value, left = pending.pop(), left - 1
        # Another thread may change what is gone through, and an odd path raise anything: no job fails of it.
        with contextlib.suppress(Exception):
            if issubclass(type(value), (str, bytes, PurePath)):
                found.update(dict.fromkeys(_file(value)))
            else:
                pending += list(itertools.islice(_held(value), left))[::-1]
    return list(found)


def _held(value: Any) -> Iterable[Any]:
    # By what Python's own types do: what a user's class makes of its members may load or count something.
    for kind in (list, tuple, set, frozenset):
        if issubclass(type(value), kind):
            return kind.__iter__(value)
    if issubclass(type(value), dict):
        return dict.values(value)
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, types.MethodType):
        return [value.__self__]
    if isinstance(value, types.FunctionType):
        return [cell.cell_contents for cell in value.__closure__ or () if cell != _EMPTY]
    try:
        # Past what the user's class makes of it, which may be anything.
        members = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return ()
    # A class or a module holds more than what a call is given.
    return members.values() if type(members) is dict and not isinstance(value, types.ModuleType) else ()


def _file(value: str | bytes | PurePath) -> Iterator[str]:
    name = os.fsdecode(value)
    if 0 < len(name) <= NAME_MAX and os.path.isfile(name):
        yield name
