"""Files whose content is a part of a description: whether each is still the one that was read for it."""

from __future__ import annotations

import os
from collections.abc import Iterable

from prebake.reads.record import stat_of
from prebake.reads.settled import SETTLED_NS

#: Files that are looked at before each request, at about a microsecond each. More of them are a table of data
#: sets, and looked at where an epoch begins.
FILES_MAX = 64


class HeldFiles:
    """Files as they lie after a description was made that was begun at `begun_ns`, nanoseconds since 1970."""

    def __init__(self, paths: Iterable[str], begun_ns: int) -> None:
        files = list(paths)
        stats = {os.path.abspath(path): stat_of(path) for path in files if len(files) <= FILES_MAX}
        #: Invariant: what lies here as it does now was read for the description. A file that was written to
        #: just before, or since, may have been read as it was before: nothing tells.
        self._tells = all(
            stat is None or max(stat[3], stat[4]) < begun_ns - SETTLED_NS for stat in stats.values()
        )
        self._stats = stats

    def hold(self) -> bool:
        """Whether each is as it was; without a look where there are too many."""
        return self._tells and all(stat_of(path) == stat for path, stat in self._stats.items())
