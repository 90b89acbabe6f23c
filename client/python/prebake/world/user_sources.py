"""Source files of the user's own, as they were when they were first asked for."""

from __future__ import annotations

import os
import time

from prebake.world.parts import digest, stat_digest

#: A source file of the user's own; a larger one is known by its size and time.
SOURCE_BYTES_MAX = 4 << 20
#: When this module was imported: what was written before cannot have been imported in another form since.
_BEGUN_NS = time.time_ns()
#: Clocks of file systems are this coarse.
_CLOCK_NS = 50_000_000


def is_settled(file: str) -> bool:
    """Whether a file was last changed before this process can have imported it. Raises `OSError`."""
    found = os.stat(file)
    return max(found.st_mtime_ns, found.st_ctime_ns) < _BEGUN_NS - _CLOCK_NS


def source(file: str) -> str:
    """A file by its content as it was when it was first asked for, which is when it was imported or later."""
    known = _sources.get(file)
    if known is None:
        known = _sources[file] = _read(file)
    return known


_sources: dict[str, str] = {}
#: What they said.
_texts: dict[str, bytes] = {}


def _read(file: str) -> str:
    try:
        with open(file, "rb", buffering=0) as source:
            size = os.fstat(source.fileno()).st_size
            # Not into a buffer of the largest size: memory that is fresh takes longer than reading.
            if size < SOURCE_BYTES_MAX and len(data := source.read(size + 1)) == size:
                _texts[file] = data
                return digest(data)
    except OSError:
        # Gone since, or inside an archive: the archive tells.
        pass
    return stat_digest(file)


def is_known(file: str) -> bool:
    """Whether a file was asked for."""
    return file in _sources


def texts() -> list[bytes]:
    """What all those said that were."""
    return list(_texts.values())


def text(file: str) -> bytes:
    """What a file of the user's own said when it was first asked for, if it could be read."""
    return _texts.get(file, b"")
