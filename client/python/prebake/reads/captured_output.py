"""What a program captures of what its code says, to be read as any other value: output, warnings, and records
of handlers (`contextlib.redirect_stdout`, `warnings.catch_warnings(record=True)`, `logging`)."""

from __future__ import annotations

import collections
import io
import sys
import warnings
from typing import Any

from prebake.runtime.errors import PrebakeWarning

#: What handlers keep records in.
_CONTAINERS = (list, dict, set, collections.deque)


class Captured:
    """Where something is captured now, and how much."""

    def __init__(self) -> None:
        warned: Any = getattr(getattr(warnings, "_showwarnmsg_impl", None), "__self__", None)
        self._warned: list[Any] = warned if type(warned) is list else []
        self._warnings = len(self._warned)
        self._sizes = _sizes()

    def has_more(self) -> bool:
        """Whether something was captured since. Neither what Prebake warns of, nor what is warned of when an
        object is freed, is what code says."""
        more = self._warned[self._warnings :]
        return _sizes() != self._sizes or any(
            not issubclass(each.category, (PrebakeWarning, ResourceWarning)) for each in more
        )


def _sizes() -> list[int]:
    buffers: list[Any] = [each for each in (sys.stdout, sys.stderr) if issubclass(type(each), io.StringIO)]
    return [*map(_size, buffers), *(_size(space.get(name)) for space, name in _kept_by_handlers())]


def _size(held: Any) -> int:
    if issubclass(type(held), io.StringIO):
        try:
            return io.StringIO.tell(held)
        except ValueError:
            # It is closed.
            return 0
    return len(held) if issubclass(type(held), _CONTAINERS) else 0


#: Handlers there were, and where each keeps records: most programs make all handlers at once.
_handlers: tuple[list[Any], list[tuple[dict[str, Any], str]]] = ([], [])


def _kept_by_handlers() -> list[tuple[dict[str, Any], str]]:
    global _handlers
    # Weak references to all handlers: no public function of `logging` tells those of all loggers.
    now: list[Any] = getattr(sys.modules.get("logging"), "_handlerList", [])
    if now != _handlers[0]:
        spaces = [vars(handler) for handler in (each() for each in now) if handler is not None]
        _handlers = (
            list(now),
            [(space, name) for space in spaces for name in list(space) if _is_kept(name, space[name])],
        )
    return _handlers[1]


def _is_kept(name: str, value: Any) -> bool:
    return name != "filters" and issubclass(type(value), (*_CONTAINERS, io.StringIO))
