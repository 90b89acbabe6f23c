"""Hits computed again and compared with what is stored: a share of them, as `PREBAKE_VERIFY` says.

The share is drawn from the operating system's randomness, so that no generator of the job's moves. What is
computed again is the job's own work under the same guard as a lease run, and its value is the job's if it
differs.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from prebake.codec import objects, values
from prebake.compute.computation import Computation
from prebake.compute.restart_signals import Restart, Tripped
from prebake.purity import tripwire
from prebake.runtime import daemon
from prebake.runtime.errors import Refused, warn_once

#: The share of hits that are computed again: a number from 0 to 1.
VARIABLE = "PREBAKE_VERIFY"
#: A file to which one line (JSON) is appended for each: `prebake verify` counts them.
LOG = "PREBAKE_VERIFY_LOG"

#: Where a pipeline stops to be what it was: the native items of the subgraph up to there, or None for all of
#: it, and more about it in words.
Blame = Callable[[int], tuple[Any, str]]

_system = random.SystemRandom()


@functools.cache
def share() -> float:
    """The share of hits to be computed again, as it was when first asked; 0 for none."""
    text = os.environ.get(VARIABLE, "").strip()
    try:
        found = float(text or 0)
    except ValueError:
        found = math.nan
    if 0 <= found <= 1:
        return found
    warn_once("verify", f"{VARIABLE}={text!r} is ignored: it is a share of the hits, from 0 to 1")
    return 0.0


class Other(NamedTuple):
    """What a hit is when it is computed again, which is not what is stored."""

    value: Any


class Verifier:
    """How hits of one collection are computed again.

    `compute` makes item i anew, from nothing that is cached. `tolerance` is by how much numbers may differ,
    as a share of the largest of an array; None asks for equal bits. `blame` looks for what does not
    reproduce. `proves` says whether an element (bytes and layout) is what was made of an item, rather than
    something that only leads to it. `again` computes an item once more where `compute` gives what was just
    made of it.
    """

    def __init__(
        self,
        compute: Callable[[int], Any],
        tolerance: Callable[[], float | None] = lambda: None,
        blame: Blame = lambda i: (None, ""),
        proves: Callable[[Any, str], bool] = lambda stored, layout: True,
        again: Callable[[int], Any] | None = None,
    ) -> None:
        self.compute = compute
        self.again = again or compute
        self.tolerance = tolerance
        self.proves = proves
        self._blame = blame
        #: Made or verified here, and read back: no hits yet.
        self._made: set[int] = set()

    def made(self, i: int) -> None:
        """Item i was made or verified here, and will be read back."""
        self._made.add(i)

    def due(self, i: int) -> bool:
        """Whether this read of item i is one of those to be verified."""
        if i in self._made:
            self._made.discard(i)
            return False
        return _system.random() < share()

    def check(self, items: Any, i: int, computation: Computation) -> Other | None:
        """Computes item i again and compares it; None if what is stored is to be served: it is the same, or
        cannot be told, because its input changed meanwhile.

        Raises `Tripped` as a lease run does, with the generators at where they were.
        """
        given = items.input(i)
        found = items.stored(i)
        if given is None or found is None or not computation.is_unchanged(True):
            return None
        stored, layout = found
        before = tripwire.state()
        cpu = time.thread_time_ns()
        try:
            value = self.compute(i)
            differs = self.differs(value, layout, stored)
        except Restart:
            tripwire.restore(before)
            raise
        except Exception as error:
            # Perhaps only now: it says nothing of what is stored.
            tripwire.restore(before)
            told = f"item {i} could not be computed again: {type(error).__name__}: {error}".rstrip(": ")
            warn_once("verify failed", f"not verified: {told}")
            _log("failed", told)
            return None
        drawn = tripwire.moved(before)
        cpu = time.thread_time_ns() - cpu
        by = computation.culprit(i) if drawn is not None else None
        differs = differs if by is None else f"it draws from {drawn}"
        # What was read meanwhile may be of another input than the one that is stored.
        if items.input(i) != given or not computation.is_unchanged(True):
            if by is not None:
                raise Tripped(drawn or "", before, by)
            return None
        if differs is None:
            items.verified(cpu)
            _log("same")
            return None
        self.report(items, i, differs, cpu)
        if by is not None:
            raise Tripped(drawn or "", before, by)
        return Other(value)

    def differs(self, value: Any, layout: str, stored: Any) -> str | None:
        """In words, how a value differs from what is stored; None if it does not."""
        try:
            made = values.encode(value)
        except Refused as refused:
            return f"it is now a value that cannot be stored: {refused.reason}"
        return difference(values.Encoded(layout, [stored]), made, self.tolerance())

    def is_aside(self, items: Any, i: int) -> bool:
        """Whether what is stored of item i only leads to what was made of it."""
        found = items.stored(i)
        return found is not None and not self.proves(*found)

    def report(self, items: Any, i: int, differs: str, cpu_ns: int) -> None:
        begun = time.thread_time_ns()
        where, more = self._located(i)
        cpu_ns += time.thread_time_ns() - begun
        try:
            told = (items if where is None else where).mismatch(i, f"{differs}{more}", cpu_ns)
        except daemon.native().Error as error:
            daemon.failed(error)
            told = f"item {i} did not reproduce ({differs}), and the daemon could not be told: {error}"
        # As the plan says it from now on: once for both.
        warn_once(f"bypass {told}", f"not cached: {told}")
        _log("different", told)

    def _located(self, i: int) -> tuple[Any, str]:
        """What does not reproduce. It is run again for that; whatever it raises is of no account."""
        before = tripwire.state()
        try:
            return self._blame(i)
        except BaseException as error:
            tripwire.restore(before)
            if not isinstance(error, (Exception, Restart)):
                raise
            return None, ""


def difference(stored: values.Encoded, made: values.Encoded, tolerance: float | None = None) -> str | None:
    """In words, how two elements differ; None if they do not. `tolerance` as in `Verifier`."""
    if stored.layout != made.layout:
        return f"it was {_short(stored.layout)} and is {_short(made.layout)}"
    old, new = _bytes(stored), _bytes(made)
    if old == new:
        return None
    if tolerance:
        apart = _apart(
            values.decode(stored.layout, bytearray(old)), values.decode(made.layout, bytearray(new))
        )
        if apart <= tolerance:
            return None
        if apart < math.inf:
            return f"numbers are {apart:.2g} of the largest apart, more than the tolerance {tolerance:g}"
    if len(old) != len(new):
        return f"it was {len(old)} bytes and is {len(new)}"
    differing = [at for at, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    return f"{len(differing)} of {len(old)} bytes differ, the first at {differing[0]}"


def _bytes(element: values.Encoded) -> bytes:
    return b"".join(map(bytes, element.parts))


def _apart(a: Any, b: Any) -> float:
    """How far apart the numbers in two values of one layout are, as a share of the largest of their array;
    infinity if they differ in anything else."""
    if isinstance(a, tuple):
        a, b = list(tuple.__iter__(a)), list(tuple.__iter__(b))
    if isinstance(a, list):
        return max((_apart(x, y) for x, y in zip(a, b, strict=True)), default=0.0)
    if isinstance(a, dict):
        return max((_apart(a[key], b[key]) for key in a), default=0.0)
    if dataclasses.is_dataclass(a):
        return max(
            _apart(dict(x), dict(y)) for x, y in zip(objects.fields(a), objects.fields(b), strict=True)
        )
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if torch is not None and isinstance(a, torch.Tensor):
        if not a.is_floating_point():
            return 0.0 if torch.equal(a, b) else math.inf
        a, b = (each.as_subclass(torch.Tensor).double().numpy() for each in (a, b))
    if isinstance(a, float) and numpy is None:
        return 0.0 if a == b or (a != a and b != b) else abs(a - b) / (max(abs(a), abs(b)) or 1.0)
    if numpy is not None and isinstance(a, (float, numpy.ndarray, numpy.generic)):
        return _arrays_apart(numpy, numpy.asarray(a), numpy.asarray(b))
    return 0.0 if _bytes(values.encode(a)) == _bytes(values.encode(b)) else math.inf


def _arrays_apart(numpy: Any, a: Any, b: Any) -> float:
    if a.dtype.kind not in "fc":
        return 0.0 if a.tobytes() == b.tobytes() else math.inf
    wide = numpy.complex128 if a.dtype.kind == "c" else numpy.float64
    a, b = a.astype(wide), b.astype(wide)
    finite = numpy.isfinite(a)
    # Infinities and what is no number have to be the same ones.
    if not numpy.array_equal(finite, numpy.isfinite(b)) or not numpy.array_equal(
        a[~finite], b[~finite], equal_nan=True
    ):
        return math.inf
    a, b = a[finite], b[finite]
    if not a.size:
        return 0.0
    largest = max(float(numpy.abs(a).max()), float(numpy.abs(b).max()))
    return float(numpy.abs(a - b).max()) / largest if largest else 0.0


def _short(layout: str) -> str:
    return layout if len(layout) <= 80 else f"{layout[:77]}..."


def _log(outcome: str, told: str = "") -> None:
    """Appends a line to the log, if there is one. In one write: other processes do so too."""
    path = os.environ.get(LOG)
    if not path:
        return
    line = json.dumps({"outcome": outcome, "told": told}) + "\n"
    try:
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return
    try:
        os.write(log, line.encode("utf-8", "backslashreplace"))
    except OSError:
        # A full disk: the daemon counts them too.
        pass
    finally:
        os.close(log)
