"""This process's connection to the daemon.

Made at first use, dropped at fork, tried again some seconds after a loss. `PREBAKE=off` turns everything off,
and where there is no native module (no Linux) the result is the same: no connection, so everything is
computed here.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections import OrderedDict
from typing import Any

from prebake.runtime.errors import printable, warn_once
from prebake.runtime.here import HERE

#: A lost daemon is looked for again this often: seldom enough to cost nothing, often enough to profit from a
#: restart.
RETRY_SECONDS = 5.0
#: One that is there and does not answer keeps the job waiting each time: it is asked after four times as long
#: each time, at most this.
RETRY_SECONDS_MAX = 300.0
#: A daemon that answers does so in a thousandth of this.
SLOW_SECONDS = 1.0

#: Errors about one request; the connection is as good as before. Every other code means that the daemon is of
#: no use now.
REQUEST_CODES = frozenset({"bad-graph", "exhausted", "invalid", "no-resources", "too-large"})


#: Functions that a process calls in turn, and the worlds that it does so in: of each the text of its graph is
#: kept, some kilobytes.
COLLECTIONS_MAX = 64


class Connection:
    """A native job and the process it belongs to."""

    def __init__(self, job: Any) -> None:
        self.job = job
        self.pid = os.getpid()
        #: The daemon is gone, or of no use any more.
        self.lost = False
        self._collections: OrderedDict[str, Any] = OrderedDict()

    def plan_once(self, graph_json: str) -> Any:
        """The collection of a graph that is asked for again and again. While nothing is in it the daemon is
        asked each time: others may add something."""
        found = self._collections.get(graph_json)
        if found is None:
            found = self.job.plan(graph_json)
            if found.entries:
                self._collections[graph_json] = found
                if len(self._collections) > COLLECTIONS_MAX:
                    self._collections.popitem(last=False)
        return found


_lock = threading.Lock()
_current: Connection | None = None
_retry_at = 0.0
#: How often in turn it did not answer.
_silences = 0
_autostart = os.environ.get("PREBAKE_AUTOSTART", "1") != "0"
#: Handles of the parent process. Never dropped: their destructors would use the parent's sockets and locks.
_inherited: list[Any] = []


def off() -> bool:
    """Whether the user turned Prebake off, as it was when first asked."""
    return os.environ.get("PREBAKE", "").lower() in ("off", "0", "no", "false")


@functools.cache
def native() -> Any:
    """The native module, or None where there is none or it is turned off."""
    if off():
        return None
    try:
        from prebake import _native
    except ImportError:
        return None
    return _native


def keep_inherited(handle: Any) -> None:
    """Keeps a parent's native handle from being destroyed in this forked child."""
    if handle is not None:
        _inherited.append(handle)


def current() -> Connection | None:
    """The connection that was made last, if it was not given up."""
    return _current


def connection() -> Connection | None:
    """The connection of this process, made if need be; None while there is none to be had."""
    current = _current
    if current is not None and current.pid == os.getpid():
        return current
    return _connect()


def _connect() -> Connection | None:
    global _current, _autostart, _silences
    module = native()
    if module is None or time.monotonic() < _retry_at:
        return None
    if _current is not None and _current.pid != os.getpid():
        # Forked by something that does not run Python's fork handlers.
        _after_fork()
    with _lock:
        # Another thread may have asked meanwhile, and have waited for nothing.
        if _current is not None or time.monotonic() < _retry_at:
            return _current
        binary = os.path.join(HERE, "bin", "prebaked")
        if "PREBAKE_DAEMON" not in os.environ and os.path.exists(binary):
            os.environ["PREBAKE_DAEMON"] = binary
        begun = time.monotonic()
        try:
            _current = Connection(module.connect(None, _name(), _autostart))
            _silences = 0
        except module.Error as error:
            _silences += time.monotonic() - begun >= SLOW_SECONDS
            _retry_later()
            _warn(error)
        # A daemon that was there and went away was stopped by someone: it is not started again behind their
        # back.
        _autostart = False
        return _current


def failed(error: Exception) -> None:
    """Takes note of a native error: warns once; drops the connection unless only a request was at fault."""
    global _current
    code = getattr(error, "code", "internal")
    if code in REQUEST_CODES:
        warn_once(f"request {code}", f"not cached: {error}")
        return
    if _current is not None:
        _current.lost = True
    _current = None
    _retry_later()
    _warn(error)


def _retry_later() -> None:
    global _retry_at
    pause = RETRY_SECONDS * 4**_silences
    _retry_at = time.monotonic() + min(pause, RETRY_SECONDS_MAX)


def refused(code: str, reason: str, location: str = "") -> None:
    """Tells the daemon, if there is one, of something that is not cached."""
    current = _current
    if current is not None and current.pid == os.getpid():
        # Names of files may hold what is no text.
        current.job.refused(code, reason.encode("utf-8", "backslashreplace").decode(), location)


def _warn(error: Exception) -> None:
    warn_once("daemon", f"no cache, computing locally: {error}")


def _name() -> str:
    script = sys.argv[0] if sys.argv else ""
    return printable(os.path.basename(script)) or "python"


def _before_fork() -> None:
    # Python warns of forks in a process with threads, and a warning may be an error.
    if _current is not None and _current.pid == os.getpid():
        module = native()
        if module is not None:
            module.before_fork()


def _after_fork() -> None:
    global _current, _lock
    _lock = threading.Lock()
    if _current is not None:
        keep_inherited(_current)
        _current = None
        native_module = native()
        if native_module is not None:
            native_module.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
