"""How texts become bytes where a codec has none for a character, and who finds codecs by their names:
functions that a job may register, in tables of the interpreter's own to which no name leads.

The collector of garbage knows who holds the functions that are there from the beginning, and so leads to the
tables.
"""

from __future__ import annotations

import codecs
import encodings
import gc
import os
import types
from collections.abc import Callable
from typing import Any

from prebake.runtime import describe


def _tables() -> tuple[dict[str, Any], list[Any]]:
    """Handlers of errors by name, and functions that find codecs; empty in an interpreter that keeps them
    otherwise."""
    handlers, finders = dict[str, Any](), list[Any]()
    for each in gc.get_referrers(codecs.strict_errors, encodings.search_function):
        if type(each) is dict and each.get("strict") is codecs.strict_errors:
            handlers = each
        elif type(each) is list and each[:1] == [encodings.search_function]:
            finders = each
    return handlers, finders


#: Looked for where a job imports Prebake: each look goes through all objects.
_handlers, _finders = _tables()
#: What the interpreter comes with.
_FIRST = {name: each for name, each in _handlers.items() if type(each) is types.BuiltinFunctionType}
#: Tells this process's functions from others that cannot be described either.
_PROCESS = os.urandom(8).hex()


def registered() -> list[tuple[str, Callable[..., Any]]]:
    """What is registered beside what the interpreter comes with; handlers by name."""
    # Before each item: the same functions are compared by where they are.
    if _handlers == _FIRST and len(_finders) < 2:
        return []
    found = [(name, each) for name, each in list(_handlers.items()) if _FIRST.get(name) is not each]
    return found + [("", each) for each in _finders[1:]]


def described() -> list[tuple[str, str]]:
    """The same, each function by what it does: that is its code, and what that holds."""
    return sorted((name, _described(each)) for name, each in registered())


def _described(function: Callable[..., Any]) -> str:
    try:
        return describe.described(function, "it").digest.hex()
    except Exception:
        return f"{_PROCESS} {id(function)}"
