"""The double-run probe: whether a pipeline's steps yield the same in another process, and what they read.

The steps run on a few items in a spawned child (`child.py`): under another hash seed and other seeds of
the shared generators, in another order, and twice. Values are compared by their bytes. The child
gets its objects by value, so that `__main__` is not run again; other modules of the user's are imported.

What is sent is pickled and unpickled by the same user's own processes, over a pipe, and never stored.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from prebake.codec import values
from prebake.codec.sent import send, why_not_sent
from prebake.identity.code import identify
from prebake.probe.analysis import (
    Report,
    Verdict,
    is_want,
    is_wanting,
    judged,
    own_files,
    with_reads,
    with_unhooked,
)
from prebake.runtime import programs
from prebake.runtime.child import Ended, run_child
from prebake.runtime.daemon import native
from prebake.runtime.errors import Code, Refused
from prebake.runtime.working_folder import working_folder

#: The child imports what the job imports, a few seconds; longer than this, the items are not worth a probe.
SECONDS_MAX = 120.0
#: Nothing is there. Who looks for it tells the tracer that its preparations are over (`trace/report.rs`).
LOADED = "/dev/.prebake-loaded"
#: Of what is sent. A data set that holds more in memory is read faster than it is proven.
PAYLOAD_BYTES_MAX = 1 << 29
#: The second child's clock is ahead: by another second, minute, hour and day. What is made of the time shows.
CLOCK_SHIFT = 100_000
#: What is said of a step that another process runs on the same item, to another end.
DIFFERS = "it yields something else in another process"
#: Sent by others, or for want of memory: they say nothing of the steps.
_SIGNALS_OF_OTHERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGABRT)

_CONTEXT = "prebake 2026 probe v1"
#: Zero turns hashing's seed off; it is a seed like any other for the job, and not given to a child.
_HASH_SEED_MAX = (1 << 32) - 1
#: Fresh memory is filled with the complement of this, or of twice this.
_PERTURB = 0x2D


def digests(source: Callable[[int], Any], steps: Sequence[Callable[[Any], Any]], i: int) -> list[bytes]:
    """Digests of item i after each step; empty where a value cannot be compared. Runs the user's code."""
    value, found = source(i), []
    for step in steps:
        value = step(value)
        found.append(digest(value))
    return found


def digest(value: Any) -> bytes:
    """A value's digest: of its bytes as an element, else of what it is made of; empty if neither is known."""
    try:
        return element_digest(value) or identify(value).digest
    except Exception:
        return b""


def element_digest(value: Any) -> bytes:
    """The digest of a value that can be stored; empty if it cannot."""
    from prebake import _native

    try:
        layout, parts = values.encode(value)
    except Exception:
        return b""
    return _native.digest(_CONTEXT, b"".join([layout.encode(), b"\0", *parts]))


def run(
    source: Callable[[int], Any],
    steps: Sequence[Callable[[Any], Any]],
    items: Sequence[int],
    expected: dict[int, list[bytes]] | None = None,
    *,
    seconds: float = SECONDS_MAX,
    in_place: bool = False,
    vouched: Collection[int] = (),
    others: Sequence[int] = (),
) -> Verdict:
    """Probes `steps`, applied in turn to `source(i)`, on a few items. With `in_place`, they may change what
    they are given; those of `vouched` may do what they like. Of the `others` it is only seen whether they
    yield the same twice and what compiled code opens for them, of as many as cost next to nothing.

    `expected` is what `digests` gave for each item in this process; without it a second child is compared
    with the first, and the steps do not run here at all. A child takes some 0.2 s and the time of the job's
    imports; all take at most `seconds`. Raises nothing: what cannot be known is a verdict.
    """
    try:
        items = list(dict.fromkeys(items))
        return _run(source, list(steps), items, expected, seconds, in_place, vouched, others)
    except Refused as error:
        return _unknown(error.reason, code=error.code)
    except Exception as error:
        # Of the machine, more likely than of the steps: too many files, no memory.
        return _unknown(f"the probe failed: {type(error).__name__}: {error}")._replace(lasting=False)


def _unknown(reason: str, cpu_seconds: float = 0.0, code: Code = Code.OPAQUE) -> Verdict:
    return Verdict(0, code, reason, {}, [], [], [], False, [], [], cpu_seconds)


def _unheard(which: str, ended: Ended, busy_seconds: float, seconds: float, cpu_seconds: float) -> Verdict:
    """Of a child that did not answer; the busier of the two was so for `busy_seconds`."""
    verdict = _unknown(f"the probe's {which} {ended.why}", cpu_seconds)
    if not working_folder():
        # Where a job removes the folder that it ran in, nothing runs any more.
        return verdict._replace(lasting=False)
    if ended.late:
        # What worked for most of its time is as slow anywhere; else it was starved.
        return verdict._replace(lasting=busy_seconds >= seconds / 2)
    return verdict._replace(lasting=ended.signal not in _SIGNALS_OF_OTHERS)


def _run(
    source: Callable[[int], Any],
    steps: list[Callable[[Any], Any]],
    items: list[int],
    expected: dict[int, list[bytes]] | None,
    seconds: float,
    in_place: bool,
    vouched: Collection[int],
    others: Sequence[int],
) -> Verdict:
    if native() is None:
        return _unknown("Prebake is turned off")
    if not steps or not items:
        return _unknown("there is nothing to probe")
    objects = _objects(source, steps, items)
    # What is vouched for may write down what it likes, here too.
    trial = not vouched
    # Side by side: the job waits for both. It does not run the steps itself: one may hold a generator or a
    # count of its own, which the job alone may move on.
    stop, later = threading.Event(), None
    with ThreadPoolExecutor(1) as beside:
        try:
            if expected is None:
                # Not the one that is traced: what those read is no input of these.
                backwards = [header(items[::-1], seconds, CLOCK_SHIFT), objects, _others(source, others)]
                later = beside.submit(_spawn, backwards, seconds, trial, 2, stop)
            ended, traced = _spawn([header(items, seconds), objects], seconds, trial)
        except BaseException:
            # The job is interrupted, and is not to wait.
            stop.set()
            raise
        if ended.report is None:
            stop.set()
    second, traced_second = later.result() if later is not None else (None, {})
    busy = [each.cpu_seconds for each in (ended, second) if each is not None]
    cpu_seconds = sum(busy)
    reports: list[Report] = []
    for which, child in (("process", ended), ("second process", second)):
        if child is None:
            continue
        if child.report is None:
            return _unheard(which, child, max(busy), seconds, cpu_seconds)
        reports.append(json.loads(child.report))
        if "error" in reports[-1]:
            why = reports[-1]["error"]
            verdict = _unknown(f"it cannot be sent to another process: {why}", cpu_seconds)
            return verdict._replace(lasting=not is_want(why))
    report = reports[0]
    if expected is None:
        expected = _digests_of(reports[1], len(steps))
    expected = {i: expected[i] for i in items}
    own = own_files(source, items)
    unsteady = [each for each in reports[-1].get("unsteady", ()) if each[1] not in vouched]
    verdict = judged(report, expected, steps, in_place, vouched, unsteady)
    verdict = with_reads(verdict, report, traced, own)
    if reports[-1].get("others"):
        known = own_files(source, [*items, *others])
        verdict = with_unhooked(verdict, reports[-1], traced_second, known)
    return verdict._replace(cpu_seconds=cpu_seconds, lasting=not any(map(is_wanting, reports)))


def _digests_of(report: Report, count: int) -> dict[int, list[bytes]]:
    """As `digests` gives them; empty from where an item failed."""
    passed = report["passes"][0]
    found = {int(i): [bytes.fromhex(step["digest"]) for step in steps] for i, steps in passed.items()}
    return {i: each + [b""] * (count - len(each)) for i, each in found.items()}


class _Bounded(io.BytesIO):
    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > PAYLOAD_BYTES_MAX:
            raise Refused(
                Code.TOO_LARGE,
                f"it holds more than {PAYLOAD_BYTES_MAX >> 20} MiB, which are not sent to a probe",
            )
        return super().write(data)


def again(
    told: bytes,
    objects: bytes,
    expected: Sequence[bytes],
    seconds: float,
    others: tuple[bytes, dict[int, list[bytes]]] = (b"", {}),
) -> Verdict:
    """Runs one step on one item again, as another process sent them (`header`, and its `send`), and compares
    it with digests of what that made of it: as an element, or of what it is made of. `others` are items, sent
    in the same way, and their digests: they are made twice. Raises nothing."""
    try:
        return _again(told, objects, expected, seconds, *others)
    except Exception as error:
        return _unknown(f"the probe failed: {type(error).__name__}: {error}")._replace(lasting=False)


def _again(
    told: bytes,
    objects: bytes,
    expected: Sequence[bytes],
    seconds: float,
    others: bytes,
    expected_others: dict[int, list[bytes]],
) -> Verdict:
    ended, traced = _spawn([told, objects, others], seconds, trial=True)
    if ended.report is None:
        return _unheard("process", ended, ended.cpu_seconds, seconds, ended.cpu_seconds)
    report: Report = json.loads(ended.report)
    if "error" in report:
        return _unknown(f"it cannot be sent to another process: {report['error']}", ended.cpu_seconds)
    # Alone it may keep something for later calls: what counts is that they yield the same.
    report["changed"] = [False]
    made = _digests_of(report, 1).get(0, [b""])[0]
    verdict = judged(report, {0: [made]}, [_again], True, (), report["unsteady"])
    beside = {int(i): bytes.fromhex(known) for i, known in report["others"].items()}
    # What the job called yielded something: where it fails here, it is not the same.
    is_same = (
        made in expected and all(beside[i] in expected_others[i] for i in beside) and not report["failed"]
    )
    is_sound = verdict.code is None
    verdict = with_reads(verdict, report, traced, {})
    if is_sound and not is_same:
        # Perhaps for what a script set, which is not run again there: no fault of the function's.
        return _unknown(DIFFERS, ended.cpu_seconds)._replace(unhooked=verdict.unhooked)
    return verdict._replace(cpu_seconds=ended.cpu_seconds, lasting=not is_wanting(report))


def header(items: list[int], seconds: float, clock_shift: int = 0, modules: Sequence[str] = ()) -> bytes:
    """What the child must know before it can unpickle objects: where their modules are, and which it is to
    import though none names them."""
    told = {
        "path": [entry for entry in sys.path if isinstance(entry, str)],
        "argv": list(sys.argv),
        "safe_path": os.environ.get("PYTHONSAFEPATH"),
        "items": items,
        "seconds": seconds,
        "clock_shift": clock_shift,
        "modules": list(modules),
    }
    return pickle.dumps(told)


def _others(source: Any, items: Sequence[int]) -> bytes:
    """Items sent beside those of the probe, if what they are made of costs nothing to send and nobody
    changes it. Empty if not: the probe is worth the same without."""
    try:
        plain = items and isinstance(source(items[0]), (int, str, bytes, os.PathLike))
        return _objects(source, [], items) if plain else b""
    except Exception:
        return b""


def _objects(source: Any, steps: Any, items: Sequence[int]) -> bytes:
    out = _Bounded()
    sources = {i: source(i) for i in items}
    try:
        send((sources, steps), out)
    except Refused:
        raise
    except Exception as error:
        why = why_not_sent({"source": sources, "steps": steps}) or f"{type(error).__name__}: {error}"
        raise Refused(Code.OPAQUE, f"it cannot be sent to another process: {why}") from None
    return out.getvalue()


def _command() -> list[str]:
    if not sys.executable:
        raise Refused(Code.OPAQUE, "there is no Python interpreter to start another process with")
    # Private, but what `multiprocessing` uses: -O, -X and -W change what code does.
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags, "-m", "prebake.probe.child"]


def _spawn(
    payload: list[bytes],
    seconds: float,
    trial: bool,
    which: int = 1,
    stop: threading.Event | None = None,
) -> tuple[Ended, Report]:
    """Runs a child under the tracer if there is one, which in a `trial` keeps it from changing files; what it
    said and what the tracer said."""
    command, environment = _command(), _environment(which)
    tracer = programs.path("prebake")
    if not tracer.exists():
        return run_child(command, environment, payload, seconds, stop), {"why": "no tracer is installed"}
    begun_ns = time.time_ns()
    with tempfile.TemporaryDirectory(prefix="prebake-probe-") as folder:
        said = Path(folder, "report")
        begin = [os.fspath(tracer), "trace", *(["--trial"] if trial else [])]
        traced = [*begin, "--report", os.fspath(said), "--", *command]
        ended = run_child(traced, environment, payload, seconds, stop)
        if said.exists():
            return ended, {**json.loads(said.read_bytes()), "begun_ns": begun_ns}
    if ended.report is None and not ended.late and not (stop is not None and stop.is_set()):
        ended = run_child(command, environment, payload, seconds, stop)
    return ended, {"why": "the tracer does not run here"}


def _environment(which: int) -> dict[str, str]:
    """The job's own, but for a hash seed that no other process has; a folder that shadows a module is no
    place to start in; and fresh memory differs, so that reading what was never written shows."""
    ours = os.environ.get("PYTHONHASHSEED", "")
    seed = int(ours) if ours.isdigit() else int.from_bytes(os.urandom(4))
    return {
        **os.environ,
        "PREBAKE": "off",
        # For pipelines that keep books.
        "PREBAKE_PROBE": "1",
        "PYTHONHASHSEED": str(1 + (seed + which) % _HASH_SEED_MAX),
        "PYTHONSAFEPATH": "1",
        "MALLOC_PERTURB_": str(_PERTURB * which),
    }
