"""How long a torch loader waits for its workers (`timeout=`), and what is done so that none waits too long.

A probe takes as long as the job's imports, twice. A worker whose loader gives up earlier goes on without the
cache, while a thread waits for the probe.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from prebake.runtime.errors import Code, Refused

#: Of the time that a loader waits for a batch: the rest is for the batch.
SHARE = 0.25

#: By process: as it was told, or found.
_seconds: dict[int, float | None] = {}


def seconds() -> float | None:
    """For how long this worker may wait for what makes no batch; None if its loader is patient."""
    pid = os.getpid()
    if pid not in _seconds:
        _seconds[pid] = _found()
    return _seconds[pid]


def reduced(make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """For `__reduce__` of a data set: a loader that spawns its workers pickles it, and they see none of its
    frames."""
    found = _found()
    return (make, arguments) if found is None else (_told, (found, make, arguments))


def _told(found: float, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    _seconds[os.getpid()] = found
    return make(*arguments)


def _found() -> float | None:
    """Of the loader that is beginning its workers: in a forked one its frames are still there."""
    frame = sys._getframe(1)
    while frame is not None:
        of = frame.f_locals.get("self") if frame.f_code.co_name == "__init__" else None
        if "MultiProcessingDataLoaderIter" in type(of).__name__:
            timeout = getattr(of, "_timeout", 0)
            return timeout * SHARE if timeout else None
        frame = frame.f_back  # type: ignore[assignment]
    return None


class Pending(BaseException):
    """A probe goes on, and its loader cannot wait for it. No error of the user's."""

    def __init__(self, thread: threading.Thread) -> None:
        super().__init__("a probe goes on")
        self.thread = thread


class _Probe:
    """A probe in a thread of its own; it is given its items, since no data set is called from two threads."""

    def __init__(self, find: Callable[[Callable[[int], Any]], Any], loaded: dict[int, Any]) -> None:
        self._find = find
        self._loaded = loaded
        self._outcome: Any = None
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="prebake probe", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._outcome = self._find(self._loaded.__getitem__)
        except BaseException as error:
            self._error = error

    def outcome(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._outcome


_probes: dict[bytes, _Probe] = {}


def within(
    limit: float,
    key: bytes,
    find: Callable[[Callable[[int], Any]], Any],
    load: Callable[[int], Any],
    items: Sequence[int],
) -> Any:
    """What `find` finds with items that were loaded, if it does within a time. Raises `Pending` if not: asked
    again, it is what was found meanwhile."""
    probe, begun = _probes.get(key), time.monotonic()
    if probe is None:
        loaded: dict[int, Any] = {}
        for i in items:
            loaded[i] = load(i)
            if time.monotonic() - begun > limit:
                raise Refused(Code.TOO_LARGE, "a probe's items take longer to load than the loader waits")
        probe = _probes[key] = _Probe(find, loaded)
        probe.thread.join(max(0.0, limit - (time.monotonic() - begun)))
    if probe.thread.is_alive():
        raise Pending(probe.thread)
    del _probes[key]
    return probe.outcome()
