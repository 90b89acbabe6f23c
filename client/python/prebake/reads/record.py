"""What was seen of one computation: what it opened, listed and looked at."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import tempfile
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from prebake.execution.ran_names import shown
from prebake.execution.reached import Reached
from prebake.execution.scope import Scope
from prebake.reads import stat_observations
from prebake.reads.temporary import Temporary

#: Distinct paths in one record. An item reads a few files; one that walks a data set is no longer one item's.
PATHS_MAX = 65_536
#: Files of which it is remembered what they held, beside when they were written: so large, and so many of one
#: call.
CONTENT_BYTES_MAX, CONTENTS_MAX = 1 << 20, 16


def stat_of(path: str) -> tuple[int, int, int, int, int] | None:
    """What tells that a file is as it was; None if it is not there."""
    with contextlib.suppress(OSError):
        stat = os.stat(path)
        return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
    return None


def content_of(path: str, stat: tuple[int, ...] | None) -> bytes | None:
    """A digest of what a small file holds; None if it is no file, or large, or not as it was."""
    if stat is None or stat[2] > CONTENT_BYTES_MAX or not os.path.isfile(path):
        return None
    with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
        found = hashlib.blake2b(file.read(CONTENT_BYTES_MAX), digest_size=32).digest()
        return found if stat_of(path) == stat else None
    return None


def contents_of(stats: Mapping[str, tuple[int, ...] | None]) -> dict[str, bytes]:
    """The same of a few files, by path."""
    all_ = ((path, content_of(path, stat)) for path, stat in stats.items())
    return dict(itertools.islice(((path, found) for path, found in all_ if found is not None), CONTENTS_MAX))


@functools.cache
def _passing() -> tuple[str, ...]:
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    found = {tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev", "/proc", "/sys", caches}
    return tuple(os.path.join(os.path.abspath(each), "") for each in found)


def lasting(paths: Iterable[str]) -> list[str]:
    """Those outside of temporary folders and caches."""
    # A job may well run in a temporary folder.
    here = os.path.join(os.getcwd(), "")
    return [path for path in paths if path.startswith(here) or not path.startswith(_passing())]


class Record:
    """What was seen of one computation. All paths are absolute, in the order in which they were met.

    A path in `reads` may lead to nothing: that nothing was there is then what was read. `incomplete` says why
    there may be more than was seen; `network` and `process` name what was talked to and what was run.
    """

    def __init__(self, incomplete: str | None = None) -> None:
        self.reads: dict[str, None] = {}
        #: (device, inode, size, mtime_ns, ctime_ns) of each when it was opened first; not of what is missing.
        self.stats: dict[str, tuple[int, int, int, int, int]] = {}
        #: Of these, what an earlier call read and kept: it may have been written to since.
        self.kept: dict[str, tuple[int, int, int, int, int]] = {}
        #: Folders that were listed, and what they held.
        self.listed: dict[str, str | None] = {}
        #: Of these, those whose entries may have told more than their names.
        self.scanned: dict[str, None] = {}
        #: What was looked at: how much was asked for, and what it showed.
        self.looks: dict[str, tuple[str, str | None]] = {}
        #: Of these, what installed packages looked at themselves.
        self.by_packages: set[str] = set()
        #: Objects of a store by URL, as they were got: their tags; None if there was none, or two.
        self.objects: dict[str, str | None] = {}
        #: Code that ran and variables that were read, and what each held.
        self.ran_on: dict[str, str] = {}
        self.network: str | None = None
        self.process: str | None = None
        self.incomplete = incomplete
        #: Whether threads that do not record themselves work for it.
        self.background = False
        #: Whether libraries draw random bytes meanwhile that its value does not depend on.
        self.draws_apart = False
        #: Whether it said something that the program captures.
        self.is_captured = False
        #: The threads that were there when it began, by number.
        self.there: dict[int, threading.Thread] = {}
        #: Whether it is over. What tasks of it do later, is not known to be of anything.
        self.closed = False
        #: Files that it made itself: what it reads there is its own.
        self._made: set[str] = set()
        #: Of these, what has a name that is another each time; and one that the value holds.
        self.temporary = Temporary()
        self.named: str | None = None
        #: Files and folders that it wrote, made, moved or removed.
        self.written: dict[str, None] = {}
        #: Files that it may have written to, and what each was before.
        self.updated: dict[str, tuple[int, int, int, int, int] | None] = {}
        #: Those that were there before it, of what it moved or removed.
        self.removed: dict[str, None] = {}

    def merge(self, other: Record) -> None:
        """Takes over what a computation inside this one did."""
        for name in ("reads", "listed", "scanned", "written", "removed", "ran_on"):
            getattr(self, name).update(getattr(other, name))
        # As it was when it was opened first: what was read then may still be in use.
        self.stats = {**other.stats, **self.stats}
        self.updated = {**other.updated, **self.updated}
        for url, tag in other.objects.items():
            self.got(url, tag)
        for path, (depth, saw) in other.looks.items():
            self.look(path, depth, saw)
        self._made |= other._made
        self.temporary.merge(other.temporary)
        self.by_packages |= other.by_packages
        self.draws_apart |= other.draws_apart
        for name in ("network", "process", "incomplete", "named"):
            setattr(self, name, getattr(self, name) or getattr(other, name))

    def keep(self, stats: Mapping[str, tuple[int, int, int, int, int]]) -> None:
        """Notes files that an earlier call read, as they were then."""
        self.reads.update(dict.fromkeys(stats))
        self.stats = {**stats, **self.stats}
        self.kept.update(stats)

    def is_current(self) -> bool:
        """Whether what was kept of files is what they hold."""
        return all(stat_of(path) == stat for path, stat in self.kept.items())

    def read(self, path: str) -> None:
        # The hook runs before the file is opened, so that this is no newer than what is read.
        if path not in self.reads:
            self.read_as(path, stat_of(path))

    def read_as(self, path: str, stat: tuple[int, int, int, int, int] | None) -> None:
        """Notes a file as it was when it was opened; None if it was not there."""
        if self._is_own(path):
            return
        if path in self.reads:
            # It may be told later of who opened it first.
            if self.stats.get(path) != stat:
                self.incomplete = self.incomplete or f"{path} was changed while it was read"
            return
        self._add(self.reads, path)
        if stat is not None:
            self.stats[path] = stat

    def got(self, url: str, tag: str | None) -> None:
        """Notes an object of a store."""
        self.objects[url] = tag if self.objects.get(url, tag) == tag else None

    def ran(self, scope: Scope, reached: Reached) -> None:
        """Takes note of code that ran and variables that were read, but for those that are a part of its
        description."""
        for name in scope.names_beside_world(reached):
            self.ran_on[name] = shown(name)
        self.incomplete = self.incomplete or scope.unseen or None

    def look(self, path: str, depth: str, shown: str | None = None) -> None:
        known = self.looks.get(path)
        if self._is_own(path) or known is not None and stat_observations.deeper(known[0], depth) == known[0]:
            return
        if len(self.looks) < PATHS_MAX:
            self.looks[path] = depth, stat_observations.Look(depth, path).shows() if shown is None else shown
        else:
            self.incomplete = self.incomplete or f"it looks at more than {PATHS_MAX} files"

    def look_as(self, path: str, stat: tuple[int, int, int, int, int] | None) -> None:
        """Notes that something was looked at a moment ago, as it was then; None if nothing was there. Of a
        folder only that it is one is asked, of a file how large it is."""
        if stat is None:
            self.look(path, stat_observations.KIND, stat_observations.ABSENT)
        elif os.path.isdir(path):
            self.look(path, stat_observations.KIND)
        elif stat_of(path) == stat:
            self.look(path, stat_observations.SIZE)
        elif not self._is_own(path):
            self.incomplete = self.incomplete or f"{path} was changed since it was looked at"

    def files(self) -> list[str]:
        """The files that were there when they were opened."""
        return [path for path in self.reads if path in self.stats]

    def facts(self) -> dict[str, str | None]:
        """What was seen beside their content, by name: objects of a store, and what looks showed. A file that
        was to be opened and not there was looked for."""
        seen: dict[str, tuple[str, str | None]] = {
            path: (stat_observations.KIND, stat_observations.ABSENT)
            for path in self.reads
            if path not in self.stats
        }
        facts: dict[str, str | None] = {**self.objects, **self.ran_on}
        if not seen and not self.looks:
            return facts
        return {**stat_observations.beside({**seen, **self.looks}, self.stats), **facts}

    def listings(self) -> dict[str, str | None]:
        """What the folders that were listed held, by name."""
        return {
            stat_observations.Look(stat_observations.NAMES, path).text: held
            for path, held in self.listed.items()
        }

    def made(self, path: str) -> None:
        self._made.add(path)

    def _is_own(self, path: str) -> bool:
        return path in self._made or bool(self.temporary) and self.temporary.holds(path)

    def gave(self, value: Any) -> Any:
        """Notes what was made, and returns it."""
        if self.temporary:
            try:
                self.named = self.named or self.temporary.named_in(value)
            except Exception as error:
                why = f"the name of a temporary file may be in its value: {error}"
                self.incomplete = self.incomplete or why
        return value

    def wrote(self, path: str) -> None:
        self._add(self.written, path)

    def may_write(self, path: str, stat: tuple[int, int, int, int, int] | None) -> None:
        """Notes a file that was opened to read and to write, as it was then."""
        if not self._is_own(path) and len(self.updated) < PATHS_MAX:
            self.updated.setdefault(path, stat)

    def removes(self, path: str) -> None:
        """Notes a file or folder that is about to be removed or given another name."""
        if not self._is_own(path) and path not in self.written and os.path.lexists(path):
            self._add(self.removed, path)

    def effects(self) -> list[str]:
        """What it left behind, or took away, that a hit would not: files outside of temporary folders and
        caches."""
        changed = [path for path, stat in self.updated.items() if stat_of(path) != stat]
        left = [path for path in lasting([*self.written, *changed]) if os.path.lexists(path)]
        return left + [path for path in lasting(self.removed) if not os.path.lexists(path)]

    def folder(self, path: str) -> None:
        if self._is_own(path) or path in self.listed:
            return
        if len(self.listed) < PATHS_MAX:
            self.listed[path] = stat_observations.listing(path)
        else:
            self.incomplete = self.incomplete or f"it lists more than {PATHS_MAX} folders"

    def _add(self, paths: dict[str, None], path: str) -> None:
        if len(paths) < PATHS_MAX:
            paths[path] = None
        else:
            self.incomplete = self.incomplete or f"it opens more than {PATHS_MAX} files"
