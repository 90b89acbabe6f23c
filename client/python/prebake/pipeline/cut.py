"""Where a pipeline is cut: the steps before are shared, those after run in the job."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from prebake.compute.restart_signals import Moved
from prebake.sources.source import Step


class Cut:
    """The cut of a list of steps. It moves only where the calling thread has made nothing at the last one."""

    def __init__(self, steps: list[Step], position: int) -> None:
        self.steps = steps
        #: How many steps are before it.
        self.position = position
        #: It has to move, and could not while an item was being made.
        self.is_due = False
        #: Until it moves, in whichever way.
        self._token = object()
        self._own = threading.local()

    def is_at_end(self) -> bool:
        """Whether all steps are before it."""
        return self.position == len(self.steps)

    @contextlib.contextmanager
    def may_move(self) -> Iterator[None]:
        """The calling thread begins a request: inside, the cut may move."""
        self._own.may_move = True
        try:
            yield
        finally:
            self._own.may_move = False

    def move(self, position: int) -> bool:
        """Moves it, if the calling thread may; whether it is there now."""
        if position == self.position:
            return True
        if not getattr(self._own, "may_move", False):
            self.is_due = True
            return False
        self.position, self._token = position, object()
        return True

    def token(self) -> object:
        """For `check`: of the cut as it is now."""
        return self._token

    def check(self, token: object) -> None:
        """Raises `Moved` if it was moved since."""
        if token is not self._token:
            raise Moved("the cut was moved")
