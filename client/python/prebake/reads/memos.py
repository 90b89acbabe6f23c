"""What functions that keep what they returned (`functools.lru_cache`) give back: it was read before."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from prebake.reads.record import Record
from prebake.reads.recorder import recorders


@contextlib.contextmanager
def followed(functions: Sequence[Any], record: Record) -> Iterator[None]:
    """Has a record say that it is incomplete where such a function gives back what it kept before. Of one
    that had kept nothing all is of this record, unless another thread called it meanwhile."""
    before = [each.cache_info() for each in functions]
    active, begun = recorders()
    yield
    alone = active <= 1 and recorders()[1] == begun
    for function, start in zip(functions, before, strict=True):
        if function.cache_info().hits != start.hits and not (alone and not start.currsize):
            record.incomplete = record.incomplete or "a cached function of its gives back what it kept"
