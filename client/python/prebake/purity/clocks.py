"""Clocks that are read to be told of: how long a step took, in a log.

What goes to a log and nowhere else is no part of a value. A reading that is returned, kept, compared or
handed to anything else may be, and refuses.
"""

from __future__ import annotations

import logging
import types
from typing import TYPE_CHECKING

from prebake.bytecode import instructions
from prebake.bytecode.symbols import Attribute, Call, Const, Name, sources
from prebake.runtime.errors import Code
from prebake.runtime.words import words
from prebake.world.frame_names import READERS

if TYPE_CHECKING:
    from prebake.encoding.encoder import Encoder
    from prebake.purity.call_scan import CallScan

#: Readings of clocks, by their names in the table of calls.
READINGS = words(
    "time.time time.time_ns time.perf_counter time.perf_counter_ns time.monotonic time.monotonic_ns "
    "time.process_time time.process_time_ns time.thread_time time.thread_time_ns timeit.default_timer "
    "datetime.datetime.now datetime.datetime.utcnow"
)
#: Methods of loggers.
_LOGS = words("debug info warning error exception critical")
#: What works out a number or a text from one.
_WORKED_OUT = words("builtins.round builtins.str builtins.int builtins.float builtins.abs")
#: By these names what is told comes back.
_SINKS = words(
    "redirect_stdout redirect_stderr addHandler stdout stderr setLogRecordFactory addFilter LogRecord"
)
#: Calls behind each other that are followed.
STEPS_MAX = 8


def is_only_told(scan: CallScan, call: Call, steps: int = STEPS_MAX) -> bool:
    """Whether what a call returns goes to a log and nowhere else."""
    if call.escapes or not steps or READERS & instructions.references(scan.function.__code__).names:
        return False
    if not all(each is call or _is_reading(scan, each) for each in call.beside):
        # An operator of the user's own may keep it.
        return False
    return all(
        _tells(scan, each) or _works_out(scan, each) and is_only_told(scan, each, steps - 1)
        for each in call.told_to
    )


def _is_reading(scan: CallScan, call: Call) -> bool:
    return isinstance(call.callee, Name) and scan.canonical(call.callee) in READINGS


def _tells(scan: CallScan, call: Call) -> bool:
    """Whether a call tells a person, and its result is thrown away."""
    if call.kept or call.escapes or call.told_to or call.consumers:
        return False
    callee, is_told = call.callee, False
    if isinstance(callee, Name):
        value, rest = scan.walk(callee)
        if scan.canonical(callee) == "builtins.print":
            is_told = "file" not in call.keywords
        elif type(value) is types.FunctionType:
            is_told = value.__module__ == "logging" and value.__name__ in _LOGS
        else:
            is_told = type(value) is logging.Logger and len(rest) == 1 and rest[0] in _LOGS
    elif isinstance(callee, Attribute) and callee.name in _LOGS:
        maker = callee.of.callee if isinstance(callee.of, Call) else None
        is_told = isinstance(maker, Name) and scan.canonical(maker) == "logging.getLogger"
        is_told = is_told or scan.seeds.is_own_logger(callee.of)
    scan.encoder.callers.tells |= is_told and not scan.encoder.trusted
    return is_told


def _works_out(scan: CallScan, call: Call) -> bool:
    callee, args = call.callee, call.args or ()
    if call.args is None or call.keywords:
        return False
    if isinstance(callee, Attribute):
        if callee.name == "format":
            return isinstance(callee.of, Const) and type(callee.of.value) is str
        return callee.name == "total_seconds" and bool(sources(callee.of)) and not args
    others = [each for each in args[1:] if not isinstance(each, Const)]
    named = isinstance(callee, Name) and scan.canonical(callee) in _WORKED_OUT
    return named and bool(args) and bool(sources(args[0])) and not others


def settle(encoder: Encoder) -> None:
    """Refuses clocks where code may take back what is told."""
    if encoder.callers.tells and (back := _SINKS & encoder.asked.names):
        raise encoder.refuse(Code.CLOCK, f"tells of a clock, and uses {min(back)}, which may take it back")
