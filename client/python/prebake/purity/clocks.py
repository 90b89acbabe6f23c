"""Clocks that are read to be told of: how long a step took, in a log.

What goes to a log and nowhere else is no part of a value. A reading that is returned, kept, compared or
handed to anything else may be, and refuses.
"""

from __future__ import annotations

import logging
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prebake import namespaces, packages
from prebake.calls import words
from prebake.errors import Code
from prebake.symbols import Attribute, Call, Const, Name

if TYPE_CHECKING:
    from prebake.encoder import Encoder
    from prebake.scan import Scan

#: Readings of clocks, by their names in the table of calls.
READINGS = words(
    "time.time time.time_ns time.perf_counter time.perf_counter_ns time.monotonic time.monotonic_ns "
    "time.process_time time.process_time_ns time.thread_time time.thread_time_ns timeit.default_timer "
    "datetime.datetime.now datetime.datetime.utcnow"
)
#: Methods of loggers.
_LOGS = words("debug info warning error exception critical")
#: What works out a number or a text, of which the same holds.
_WORKED_OUT = words(
    "builtins.round builtins.str builtins.int builtins.float builtins.format builtins.abs builtins.max "
    "builtins.min"
)
_WORKS_OUT = words("format total_seconds")
#: Calls behind each other that are followed.
STEPS_MAX = 8


def is_only_told(scan: Scan, call: Call, steps: int = STEPS_MAX) -> bool:
    """Whether what a call returns goes to a log and nowhere else."""
    if call.escapes or not steps:
        return False
    return all(
        _tells(scan, each) or _works_out(scan, each) and is_only_told(scan, each, steps - 1)
        for each in call.told_to
    )


def _tells(scan: Scan, call: Call) -> bool:
    callee = call.callee
    if isinstance(callee, Name):
        if scan.canonical(callee) == "builtins.print" and "file" not in call.keywords:
            return True
        value, rest = scan.walk(callee)
        if type(value) is types.FunctionType:
            return value.__module__ == "logging" and value.__name__ in _LOGS
        if issubclass(type(value), logging.Logger):
            return len(rest) == 1 and rest[0] in _LOGS
        name = rest[-1] if rest else ""
    else:
        name = callee.name if isinstance(callee, Attribute) else ""
    if name in _LOGS:
        scan.encoder.callers.told.setdefault(name, scan.name)
    return name in _LOGS


def _works_out(scan: Scan, call: Call) -> bool:
    callee = call.callee
    if isinstance(callee, Attribute):
        is_text = isinstance(callee.of, Const) and type(callee.of.value) is str
        return callee.name in _WORKS_OUT and (is_text or callee.name != "format")
    return isinstance(callee, Name) and scan.canonical(callee) in _WORKED_OUT


def settle(encoder: Encoder) -> None:
    """Refuses what was taken for a logger's method where the user has one of that name."""
    told = encoder.callers.told
    if not told:
        return
    for name in told.keys() & set(_own_names(encoder)):
        raise encoder.refuse(Code.CLOCK, f"uses a clock in {told[name]}, and hands it to {name}()")


def _own_names(encoder: Encoder) -> Iterator[str]:
    """Names of what classes, objects and functions of the user's hold."""
    for held in encoder.namespaces:
        yield from namespaces.fields(held.value)
    for each in encoder.numbered():
        if type(each) is types.FunctionType:
            yield from _nested(each.__code__)
        elif issubclass(type(each), type):
            yield from vars(each) if packages.owner(each.__module__) is None else ()
        elif packages.owner(type(each).__module__) is None:
            yield from getattr(each, "__dict__", ())


def _nested(code: types.CodeType) -> Iterator[str]:
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield each.co_name
            yield from _nested(each)
