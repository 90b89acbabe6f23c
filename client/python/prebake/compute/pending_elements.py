"""Elements that were made and are not handed over yet, in memory that is used again: to take its pages from
the system anew for each element costs five times the copy.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any

#: Of one thread that computes: some fifty images. When it is full, what was made is handed over.
MEMORY_BYTES = 8 << 20

#: Memory that no thread uses now; one is kept for the next.
_spare: list[mmap.mmap] = []


class PendingElements:
    """Copies of elements' parts, until they are let go of all at once."""

    def __init__(self) -> None:
        try:
            self._memory = _spare.pop()
        except IndexError:
            # Pages that are never used are never taken; a fork's child has its own.
            self._memory = mmap.mmap(-1, MEMORY_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._used = 0
        #: Whether the next element may have no room.
        self.is_full = False

    def keep(self, parts: Sequence[Any]) -> list[memoryview | bytes]:
        """Copies of parts, each side by side: what they lie in may be changed from now on."""
        return [self._copy(part) for part in parts]

    def clear(self) -> None:
        """Lets go of all copies. Whoever holds one must not read it any more."""
        self._used, self.is_full = 0, False

    def close(self) -> None:
        """Leaves the memory to the next."""
        if not _spare:
            _spare.append(self._memory)

    def _copy(self, part: Any) -> memoryview | bytes:
        given = memoryview(part)
        start, end = self._used, self._used + given.nbytes
        if end > MEMORY_BYTES:
            self.is_full = True
        if end > MEMORY_BYTES or not given.c_contiguous or not given.nbytes:
            return bytes(given)
        copy = memoryview(self._memory)[start:end]
        copy[:] = given.cast("B")
        self._used = end
        return copy
