"""What code asks by name of how a process is set: `gc.isenabled()`, `multiprocessing.get_start_method()`.

What that says counts for the code that asks, and is asked anew before each item, as a setting that is listed
(`ambient.py`) is: a job may switch it between two calls. It is known by its name: what gets something that
can be set (`get_x` beside `set_x`), and what tells of the interpreter and the kernel.
"""

from __future__ import annotations

import functools
import re
import sys
import types
from collections.abc import Callable
from typing import Any

#: Compiled modules that hold the state of a process, and which of their functions only tell it.
_MODULES = frozenset(
    {"_locale", "_signal", "_tracemalloc", "faulthandler", "gc", "posix", "resource", "sys", "time"}
)
_TELLS = re.compile(r"(sched_)?get|is_?[a-z]|are_|has_|cpu_count|process_cpu_count")
#: Generators' states are compared around each item, and who watches a call sets the others.
_OTHERS = ("state", "profile", "trace")
_CALLED = (types.BuiltinFunctionType, types.FunctionType, types.MethodType)
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


def tells(function: Any, dotted: str) -> bool:
    """Whether a function of Python's own, or of a package, only tells what something is set to."""
    if type(function) not in _CALLED or not dotted:
        return False
    module, _, name = dotted.rpartition(".")
    if name.endswith(_OTHERS):
        return False
    if name.startswith("get") and f"set{name[3:]}" in getattr(sys.modules.get(module), "__dict__", ()):
        return True
    is_of_process = type(function) is types.BuiltinFunctionType and function.__module__ in _MODULES
    return is_of_process and _TELLS.match(function.__name__) is not None


def asked(function: Any, dotted: str, arguments: tuple[Any, ...]) -> dict[str, str]:
    """What such a one says now, if that and what it is given are plain, under the name of the call."""
    said = _answer(function, arguments) if all(type(each) in _PLAIN for each in arguments) else None
    if said is None:
        return {}
    name = f"{dotted}({', '.join(map(repr, arguments))})"
    if len(_named) < ASKERS_MAX:
        _named.setdefault(name, functools.partial(_answer, function, arguments))
    return {name: said}


def _answer(function: Any, arguments: tuple[Any, ...]) -> str | None:
    """What is said, if that is plain; or that it fails."""
    try:
        found = function(*arguments)
    except Exception as error:
        return f"raises {type(error).__name__}"
    if type(found) in (set, frozenset, dict):
        found = sorted(found.items() if type(found) is dict else found, key=repr)
    return repr(found) if _is_plain(found) else None


def _is_plain(value: Any) -> bool:
    return type(value) in _PLAIN or type(value) in (tuple, list) and all(map(_is_plain, value))
