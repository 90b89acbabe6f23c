"""Whether code that ran may count by its file."""

from __future__ import annotations

import inspect
import os
import types
from typing import Any

from prebake.execution.reached import Reached
from prebake.runtime import store_clients
from prebake.runtime.describe import described
from prebake.runtime.errors import Code, Refused
from prebake.world import user_sources

_VARYING = (Code.RANDOM, Code.CLOCK, Code.NETWORK, Code.CARRIES_STATE)


def varies(code: types.CodeType, space: dict[str, Any]) -> str:
    """Why code that ran may yield another value each time, as far as the code tells; empty if it may not. It
    was given what it asks for: a seed, if it asks for one."""
    if not code.co_flags & inspect.CO_NEWLOCALS:
        # The body of a module or a class.
        return ""
    closure = tuple(types.CellType() for _ in code.co_freevars)
    function = types.FunctionType(code, space, closure=closure)
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    try:
        with store_clients.own():
            described(function, code.co_qualname, arguments=dict.fromkeys(named, 0), has_run=True)
    except Refused as refused:
        if refused.code in _VARYING:
            return f"{refused.reason}, in code that nothing names"
    return ""


def is_as_loaded(code: types.CodeType, file: str) -> bool:
    """Whether a file still is what a code object was made of: older than this process, or with the same code
    in it."""
    try:
        if user_sources.is_settled(file):
            return True
        with store_clients.own(), open(file, "rb") as source:
            compiled = compile(source.read(), file, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        return False
    reached = Reached()
    reached.add(compiled)
    return not code.co_filename.endswith(os.path.basename(file)) or code in reached.codes()
