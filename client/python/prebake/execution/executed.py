"""Code that ran and variables that were read while an element was made, beside what its description reached.

A description follows names. Code that is reached by a name in data (a class in a pickle, a plug-in in a
registry, a hook that installed code calls) has none. But it starts, and each code object that starts is
seen: from Python 3.12 on by `sys.monitoring`, once each; before that by `sys.setprofile`, in the first
elements of a pipeline or function and in some later ones. The file that it is from then counts like a file
that was opened.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from prebake.execution import active_scopes
from prebake.execution.monitoring_watcher import MonitoringWatcher
from prebake.execution.profile_watcher import ProfileWatcher
from prebake.execution.scope import Scope

_watcher: MonitoringWatcher | ProfileWatcher = (
    MonitoringWatcher() if sys.version_info >= (3, 12) else ProfileWatcher()
)


def begin(scope: Scope) -> Any:
    """Watches the calling thread's element, until `end` of what this returns."""
    entered = active_scopes.enter(scope)
    return entered, _watcher.begin(scope)


def end(scope: Scope, begun: Any) -> None:
    """Ends it. What ran counts for the scope around too."""
    entered, watched = begun
    _watcher.end(scope, watched)
    outer = active_scopes.leave(entered)
    if outer is not None:
        outer.merge(scope)
    scope.elements += 1


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    """What runs inside in the calling thread belongs to no element."""
    entered = active_scopes.enter(None)
    try:
        yield
    finally:
        active_scopes.leave(entered)
