"""The first elements of a stream, made in a probe: whether it is what it seems to be."""

from __future__ import annotations

import math
import os
import time
from typing import Any

from prebake.codec import values
from prebake.identity.code import Identity
from prebake.memo.probe_cache import verdict
from prebake.probe.analysis import Verdict
from prebake.reads import tracked_inputs
from prebake.runtime.errors import Code, Refused
from prebake.streams.stream import Stream

#: Elements that a probe takes from the beginning, in two runs; and in further ones, if that takes no longer
#: than so many seconds of CPU time, and of any: one may be made in another way than those before it.
PROBED, FURTHER, FURTHER_SECONDS, FURTHER_WALL_SECONDS = (3, 6), (16, 64), 0.25, 1.0


def prove(stream: Stream, known: Identity) -> None:
    """Raises `Refused` unless a stream that is `known` yields the same in two other processes."""
    count = len(PROBED)
    further = range(count, count + len(FURTHER))
    found, _ = verdict([known], _itself, [FirstElements(stream)], (), count, further)
    _accept(found, {os.path.realpath(path) for path in stream.inputs})


def _accept(found: Verdict, declared: set[str]) -> None:
    if found.deterministic_until < 1:
        raise Refused(found.code or Code.OPAQUE, found.reason)
    if found.listed:
        raise Refused(Code.UNDECLARED, f"it lists the folder {found.listed[0]}")
    unseen = [path for path in found.unhooked if os.path.realpath(path) not in declared]
    if unseen:
        raise Refused(Code.UNDECLARED, f"compiled code reads {unseen[0]}; name the files with inputs=")
    if not found.reads_proven and not found.unhooked:
        raise Refused(Code.UNDECLARED, f"what it reads cannot be known: {found.reason}")


def _itself(i: int) -> int:
    return i


class FirstElements:
    """A step that makes the first elements of a stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        #: What it is called where a fault of its is told.
        self.__qualname__ = "its first elements"

    def __prebake_token__(self) -> Any:
        # Whether running it changes it.
        return self._stream.roots()

    def __call__(self, i: int) -> Any:
        if i >= len(PROBED):
            return self._first(FURTHER[i - len(PROBED)], {}, FURTHER_SECONDS, FURTHER_WALL_SECONDS)
        plain = self._first(PROBED[i], {})
        lists = self._stream.lists()
        tracked = {name: tracked_inputs.Tracked(items, lambda i: None) for name, items in lists.items()}
        if tracked and self._first(PROBED[i], tracked) != plain == self._first(PROBED[i], {}):
            raise ValueError("it yields something else where its lists are of another class")
        return plain

    def _first(
        self, count: int, lists: dict[str, Any], cpu_seconds: float = math.inf, seconds: float = math.inf
    ) -> list[Any]:
        found: list[Any] = []
        cpu, until = time.thread_time() + cpu_seconds, time.monotonic() + seconds
        with self._stream.given(lists):
            live = self._stream.begin(lists)
            for value in live:
                layout, parts = values.encode(value)
                found.append([layout, b"".join(parts)])
                if len(found) == count:
                    break
                if time.thread_time() > cpu or time.monotonic() > until:
                    raise TimeoutError("its elements are not cheap")
        return found
