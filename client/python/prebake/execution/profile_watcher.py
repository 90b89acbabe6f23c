"""Watches code until Python 3.11: by a profile function of the thread that makes an element, and of those it
starts.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

from prebake.execution.active_scopes import READ_VARIABLE, failed, read_variable, see
from prebake.execution.scope import Scope

#: What a profile costs for each call that it hears of, and for each other event (returns, calls of builtins).
CALL_SECONDS, EVENT_SECONDS = 0.5e-6, 0.15e-6
#: Which part of the time that Python code takes while a profile is set is the profile's: Python 3.11 then
#: takes the slow path at each instruction (measured over loops of arithmetic: 0.41 to 0.44).
SLOWED_SHARE = 0.45
#: Calls that one element's profile hears of: a loop calls the same functions again, and each costs 0.5 us.
CALLS_MAX = 100_000


class ProfileWatcher:
    """Sees each code object whenever it starts, in elements that are due."""

    def begin(self, scope: Scope) -> Any:
        before = sys.getprofile()
        if before is not None and not isinstance(getattr(before, "__self__", None), _Calls):
            scope.unseen = scope.unseen or "another profiler is at work"
            return None
        if not scope.is_due():
            return None
        threads, calls = threading.getprofile(), _Calls(scope.is_weighed())
        threading.setprofile(calls.heard)
        sys.setprofile(calls.own)
        return before, threads, calls, time.perf_counter()

    def end(self, scope: Scope, begun: Any) -> None:
        if begun is None:
            return
        before, threads, calls, since = begun
        if scope.is_weighed():
            element = time.perf_counter() - since
            scope.cost(calls.seconds(element), element)
        if not calls.is_over and sys.getprofile() != calls.own:
            # Whoever took its place keeps it.
            scope.unseen = scope.unseen or "another profiler is at work"
        else:
            sys.setprofile(before)
        threading.setprofile(threads)  # type: ignore[arg-type]


class _Calls:
    """The calls of one element."""

    def __init__(self, is_weighed: bool) -> None:
        """`is_weighed` if it counts what it takes to hear of them."""
        self._is_weighed = is_weighed
        self.left = CALLS_MAX
        self.is_over = False
        self._others = 0
        #: Seconds in compiled code that Python called, and without the profile: neither is slowed by it. And
        #: since when compiled code runs.
        self._native = 0.0
        self._native_since = 0.0

    @property
    def own(self) -> Callable[[types.FrameType, str, Any], None]:
        """The profile of the thread that makes the element; of those that it starts, `heard` is."""
        return self._weighed if self._is_weighed else self.heard

    def seconds(self, element: float) -> float:
        """About what it took to hear of them, of the seconds that the element took."""
        hearing = (CALLS_MAX - self.left) * CALL_SECONDS + self._others * EVENT_SECONDS
        return hearing + SLOWED_SHARE * max(0.0, element - hearing - self._native)

    def unheard(self, seconds: float) -> None:
        """Takes note of so much time without the profile."""
        self._native += seconds

    def heard(self, frame: types.FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        try:
            if frame.f_code is READ_VARIABLE:
                read_variable(frame)
            else:
                see(frame.f_code, frame)
        except Exception as error:
            # It would be raised in the code that starts.
            try:  # noqa: SIM105
                failed(error)
            except Exception:
                # An interpreter that ends has lost much already, also what suppresses errors.
                pass
        self.left -= 1
        if self.left < 0:
            self.is_over = True
            sys.setprofile(None)

    def _weighed(self, frame: types.FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            self._others += 1
            self._native_since = time.perf_counter()
            return
        if self._native_since:
            self._native += time.perf_counter() - self._native_since
            self._native_since = 0.0
        if event == "call":
            self.heard(frame, event, argument)
        else:
            self._others += 1


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """What runs inside is no code of an element: it need not be heard, which costs."""
    before = sys.getprofile()
    calls = getattr(before, "__self__", None)
    if not isinstance(calls, _Calls):
        yield
        return
    since = time.perf_counter()
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(before)
        calls.unheard(time.perf_counter() - since)
