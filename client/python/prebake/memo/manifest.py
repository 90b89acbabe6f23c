"""What all elements of a pipeline are made of beside its description and their inputs: files of code that
ran, variables that were read, files that are kept.

Which those are is found while elements are made. So they are kept as a chain of entries: under the pipeline's
description lies a list of names; what these hold now leads to the next key, and there may be more. The
pipeline's elements are those of the end of the chain. (ccache's manifests.)
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prebake.codec import values
from prebake.encoding.digests import content, digest
from prebake.execution.ran_names import CODE, VARIABLE, shown
from prebake.execution.reached import Reached
from prebake.execution.scope import Scope
from prebake.identity import graph
from prebake.identity.code import Identity
from prebake.leases.client import found_once
from prebake.memo.kept_files import BYTES_MAX, FILES_MAX, KEPT
from prebake.reads.record import stat_of
from prebake.runtime.errors import Refused
from prebake.runtime.refusals import not_cached

#: How a field stands among the names that items are loaded without: see `lazy_fields`.
OPENED = "open:"
#: Lists under one description. Each is longer than the one before.
LISTS_MAX = 16

CONTEXT = "prebake 2026 manifest v1"


class Manifest:
    """Of one pipeline, as far as it is known; `names` are as `Scope.names` tells them."""

    def __init__(self, known: Sequence[Identity]) -> None:
        #: What the description is made of.
        self._reached = Reached()
        for each in known:
            self._reached.update(each.reached)
        self._known = hashlib.blake2b(b"".join(each.digest for each in known), digest_size=32).digest()
        self.names: list[str] = []

    def held(self) -> list[tuple[str, str, str]]:
        """Kind, name and what it holds now, of each name."""
        return list(map(_told, self.names))

    def kept(self) -> list[str]:
        """Files that the steps keep."""
        return [name.removeprefix(KEPT) for name in self.names if name.startswith(KEPT)]

    def opened(self) -> dict[str, str]:
        """Fields of the data set that items are loaded without, and how they were before use."""
        pairs = (name.removeprefix(OPENED).split(" ", 1) for name in self.names if name.startswith(OPENED))
        return {name: kind for kind, name in pairs}

    def follow(self, job: Any) -> None:
        """Takes what is known of it in the daemon."""
        for _ in range(LISTS_MAX):
            items = self._entry(job)
            if items is None or not items.locate([0]):
                return
            found = items.stored(0)
            if found is None:
                return
            stored, layout = found
            try:
                names = [_named(name) for name in values.decode(layout, stored)]
            except Refused as error:
                not_cached(error)
                return
            if set(names) <= set(self.names):
                return
            self.names = sorted({*self.names, *names})

    def beyond(self, scope: Scope) -> list[str]:
        """Names of what ran or was read in a scope, and is no part of the description or the manifest."""
        return [name for name in scope.names(self._reached) if name not in self.names]

    def add(self, names: Iterable[str]) -> None:
        """Has names known to all jobs from now on."""
        new = set(names)
        for _ in range(LISTS_MAX):
            new -= set(self.names)
            if not new:
                return
            wanted = sorted({*self.names, *new})
            stored = found_once(self._entry, lambda: [_stored(name) for name in wanted])  # noqa: B023
            found = [_named(name) for name in stored]
            # Another job may have been first.
            self.names = sorted({*self.names, *found})

    def _entry(self, job: Any) -> Any:
        described = graph.chain([graph.arguments(), graph.named_step("prebake.manifest")])
        collection = job.plan(described)
        if collection.bypass:
            return None
        held = repr(self.held()).encode("utf-8", "surrogatepass") if self.names else b""
        return collection.call("manifest", digest(CONTEXT, self._known + held), [])


def opened_names(fields: Mapping[str, str]) -> list[str]:
    """As fields stand among the names, with how they were before use."""
    return [f"{OPENED}{kind} {name}" for name, kind in fields.items()]


def _told(name: str) -> tuple[str, str, str]:
    """Of which kind a name is, how it is called where it is explained, and what it holds now."""
    if name.startswith(OPENED):
        return "code", f"field {name.removeprefix(OPENED)}", "opened at use"
    kind, path = _parted(_stored(name))
    if kind == CODE:
        return "code", f"{path}, which ran", shown(name)
    if kind == KEPT:
        held = _content(name.removeprefix(KEPT))
        return "environment", f"[file] {path}", "absent" if held is None else held.hex()
    return "environment", f"[env] {name.removeprefix(VARIABLE)}", shown(name)


def _content(path: str) -> bytes | None:
    """What a file holds; of one that is too large to be kept, nothing."""
    stat = stat_of(path)
    return None if stat is None or stat[2] > BYTES_MAX else _content_of(path, stat)


@functools.lru_cache(maxsize=FILES_MAX)
def _content_of(path: str, stat: tuple[int, ...]) -> bytes | None:
    return content(path)


def _stored(name: str) -> str:
    """A name as it is kept: what is below the working folder by its path from there."""
    kind, path = _parted(name)
    return kind + path.removeprefix(_here()) if kind else name


def _named(stored: str) -> str:
    kind, path = _parted(stored)
    return kind + os.path.join(_here(), path) if kind else stored


def _parted(name: str) -> tuple[str, str]:
    """What stands before a file's path, and the path; nothing before any other name."""
    kind = next((each for each in (CODE, KEPT) if name.startswith(each)), "")
    return kind, name.removeprefix(kind)


def _here() -> str:
    return os.path.join(os.getcwd(), "")
