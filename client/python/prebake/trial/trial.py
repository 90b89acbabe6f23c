"""Functions are run twice too: whether a function new to the node yields the same in another process.

The job that first computes a value of a function goes on at once. Beside it, at idle priority, a process of
its own (`memo/trial_process.py`) runs the function on the same arguments again, under other seeds, another
hash seed and another clock, and keeps what it found as an entry. Until then the function is *unproven*: what
was computed is there for other jobs, but whoever would be served it computes it again and compares.
"""

from __future__ import annotations

import atexit
import contextlib
import inspect
import io
import os
import pickle
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from prebake.codec import values
from prebake.codec.sent import send
from prebake.identity import graph
from prebake.identity.code import Identity, identify
from prebake.probe import probe
from prebake.probe.analysis import Verdict
from prebake.reads.record import contents_of, stat_of
from prebake.runtime import store_clients
from prebake.runtime.errors import Code, Refused
from prebake.runtime.packages import PYTHON
from prebake.trial import further
from prebake.trial.further import Further
from prebake.trial.given import Arguments
from prebake.world import user_modules

#: What takes longer is not run again beside the job: its first hit elsewhere is compared instead.
SECONDS_MAX = 10.0
#: Trials of one process at a time, and those that wait until it ends and then all begin: each is a process
#: that imports what the job did, and the machine is the jobs'.
AT_ONCE, WAITING_MAX = 2, 4
#: Arguments and code that are sent.
PAYLOAD_BYTES_MAX = 1 << 26
#: A job that finds a value whose trial is under way waits so long for it, about as long as one takes, before
#: it computes the value again; looking so often.
WAIT_SECONDS, POLL_SECONDS = 5.0, 0.02
#: Where the first call's trial found nothing, that of further calls is asked for so seldom: each hit would.
ASK_SECONDS = 1.0
#: What trials' processes take to start at most, some at once beside other jobs; mostly a third of a second.
BEGUN_SECONDS = 5.0
#: What a second run says of a function's value.
FAULTS = frozenset({Code.RANDOM, Code.CLOCK, Code.UNSTABLE, Code.NETWORK, Code.UNDECLARED, Code.EFFECT})
#: Of these, what it says whatever the function read.
OF_ANY_INPUT = frozenset({Code.NETWORK, Code.UNDECLARED, Code.EFFECT})

PROVEN, UNPROVEN = "proven", "unproven"
#: Of this process's functions, by their digest: proven, why they are not shared, or that nothing tells of
#: what only later calls do.
_known: dict[bytes, Refused | str] = {}
#: Functions whose trial this process began, and what else it called them with.
_begun_here: dict[bytes, Further] = {}
#: When it was asked last what further calls' trial found.
_asked_further: dict[bytes, float] = {}
#: Functions whose trial was waited for once, and takes longer.
_overdue: set[bytes] = set()
_running: list[subprocess.Popen[bytes]] = []
_waiting: list[Task] = []


class Task(NamedTuple):
    """What is tried: a function's digest, and what a call of it gave."""

    digest: bytes
    name: str
    #: Files and folders that are declared: compiled code may open them unheard.
    declared: list[str]
    #: Digests of the value: as an element, and of what it is made of.
    expected: list[bytes]
    #: What it read, as that was then, None of what was not there: the second run must read the same.
    stats: dict[str, tuple[int, ...] | None]
    #: Digests of what the small ones of these held: a job may begin with writing them, the same each time.
    contents: dict[str, bytes]
    #: Of the function and its arguments, pickled.
    objects: bytes
    #: Of the child that runs it, under another clock and under this one; and of one that imports all of the
    #: user's modules first, in case it fails without: they may have set up what the function never names.
    headers: list[tuple[bytes, bytes]]
    #: Distributions that it or an argument relies on: their compiled code may open files unheard, which
    #: Python's own tells of.
    packages: list[str]
    #: Further calls, pickled, and the digests of what they gave.
    others: bytes = b""
    expected_others: dict[int, list[bytes]] = {}


class Applied:
    """A function as a step: it is given its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, given: tuple[Any, Any]) -> Any:
        """What is stored of the value."""
        args, kwargs = given
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        # It is called more than once on these, and may change which members a dictionary has.
        for name, value in bound.arguments.items():
            bound.arguments[name] = dict(value) if type(value) is dict else value
        before = Arguments(bound.arguments, "it")
        return before.stored(self.function(*bound.args, **bound.kwargs))


class Trial:
    """The trial of one function. `refused` and `proven` tell what is known of it."""

    def __init__(
        self, function: Callable[..., Any], known: Identity, arguments: Identity, declared: list[str]
    ) -> None:
        self._function, self._known, self._declared = function, known, declared
        self._packages = sorted({*known.packages, *arguments.packages} - {PYTHON.name})
        self._name = graph.called(function)
        #: Whether this call is the one that the trial makes again.
        self.is_begun = False

    def outcome(self, job: Any) -> Refused | str | None:
        """What was found: proven, or why nothing of it is shared; None if it is not known yet."""
        found = _known.get(self._known.digest)
        if found is None:
            items = entry(job, self._known.digest)
            return None if items is None else self._read(job, items)
        return None if found == UNPROVEN else found

    def awaited(self, job: Any) -> Refused | str | None:
        """The same; while a trial is under way it is waited for."""
        if _known.get(self._known.digest) == UNPROVEN:
            return None
        items = entry(job, self._known.digest)
        until = time.monotonic() + (0.0 if self._known.digest in _overdue else WAIT_SECONDS)
        while items is not None:
            found = self._read(job, items)
            if found is not None or not items.held([0]):
                return found
            if time.monotonic() > until:
                _overdue.add(self._known.digest)
                return None
            time.sleep(POLL_SECONDS)
        return None

    def is_under_way(self, job: Any) -> bool:
        """Whether another process holds the lease of an outcome. Until it is told, equal values prove
        nothing: a counter that nothing reaches is the same in all jobs, and files that are written are seen
        there only."""
        if _known.get(self._known.digest) == UNPROVEN:
            return False
        for name in (self._known.digest, further.name(self._known.digest)):
            items = entry(job, name)
            # Who holds it is known once it was asked for; what is told by now, the next call reads.
            found = None if items is None else read(items)
            if found not in (None, UNPROVEN) or found is None and items is not None and items.held([0]):
                return True
        return False

    def _read(self, job: Any, items: Any) -> Refused | str | None:
        found, digest = read(items), self._known.digest
        is_due = found == PROVEN or time.monotonic() > _asked_further.get(digest, 0.0) + ASK_SECONDS
        if not isinstance(found, Refused) and is_due and digest not in _begun_here:
            further = self._of_further(job)
            _asked_further[digest] = time.monotonic()
            # They may say of the function what the first call does not.
            found = further if found == PROVEN or isinstance(further, Refused) else None
        if found is not None:
            _known[self._known.digest] = found
        return None if found == UNPROVEN else found

    def _of_further(self, job: Any) -> Refused | str | None:
        """The same of further calls: proven if none are made, None while they are being made. These are
        waited for. If that told nothing they are unproven."""
        items = entry(job, further.name(self._known.digest))
        until = time.monotonic() + (0.0 if self._known.digest in _overdue else WAIT_SECONDS)
        while items is not None and (found := read(items)) is None:
            if not items.held([0]):
                return PROVEN
            if time.monotonic() > until:
                _overdue.add(self._known.digest)
                return None
            time.sleep(POLL_SECONDS)
        return PROVEN if items is None else found

    def begin(
        self,
        given: tuple[Any, Any],
        value: Any,
        cpu_ns: int,
        io_ns: int,
        stats: dict[str, tuple[int, ...] | None],
    ) -> None:
        """Has it run again, if that was not done yet; `value` is what is stored, which took so many
        nanoseconds, and `stats` are those of the files that it read, or looked for in vain. Best effort:
        without it the function stays unproven."""
        others = _begun_here.get(self._known.digest)
        if others is not None:
            if others.is_open:
                with contextlib.suppress(Exception), store_clients.own():
                    others.add(given, lambda: _digests(value), cpu_ns, stats, self._declared)
                if others.is_enough():
                    _begin_further(others)
            return
        if cpu_ns + io_ns > SECONDS_MAX * 1e9 or self._known.digest in _known or len(_waiting) >= WAITING_MAX:
            return
        if sum(len(each.objects) for each in _waiting) > PAYLOAD_BYTES_MAX:
            return
        with contextlib.suppress(Exception), store_clients.own():
            task = self._task(given, value, stats)
            _begun_here[task.digest] = Further(task, given)
            _waiting.append(task)
            self.is_begun = True
            _begin_waiting(AT_ONCE)

    def _task(self, given: tuple[Any, Any], value: Any, stats: dict[str, tuple[int, ...] | None]) -> Task:
        objects = io.BytesIO()
        send(({0: given}, [Applied(self._function)]), objects)
        if objects.tell() > PAYLOAD_BYTES_MAX:
            raise Refused(Code.TOO_LARGE, "its arguments are not sent to another process")
        # What its code names counts by its content, and is no news.
        stats = {**{path: stat_of(path) for path in self._known.files}, **stats}
        return Task(
            self._known.digest,
            self._name,
            self._declared,
            _digests(value),
            stats,
            contents_of(stats),
            objects.getvalue(),
            [
                (
                    probe.header([0], SECONDS_MAX * 6, probe.CLOCK_SHIFT, modules),
                    probe.header([0], SECONDS_MAX * 6, 0, modules),
                )
                for modules in ([], user_modules.own_modules())
            ],
            self._packages,
        )


def _begin_further(others: Further) -> None:
    with contextlib.suppress(Exception), store_clients.own():
        task = others.task()
        if task is not None:
            _waiting.append(task)
            _begin_waiting(AT_ONCE)


def _begin_waiting(at_once: int) -> None:
    """Begins trials until so many run."""
    for each in [each for each in _running if each.poll() is not None]:
        _leave(each)
    while _waiting and len(_running) < at_once:
        _running.append(_begun(_waiting.pop(0)))


def _begun(task: Task) -> subprocess.Popen[bytes]:
    with tempfile.TemporaryFile() as file:
        pickle.dump(tuple(task), file)
        file.seek(0)
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        return subprocess.Popen(
            [sys.executable, *flags, "-m", "prebake.memo.trial_process"],
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PREBAKE_AUTOSTART": "0", "PYTHONSAFEPATH": "1"},
            start_new_session=True,
        )


@atexit.register
def _wait_for_begun() -> None:
    """A job that ends as its trial begins waits until that is known of, so that the next job waits for it."""
    for others in _begun_here.values():
        if others.is_open:
            _begin_further(others)
    with contextlib.suppress(Exception), store_clients.own():
        _begin_waiting(AT_ONCE + WAITING_MAX)
    until = time.monotonic() + BEGUN_SECONDS
    for each in _running:
        if each.poll() is None and each.stdout is not None:
            select.select([each.stdout], [], [], max(0.0, until - time.monotonic()))
    for each in list(_running):
        _leave(each)


def _leave(process: subprocess.Popen[bytes]) -> None:
    """It goes on without this process, if it still runs."""
    _running.remove(process)
    if process.stdout is not None:
        process.stdout.close()
    process.returncode = process.returncode or 0


def _forget() -> None:
    _running.clear()
    _waiting.clear()
    _begun_here.clear()


if hasattr(os, "register_at_fork"):
    # A parent's are none of a child's.
    os.register_at_fork(after_in_child=_forget)


def entry(job: Any, digest: bytes) -> Any:
    """The native item that holds what a trial found."""
    described = graph.chain([graph.arguments(), graph.named_step("prebake.trial")])
    collection = job.plan(described)
    return None if collection.bypass else collection.call("trial", digest, [])


def read(items: Any) -> Refused | str | None:
    """What a trial found, if it is there: of further calls that may be nothing."""
    if not items.locate([0]):
        return None
    found = items.stored(0)
    if found is None:
        return None
    stored, layout = found
    try:
        code, reason = values.decode(layout, stored)
    except Refused:
        # It is tried again.
        return None
    if code:
        return Refused(Code(code), reason)
    return UNPROVEN if reason == UNPROVEN else PROVEN


def judged(verdict: Verdict, task: Task) -> tuple[str, str] | None:
    """Code and reason of what a second run found, both empty if it is the same; None if that says nothing of
    the function."""
    if (code := verdict.code) is not None and code in FAULTS and verdict.lasting:
        reason = verdict.reason.partition(") ")[2] or verdict.reason
        return code, f"{task.name}: {reason.replace('when item ', 'when call ')}"
    unheard = _unknown(verdict.unhooked, task)
    if unheard and verdict.lasting:
        said = f"{task.name}: compiled code opens {unheard[0]}, unheard by Python"
        return Code.UNDECLARED, f"{said}: name it with prebake.cached(inputs=[...])"
    return ("", "") if verdict.deterministic_until == 1 and verdict.lasting else None


def untold(verdict: Verdict, task: Task) -> tuple[str, str] | None:
    """The same of a function that fails in any other process. Equal values of jobs prove it where nothing but
    Python's own is called. Which files other compiled code opens for it nobody sees: it is not shared, unless
    they are declared. What is too dear for a trial (`SECONDS_MAX`) has to be."""
    is_told = verdict.code is not Code.OPAQUE or verdict.reason == probe.DIFFERS
    if task.declared or is_told or not verdict.lasting or verdict.cpu_seconds > SECONDS_MAX:
        return None
    if not task.packages:
        return None
    why = verdict.reason.partition(") ")[2] or verdict.reason
    cure = "name them with prebake.cached(inputs=[...]), or vouch for it with prebake.pure"
    return Code.OPAQUE, f"{task.name} {why}: which files {task.packages[0]} opens for it nobody sees; {cure}"


def _unknown(paths: list[str], task: Task) -> list[str]:
    """Those that are neither declared nor among what the job is known to have read, which counts."""
    if not paths:
        return []
    read = set(map(os.path.realpath, task.stats))
    declared = list(map(os.path.realpath, task.declared))
    inside = tuple(os.path.join(each, "") for each in declared)
    return [
        path for path in paths if path not in read and path not in declared and not path.startswith(inside)
    ]


def _digests(value: Any) -> list[bytes]:
    """As an element, and of what it is made of: in another process it may not be one."""
    try:
        return [probe.element_digest(value), identify(value).digest]
    except Refused:
        return [probe.element_digest(value), b""]
