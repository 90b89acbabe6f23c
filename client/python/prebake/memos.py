"""What functions that keep what they returned (`functools.lru_cache`) give back, and what that was made of.

A value that is given back was read by an earlier call. Where all that a function keeps was made in calls that
were recorded, what they read is known, and the call that is given it reads that too.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from prebake.reads import recorders
from prebake.record import Record

#: How often each had to call its function by the end of the last call that was recorded, and what those calls
#: read.
_made_of: weakref.WeakKeyDictionary[Any, tuple[int, Record]] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def followed(functions: Sequence[Any], record: Record) -> Iterator[None]:
    """Adds to a record what such functions give back while it is made."""
    before = [each.cache_info() for each in functions]
    active, begun = recorders()
    yield
    alone = active <= 1 and recorders()[1] == begun
    for function, start in zip(functions, before, strict=True):
        end = function.cache_info()
        misses, known = _made_of.get(function, (0, Record()))
        # A cleared one begins anew.
        known = known if start.currsize else Record()
        # What another thread's call makes meanwhile is of reads in its own record.
        is_known = alone and (not start.currsize or start.misses == misses)
        if end.hits != start.hits:
            if is_known:
                record.merge(known)
                record.keep(known.stats)
            else:
                record.incomplete = record.incomplete or "a cached function of its gives back what it kept"
        if is_known:
            if end.misses != start.misses:
                known.merge(record)
            _made_of[function] = (end.misses, known)
