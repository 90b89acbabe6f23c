"""Folders and files that are taken away from under the daemon."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Iterator

from daemon import FaultDaemon
from fault import Fault


@contextlib.contextmanager
def removed(what: str, daemon: FaultDaemon) -> Iterator[None]:
    """A folder is removed, and stays so."""
    shutil.rmtree(daemon.cache / what)
    yield


@contextlib.contextmanager
def replaced(daemon: FaultDaemon) -> Iterator[None]:
    """The cache folder is removed and another daemon is started over it; then the first one ends."""
    first = daemon.process
    assert first is not None, "it was started"
    shutil.rmtree(daemon.cache)
    daemon.start()
    try:
        yield
    finally:
        first.terminate()
        first.wait()


@contextlib.contextmanager
def cut(keep: float, daemon: FaultDaemon) -> Iterator[None]:
    """Segment files lose their ends."""
    for path in daemon.files():
        os.truncate(path, int(path.stat().st_size * keep))
    yield


def faults() -> list[Fault]:
    """All of them. A folder that is removed is there again after a restart, and not before."""
    return [
        Fault("cache folder removed", functools.partial(removed, ""), restart=True),
        Fault("cache folder removed, with a new daemon", replaced, silent=True),
        Fault("segments folder removed", functools.partial(removed, "segments"), restart=True),
        Fault(
            "segments folder removed, cold", functools.partial(removed, "segments"), restart=True, cold=True
        ),
        Fault("segments cut to nothing", functools.partial(cut, 0.0), cold=True, quick=True),
        Fault("segments cut by some bytes", functools.partial(cut, 0.999), cold=True),
        # What the daemon holds in memory is right whatever the files say: it need not notice.
        Fault("segments cut while in memory", functools.partial(cut, 0.5), silent=True),
    ]
