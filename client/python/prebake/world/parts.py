"""Digests of what a world is made of: texts, files, folders."""

from __future__ import annotations

import contextlib
import hashlib
import os

#: Bytes of a digest of one part: enough to tell two apart by chance, few enough to keep hundreds.
PART_BYTES = 8
#: A file that is opened while a process is set up; a larger one is known by its size and time.
CONTENT_BYTES_MAX = 1 << 16
#: Names in a folder that is listed while a process is set up; a larger one is known by its size and time.
LISTED_MAX = 1024


def digest(data: bytes) -> str:
    """Of some bytes."""
    return hashlib.blake2b(data, digest_size=PART_BYTES).hexdigest()


def text_digest(*values: object) -> str:
    """Of values that tell all by their `repr`."""
    return digest(repr(values).encode("utf-8", "surrogatepass"))


def folder() -> str:
    """The working folder; empty if it is gone."""
    with contextlib.suppress(OSError):
        return os.getcwd()
    return ""


def listed_digest(path: str) -> str:
    """A folder by the names in it; a large one by its size and time, which each name that comes or goes
    changes: to list a million files takes a second, for which a first batch would wait."""
    from prebake._native import listed

    return listed(path, LISTED_MAX) or stat_digest(path)


def content_digest(file: str) -> str:
    """A small file by what it holds, a large one by its size and time."""
    with contextlib.suppress(OSError):
        if os.stat(file).st_size <= CONTENT_BYTES_MAX:
            with open(file, "rb", buffering=0) as data:
                return digest(data.read(CONTENT_BYTES_MAX))
    return stat_digest(file)


def stat_digest(file: str) -> str:
    """A file by its size and time; of one inside an archive, the archive's."""
    while file:
        try:
            found = os.stat(file)
            return text_digest(found.st_size, found.st_mtime_ns)
        except OSError:
            outer = os.path.dirname(file)
            file = outer if outer != file else ""
    return ""
