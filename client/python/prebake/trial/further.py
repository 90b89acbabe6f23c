"""Calls of a function beside the one that its trial makes again.

What only a later call does (a branch of its own that asks compiled code for the time, or has it open a file)
shows in no trial of the first. So cheap ones are made again too, twice, in a trial of their own: once there
are enough of them, or as the job ends.
"""

from __future__ import annotations

import contextlib
import io
import os
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from prebake.codec.sent import send
from prebake.encoding.digests import digest
from prebake.reads.record import contents_of

if TYPE_CHECKING:
    from prebake.trial.trial import Task

#: So many calls, as long as all together took no more CPU time than this: cheap ones are not worth a risk.
CALLS_MAX, CHEAP_NS = 64, 500_000_000
#: What remembering them may take the job of CPU time: on a busy machine the wall's says nothing.
REMEMBER_NS = 10_000_000
#: Of the function, and of their arguments, sent once more; and of one argument.
BYTES_MAX, ARGUMENT_BYTES_MAX = 1 << 20, 16 << 10

_CONTEXT = "prebake 2026 further calls v1"
_PLAIN = (int, float, complex, str, bytes, os.PathLike, type(None))


def name(function: bytes) -> bytes:
    """Under what the outcome of further calls is kept, of the function of this digest."""
    return digest(_CONTEXT, function)


class Further:
    """Those of one function in this process. `first` is what the trial of it is given."""

    def __init__(self, first: Task, given: tuple[Any, Any]) -> None:
        #: None once no more calls are remembered.
        self._first = first if len(first.objects) <= BYTES_MAX else None
        #: Objects of the first call are sent once for all; nothing is kept alive for this.
        weak = ((id(each), _weak(each)) for each in _values(given))
        self._objects = {number: each for number, each in weak if each is not None}
        self._calls: dict[int, tuple[list[Any], dict[str, Any]]] = {}
        self._expected: dict[int, list[bytes]] = {}
        self._stats, self._declared = dict(first.stats), list(first.declared)
        self._contents = dict(first.contents)
        self._cpu_ns = self._remember_ns = 0

    @property
    def is_open(self) -> bool:
        """Whether more of them are remembered."""
        return self._first is not None

    def add(
        self,
        given: tuple[Any, Any],
        digests: Callable[[], list[bytes]],
        cpu_ns: int,
        stats: dict[str, tuple[int, ...] | None],
        declared: Sequence[str],
    ) -> None:
        """Remembers one, if it is cheap to make and to send. `digests` gives those of what it made."""
        self._cpu_ns += cpu_ns
        if self._cpu_ns > CHEAP_NS:
            return
        begun = time.thread_time_ns()
        args, kwargs = given
        with contextlib.suppress(LookupError):
            call = [self._kept(each) for each in args], {key: self._kept(kwargs[key]) for key in kwargs}
            number = len(self._calls) + 1
            self._expected[number] = digests()
            self._calls[number] = call
            self._contents.update(contents_of(dict(stats.items() - self._stats.items())))
            self._stats.update(stats)
            self._declared += [path for path in declared if path not in self._declared]
        self._remember_ns += time.thread_time_ns() - begun

    def is_enough(self) -> bool:
        """Whether they are to be made again now."""
        is_dear = self._cpu_ns > CHEAP_NS or self._remember_ns > REMEMBER_NS
        return is_dear or len(self._calls) >= CALLS_MAX

    def task(self) -> Task | None:
        """The trial of them; None if there are none. Nothing more is remembered after."""
        first, self._first = self._first, None
        calls, self._calls = self._calls, {}
        out = io.BytesIO()
        with contextlib.suppress(LookupError):
            sources = {
                number: (tuple(map(_there, args)), {key: _there(kwargs[key]) for key in kwargs})
                for number, (args, kwargs) in calls.items()
            }
            if sources:
                send((sources, []), out)
        if first is None or not 0 < out.tell() <= BYTES_MAX:
            return None
        return first._replace(
            digest=name(first.digest),
            declared=self._declared,
            stats=self._stats,
            contents=self._contents,
            others=out.getvalue(),
            expected_others=self._expected,
        )

    def _kept(self, value: Any) -> Any:
        """Raises `LookupError` for what would have to be sent with each call."""
        if isinstance(value, _PLAIN):
            if isinstance(value, (str, bytes)) and len(value) > ARGUMENT_BYTES_MAX:
                raise LookupError
            return value
        known = self._objects[id(value)]
        if known() is not value:
            # It is gone, and another has its address.
            raise LookupError
        return known


def _values(given: tuple[Any, Any]) -> list[Any]:
    args, kwargs = given
    return [each for each in (*args, *kwargs.values()) if not isinstance(each, _PLAIN)]


def _weak(value: Any) -> weakref.ref[Any] | None:
    try:
        return weakref.ref(value)
    except TypeError:
        return None


def _there(value: Any) -> Any:
    """What is meant; raises `LookupError` if it is gone."""
    if not isinstance(value, weakref.ref):
        return value
    found = value()
    if found is None:
        raise LookupError
    return found
