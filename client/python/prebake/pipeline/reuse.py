"""Random results that are used more than once, because their user asked for it: `wrap(..., reuse=k)`.

Each element is given `k` times before its random part is made anew: in `k` epochs, of a job that goes through
all of them in each. The job's draws are its own, so that no other job is given them, and each has a number:
how often the item was given before, in whole budgets. How often that is is kept in a file, which the job's
workers share however often they are begun anew. A result that is lost (evicted, or never stored) is made
anew. What is reused draws nothing, so that a run is not bit for bit what it is without.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import struct
import tempfile
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Protocol

from prebake.compute.computation import Computation
from prebake.encoding.digests import digest
from prebake.identity import graph, snapshot
from prebake.identity.code import Identity, identify
from prebake.known import marks
from prebake.leases.client import LeaseClient
from prebake.leases.read_order import nothing_ahead
from prebake.runtime.errors import Code, Refused
from prebake.runtime.refusals import not_cached
from prebake.sources.source import Step

try:
    import fcntl
except ImportError:
    # Not on Unix: there is no native module either, and nothing is ever reused.
    fcntl = None  # type: ignore[assignment]

CONTEXT = "prebake 2026 reuse v1"
#: Of an item's count in the file.
_COUNT = struct.Struct("=I")
#: Draws of which items may be read at once: those of this epoch, and those left of the last.
DRAWS_MAX = 2


class Uses:
    """How often each item of a job was given, over all of its processes."""

    def __init__(self, count: int) -> None:
        file, self._path = tempfile.mkstemp(prefix="prebake-uses-")
        os.ftruncate(file, count * _COUNT.size)
        os.close(file)
        self._open()
        #: Gone with the job; a worker's copy leaves it alone.
        weakref.finalize(self, _remove, self._path, os.getpid())

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        self._lock = threading.Lock()
        self._pid = os.getpid()
        weakref.finalize(self, os.close, self._file)

    def __getstate__(self) -> str:
        return self._path

    def __setstate__(self, path: str) -> None:
        self._path = path
        self._open()

    def add(self, i: int) -> int:
        """Notes that item i is given; how often it was before. Raises `OSError`."""
        if self._pid != os.getpid():
            # The lock may have been held in the parent.
            self._lock, self._pid = threading.Lock(), os.getpid()
        at = i * _COUNT.size
        # The file's lock is against processes, not threads.
        with self._lock:
            assert fcntl is not None, "there is a native module"
            fcntl.lockf(self._file, fcntl.LOCK_EX, _COUNT.size, at)
            try:
                found = os.pread(self._file, _COUNT.size, at)
                (before,) = _COUNT.unpack(found.ljust(_COUNT.size, b"\0"))
                os.pwrite(self._file, _COUNT.pack(before + 1), at)
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, _COUNT.size, at)
        return int(before)


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        with contextlib.suppress(OSError):
            os.unlink(path)


class RandomResults(Protocol):
    """What a pipeline makes of its items by steps that draw."""

    def open_after(self, job: Any, operator: graph.Json) -> Any:
        """The native items of a job for an operator after those that are shared."""
        ...

    def finished(self, i: int) -> Any:
        """Makes item i after the last step."""
        ...

    def approve(self, items: Any, i: int) -> bool:
        """Whether what was just made may be stored."""
        ...


def uncounted(error: OSError) -> Refused:
    """Why results are given once, where there is no room to count how often each was."""
    to_do = "make room, or name another folder with TMPDIR"
    return Refused(Code.NO_ROOM, f"nothing is reused, since uses cannot be counted: {error}; {to_do}")


class _Draw(Computation):
    """The elements of one draw."""

    # That it draws is what is asked for.
    may_draw = False

    def __init__(self, results: RandomResults, operator: graph.Json) -> None:
        self._results, self._operator = results, operator

    def open(self, job: Any) -> Any:
        return self._results.open_after(job, self._operator)

    def compute(self, i: int) -> Any:
        return self._results.finished(i)

    def approve(self, items: Any, i: int) -> bool:
        return self._results.approve(items, i)


class Reuse:
    """The random results of one wrapped data set."""

    def __init__(self, budget: int, count: int) -> None:
        """Each is used `budget` times."""
        self.budget = budget
        #: Of this job alone.
        self._token = secrets.token_hex(16)
        self._uses = Uses(count)

    def begin(self, results: RandomResults, count: int) -> None:
        """To be called before anything else, and after what comes before the random part is another."""
        self._results, self._count = results, count
        self._forget()

    def _forget(self) -> None:
        self._draws: dict[int, LeaseClient] = {}
        self._held: snapshot.Snapshot | None = None
        #: What the random part is; None if that cannot be known.
        self._known: bytes | None = None

    def __getstate__(self) -> tuple[int, str, Uses]:
        return self.budget, self._token, self._uses

    def __setstate__(self, state: tuple[int, str, Uses]) -> None:
        self.budget, self._token, self._uses = state

    def look(self, steps: Sequence[Step]) -> None:
        """Looks at the random part: of other steps, or such as hold something else, nothing is reused."""
        try:
            if self._held is not None and self._held.holds(list(steps)):
                return
            self._forget()
            self._held = snapshot.Snapshot(steps)
            known = [_what(step, graph.step_name(i, step)) for i, step in enumerate(steps, 1)]
        except Exception as error:
            # Looking at an odd object can raise anything.
            self._known = None
            not_cached(error)
            return
        self._known = b"".join(each.digest for each in known)

    def element(self, i: int) -> Any:
        """Item i's, made anew once its budget is used."""
        if self._known is None:
            return self._results.finished(i)
        try:
            draw = self._uses.add(i) // self.budget
        except OSError as error:
            not_cached(uncounted(error))
            return self._results.finished(i)
        if draw not in self._draws:
            if len(self._draws) == DRAWS_MAX:
                del self._draws[min(self._draws)]
            self._draws[draw] = self._of_draw(draw)
        return self._draws[draw].many([i], nothing_ahead)[0]

    def _of_draw(self, draw: int) -> LeaseClient:
        assert self._known is not None, "only what is known is reused"
        name = digest(CONTEXT, f"{self._token} {draw} ".encode() + self._known).hex()
        operator = {**graph.named_step("prebake.reuse"), "params": {"draw": {"text": name}}}
        return LeaseClient(_Draw(self._results, operator), self._count)


def _what(step: Step, name: str) -> Identity:
    """What a step is, which is not asked what it draws."""
    step = step.function if isinstance(step, marks.Random) else step
    try:
        return identify(marks.Pure(step, None), name)
    except Refused:
        # Of a package's random transforms: the class, and what it is set to.
        return identify((type(step), dict(vars(step))), name)
