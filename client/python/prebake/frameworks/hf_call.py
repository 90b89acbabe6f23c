"""One call of `Dataset.map` on a chunk of rows: what of its arguments matters, and what it was called for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: What a chunk that was made calls itself. One of which the function returned None is as it was.
CHUNK = "chunk"
#: Arguments of `Dataset.map` that say how the work is done, not what comes out.
EXECUTION_ONLY = frozenset(
    [
        "cache_file_name",
        "desc",
        "function",
        "keep_in_memory",
        "load_from_cache_file",
        "new_fingerprint",
        "num_proc",
        "self",
        "suffix_template",
    ]
)

Arguments = dict[str, Any]


def moved(function: Callable[..., Any], place: int, offset: int, *args: Any, **kwargs: Any) -> Any:
    """Calls a function with the indices at `place` of its arguments counted from `offset`."""
    indices = args[place]
    counted = [i + offset for i in indices] if isinstance(indices, list) else indices + offset
    return function(*args[:place], counted, *args[place + 1 :], **kwargs)


class NotByChunk(Exception):
    """The function returned None or no rows, so that one chunk does not tell what the whole looks like."""


class ForItsEffects(Exception):
    """The function was called on all rows, and returned None."""


def is_made(mapped: Any) -> bool:
    """Whether rows that were mapped are what the function returned."""
    return mapped._fingerprint == CHUNK
