"""What all elements of a pipeline are made of beside its description and their inputs: files of code that
ran, variables that were read.

Which those are is found while elements are made. So they are kept as a chain of entries: under the pipeline's
description lies a list of names; what these hold now leads to the next key, and there may be more. The
pipeline's elements are those of the end of the chain. (ccache's manifests.)
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import Any

from prebake.codec import values
from prebake.encoding.encoder import digest
from prebake.identity import graph
from prebake.identity.code import Identity
from prebake.leases.client import Fill, nobody, nothing_ahead
from prebake.runtime.errors import Refused
from prebake.runtime.refusals import not_cached
from prebake.world.executed import CODE, VARIABLE, Reached, Scope, shown

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
        return [
            ("environment", f"[env] {name.removeprefix(VARIABLE)}", shown(name))
            if name.startswith(VARIABLE)
            else ("code", f"{_stored(name).removeprefix(CODE)}, which ran", shown(name))
            for name in self.names
        ]

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
            fill = Fill(self._entry, lambda _: [_stored(name) for name in wanted], 1, culprit=nobody)  # noqa: B023
            found = [_named(name) for name in fill.many([0], nothing_ahead)[0]]
            # Another job may have been first.
            self.names = sorted({*self.names, *found})

    def _entry(self, job: Any) -> Any:
        described = graph.chain([graph.arguments(), graph.named_step("prebake.manifest")])
        collection = job.plan(described)
        if collection.bypass:
            return None
        held = repr(self.held()).encode("utf-8", "surrogatepass") if self.names else b""
        return collection.call("manifest", digest(CONTEXT, self._known + held), [])


def _stored(name: str) -> str:
    """A name as it is kept: what is below the working folder by its path from there."""
    return CODE + name.removeprefix(CODE).removeprefix(_here()) if name.startswith(CODE) else name


def _named(stored: str) -> str:
    return CODE + os.path.join(_here(), stored.removeprefix(CODE)) if stored.startswith(CODE) else stored


def _here() -> str:
    return os.path.join(os.getcwd(), "")
