"""Encoding of what is nested more deeply than Python's recursion limit allows, with that limit as it is.

Looking at an object may run its own code, and some of that recurses without end (a `__getattr__` that looks
itself up). Only the recursion limit stops it before the machine's stack is used up, so that it is never
raised. Each thread has a count and a stack of its own: every so many levels another one goes on.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

from prebake.encoding.encoder import Encoder
from prebake.runtime.errors import Code

#: Levels of nesting in one thread, each of some eight frames: a third of what Python allows.
LEVELS = 25
#: Threads that wait for each other. A pipeline is some ten levels deep, a chain of helpers perhaps hundreds.
THREADS_MAX = 100
#: The thread before may hold a lock that an object's own code waits for.
SECONDS_MAX = 60.0


class DeepEncoder(Encoder):
    """Raises `RecursionError` where there are too many levels, or an object's own code recurses."""

    _level = 0

    def value(self, value: Any) -> None:
        self._level += 1
        try:
            if self._level % LEVELS:
                super().value(value)
            else:
                self._further(super().value, value)
        finally:
            self._level -= 1

    def _further(self, write: Callable[[Any], None], value: Any) -> None:
        if self._level > LEVELS * THREADS_MAX:
            raise RecursionError
        raised: list[BaseException] = []

        def run(context: contextvars.Context) -> None:
            try:
                context.run(write, value)
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=run, args=(contextvars.copy_context(),), daemon=True)
        thread.start()
        thread.join(SECONDS_MAX)
        if thread.is_alive():
            raise self.refuse(Code.TOO_LARGE, f"was not looked through in {SECONDS_MAX:g} s")
        if raised:
            raise raised[0]
