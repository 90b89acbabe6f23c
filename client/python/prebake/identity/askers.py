"""What code asks the interpreter and the kernel by name: `gc.isenabled()`, `resource.getrlimit(...)`.

What they say counts for the code that asks, and is asked anew before each item, as a setting that is listed
(`ambient.py`) is: a job may switch it between two calls.
"""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable
from typing import Any

#: Compiled modules that hold the state of a process, and which of their functions tell it and do nothing else.
_MODULES = frozenset(
    {"_locale", "_signal", "_tracemalloc", "faulthandler", "gc", "posix", "resource", "sys", "time"}
)
_TELLS = re.compile(r"(sched_)?get|is_?[a-z]|are_|has_|cpu_count|process_cpu_count")
_PLAIN = (type(None), bool, int, float, str, bytes)
#: A program asks some ten at most.
ASKERS_MAX = 256

#: What any description of this process met: what asks, by what it is called.
_named: dict[str, Callable[[], Any]] = {}


def named() -> list[Callable[[], Any]]:
    """What answers for all that was asked by name so far."""
    return list(_named.values())


def count() -> int:
    """How many of them there are: more, once another description was made."""
    return len(_named)


def tells(function: Any) -> bool:
    """Whether it only tells what a process is set to."""
    is_builtin = type(function) is types.BuiltinFunctionType and function.__module__ in _MODULES
    return is_builtin and _TELLS.match(function.__name__) is not None


def asked(function: Any, arguments: tuple[Any, ...]) -> dict[str, str]:
    """What such a one says now, if that and what it is given are plain, under the name of the call."""
    said = _answer(function, arguments) if all(type(each) in _PLAIN for each in arguments) else None
    if said is None:
        return {}
    name = f"{function.__module__}.{function.__name__}({', '.join(map(repr, arguments))})"
    if len(_named) < ASKERS_MAX:
        _named.setdefault(name, functools.partial(_answer, function, arguments))
    return {name: said}


def _answer(function: Any, arguments: tuple[Any, ...]) -> str | None:
    """What is said, if that is plain; or that it fails."""
    try:
        found = function(*arguments)
    except Exception as error:
        return f"raises {type(error).__name__}"
    members = sorted(found, key=repr) if type(found) in (set, frozenset) else found
    of = members if type(members) in (tuple, list) else [members]
    return repr(members) if all(type(each) in _PLAIN for each in of) else None
