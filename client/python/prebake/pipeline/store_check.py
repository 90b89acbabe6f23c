"""Whether what was just made of an item may be stored."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from prebake.pipeline.inputs import Inputs
from prebake.reads import external_inputs
from prebake.reads.checked_reads import check
from prebake.reads.record import Record
from prebake.reads.settled import SETTLED_NS, as_read, stats_since
from prebake.runtime.errors import Code, Refused
from prebake.runtime.refusals import not_cached
from prebake.sources.source import Source

#: So many items in a row read what cannot be followed: it is their own doing. Fewer may be chance: some other
#: thread of the job opened something meanwhile.
UNFOLLOWED_MAX = 16


class StoreCheck:
    """Approves an item if it read what it is known to, as that is now. `described` gives the files that are a
    part of the pipeline's description, and when (nanoseconds since 1970) that was made."""

    def __init__(
        self, source: Source, inputs: Inputs, described: Callable[[], tuple[set[str], int] | None]
    ) -> None:
        self._source = source
        self._inputs = inputs
        self._described = described
        #: Items in a row that read what cannot be followed, and more than they were found to read.
        self._unfollowed = self._further = 0

    def __call__(self, items: Any, i: int, record: Record) -> bool:
        """Whether native item i may be stored; `record` is of its making."""
        declared = self._source.reads(i)
        reads = declared if self._source.floor else self._inputs.of(i)
        if reads is None or declared is not None and declared != reads:
            return False
        if record.incomplete is not None and self._unfollowed < UNFOLLOWED_MAX:
            self._unfollowed += 1
            return False
        try:
            check(record, [*reads, *self._described_files(record)], f"item {i}", declared is not None)
        except Refused as refused:
            if declared is not None or refused.code is not Code.UNDECLARED or self._further >= UNFOLLOWED_MAX:
                raise
            # A file that is new may lead one item to more files than it was found to read.
            self._further += 1
            if self._further == 1:
                not_cached(refused)
            return False
        self._further = self._unfollowed = 0
        if not external_inputs.as_told(items, i, record.facts(), reads):
            return False
        fresh = self._inputs.fresh(i)
        if fresh is None:
            return True
        check(fresh.record, reads, f"item {i}")
        return external_inputs.as_told(items, i, fresh.record.facts(), reads) and as_read(
            fresh.record, stats_since(items, i, fresh.begun_ns), fresh.begun_ns
        )

    def _described_files(self, record: Record) -> list[str]:
        """Files that were read and are a part of the description, as they were when it was made."""
        described = self._described()
        if described is None:
            return []
        files, since = described
        if not files:
            return []
        settled = (path for path, stat in record.stats.items() if stat[4] < since - SETTLED_NS)
        return [path for path in settled if os.path.abspath(path) in files]
