"""The double-run probe: whether a pipeline's steps yield the same in another process, and what they read.

The steps run on a few items in a spawned child (`prebake._probe`): under another hash seed and other seeds of
the shared generators, in another order, and twice. Values are compared by their bytes. The child
gets its objects by value, so that `__main__` is not run again; other modules of the user's are imported.

What is sent is pickled and unpickled by the same user's own processes, over a pipe, and never stored.
"""

from __future__ import annotations

import functools
import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from prebake import _bin, values
from prebake._child import Ended, run_child
from prebake._job import native
from prebake._sent import send, why_not_sent
from prebake._startup import is_startup, is_users
from prebake.code import identify
from prebake.errors import Code, Refused

#: The child imports what the job imports, a few seconds; longer than this, the items are not worth a probe.
SECONDS_MAX = 120.0
#: Of what is sent. A data set that holds more in memory is read faster than it is proven.
PAYLOAD_BYTES_MAX = 1 << 29
#: Files by which clients of object stores find and trust a server.
CLIENT_FILES = (".pem", ".crt", "openssl.cnf", "/etc/resolv.conf", "/etc/hosts", "/etc/gai.conf")

_CONTEXT = "prebake 2026 probe v1"
#: Zero turns hashing's seed off; it is a seed like any other for the job, and not given to a child.
_HASH_SEED_MAX = (1 << 32) - 1
#: Fresh memory is filled with the complement of this, or of twice this.
_PERTURB = 0x2D

Report = dict[str, Any]


class Verdict(NamedTuple):
    """What a probe found. Paths are absolute."""

    #: So many leading steps reproduced, drew nothing random and changed neither their input nor themselves.
    deterministic_until: int
    #: Why it is not all of them. `Code.OPAQUE` means that it cannot be known.
    code: Code | None
    #: In words, with the step; also why reads are not proven.
    reason: str
    #: What those steps open, for each item. Nothing may be there: that was read then.
    reads: dict[int, list[str]]
    #: Files that were opened when the steps were loaded: modules or the steps hold what was made of them.
    loaded: list[str]
    #: Files that were opened for the first item only, and kept: each is every item's input.
    shared: list[str]
    #: Folders that those steps list.
    listed: list[str]
    #: Whether the tracer saw no file that is not in `reads` or `shared`.
    reads_proven: bool
    #: Files that compiled code opened, unseen by Python; whose item's they are is not known.
    unhooked: list[str]
    #: Of the children, and of what traced them.
    cpu_seconds: float
    #: Whether another run would say the same. One that was starved or killed says nothing of the steps.
    lasting: bool = True

    def json(self) -> str:
        """As text, for `from_json`."""
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, text: str) -> Verdict:
        """What `json` wrote."""
        fields = json.loads(text)
        fields["reads"] = {int(i): paths for i, paths in fields["reads"].items()}
        fields["code"] = fields["code"] and Code(fields["code"])
        return cls(**fields)


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
) -> Verdict:
    """Probes `steps`, applied in turn to `source(i)`, on a few items. With `in_place`, they may change what
    they are given; those of `vouched` may do what they like.

    `expected` is what `digests` gave for each item in this process; without it a second child is compared
    with the first, and the steps do not run here at all. A child takes some 0.2 s and the time of the job's
    imports; all take at most `seconds`. Raises nothing: what cannot be known is a verdict.
    """
    try:
        return _run(source, list(steps), list(dict.fromkeys(items)), expected, seconds, in_place, vouched)
    except Refused as error:
        return _unknown(error.reason, code=error.code)
    except Exception as error:
        return _unknown(f"the probe failed: {type(error).__name__}: {error}")


def _unknown(reason: str, cpu_seconds: float = 0.0, code: Code = Code.OPAQUE) -> Verdict:
    return Verdict(0, code, reason, {}, [], [], [], False, [], cpu_seconds)


def _unheard(which: str, ended: Ended, cpu_seconds: float) -> Verdict:
    verdict = _unknown(f"the probe's {which} {ended.why}", cpu_seconds)
    # What ran for most of its time is as slow anywhere.
    return verdict._replace(lasting=ended.late and ended.cpu_seconds >= ended.seconds / 2)


def _run(
    source: Callable[[int], Any],
    steps: list[Callable[[Any], Any]],
    items: list[int],
    expected: dict[int, list[bytes]] | None,
    seconds: float,
    in_place: bool,
    vouched: Collection[int],
) -> Verdict:
    if native() is None:
        return _unknown("Prebake is turned off")
    if not steps or not items:
        return _unknown("there is nothing to probe")
    objects = _objects(source, steps, items)
    deadline = time.monotonic() + seconds
    # Side by side: the job waits for both. It does not run the steps itself: one may hold a generator or a
    # count of its own, which the job alone may move on.
    with ThreadPoolExecutor(1) as beside:
        second = None
        if expected is None:
            backwards = _header(items[::-1], seconds) + objects
            second = beside.submit(run_child, _command(), _environment(2), backwards, seconds)
        ended, traced = _spawn(_header(items, seconds) + objects, seconds)
    cpu_seconds, at_load = ended.cpu_seconds, set[str]()
    if second:
        cpu_seconds += second.result().cpu_seconds
    if ended.report is None:
        return _unheard("process", ended, cpu_seconds)
    report: Report = json.loads(ended.report)
    if "error" in report:
        return _unknown(f"it cannot be sent to another process: {report['error']}", cpu_seconds)
    if second:
        report_again = second.result().report
        if report_again is None:
            return _unheard("second process", second.result(), cpu_seconds)
        expected = _digests_of(json.loads(report_again), len(steps))
    expected = {i: expected[i] for i in items}
    left = deadline - time.monotonic()
    own = _own_files(source, items)
    if traced.get("complete") and not own.keys() >= set(_unseen(report, traced)) and left > 0:
        # Importing the job's packages may have done it: once more, without items.
        ended, alone = _spawn(_header([], left) + objects, left)
        cpu_seconds += ended.cpu_seconds
        at_load = set(_paths(alone, "reads")) if ended.report is not None else at_load
    verdict = _judged(report, expected, steps, in_place, vouched)
    verdict = _with_reads(verdict, report, traced, at_load, own)
    return verdict._replace(cpu_seconds=cpu_seconds)


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


def _header(items: list[int], seconds: float) -> bytes:
    """What the child must know before it can unpickle objects: where their modules are."""
    header = {
        "path": [entry for entry in sys.path if isinstance(entry, str)],
        "argv": list(sys.argv),
        "safe_path": os.environ.get("PYTHONSAFEPATH"),
        "items": items,
        "seconds": seconds,
    }
    return pickle.dumps(header)


def _objects(source: Any, steps: Any, items: list[int]) -> bytes:
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
    return [sys.executable, *flags, "-m", "prebake._probe"]


def _spawn(payload: bytes, seconds: float) -> tuple[Ended, Report]:
    """Runs the child under the tracer if there is one; what it said and what the tracer said."""
    command = _command()
    tracer = _bin.path("prebake")
    if not tracer.exists():
        return run_child(command, _environment(1), payload, seconds), {"why": "no tracer is installed"}
    with tempfile.TemporaryDirectory(prefix="prebake-probe-") as folder:
        said = Path(folder, "report")
        traced = [os.fspath(tracer), "trace", "--report", os.fspath(said), "--", *command]
        ended = run_child(traced, _environment(1), payload, seconds)
        if said.exists():
            return ended, json.loads(said.read_bytes())
    if ended.report is None and not ended.late:
        ended = run_child(command, _environment(1), payload, seconds)
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


def _judged(
    report: Report,
    expected: dict[int, list[bytes]],
    steps: Sequence[Any],
    in_place: bool,
    vouched: Collection[int],
) -> Verdict:
    """How many steps are proven, and the first fault."""
    until, code, reason = 0, None, ""
    for j, step in enumerate(steps):
        if j in vouched:
            until += until == j
            continue
        fault = _fault(report, expected, j, in_place)
        if fault is not None:
            code, reason = fault[0], f"step {j} ({_name(step)}) {fault[1]}"
            break
        if all(_digest_at(report, p, i, j) and mine[j] for p in (0, 1) for i, mine in expected.items()):
            until = j + 1
    if code is None and until < len(steps):
        code, reason = Code.VALUE, f"what step {until} ({_name(steps[until])}) yields cannot be compared"
    return Verdict(until, code, reason, {}, [], [], [], False, [], 0.0)


def _name(step: Any) -> str:
    if isinstance(step, functools.partial) and step.args:
        # A step of a data set, as that applies it.
        step = step.args[-1]
    return getattr(step, "__qualname__", None) or type(step).__qualname__


def _digest_at(report: Report, which: int, i: int, j: int) -> bytes:
    return bytes.fromhex(report["passes"][which][str(i)][j]["digest"])


def _seen(report: Report, j: int) -> Iterator[tuple[int, Report]]:
    """What was seen of step j: for each time it ran, the item and the rest. Up to the first error."""
    for each in report["passes"]:
        for i, steps in each.items():
            if j < len(steps):
                yield int(i), steps[j]


def _fault(
    report: Report, expected: dict[int, list[bytes]], j: int, in_place: bool
) -> tuple[Code, str] | None:
    """The first thing wrong with a step, what tells most first."""
    kinds: tuple[tuple[str, Code, str], ...] = (
        ("error", Code.OPAQUE, "fails in another process: {}"),
        ("network", Code.NETWORK, "talks to the network ({})"),
        ("process", Code.OPAQUE, "runs another program ({}), of which nothing is known"),
        ("drew", Code.RANDOM, "draws random numbers from {}"),
        ("mutated", Code.MUTATES, "changes {}"),
    )
    for field, code, text in kinds:
        for _, seen in _seen(report, j):
            if seen[field] and not (in_place and code is Code.MUTATES):
                return code, text.format(seen[field])
    if report["changed"][j]:
        return Code.CARRIES_STATE, "changes itself from item to item"
    kept = _kept(report, j)
    if kept is not None:
        return Code.CARRIES_STATE, f"keeps what it reads ({kept[1]}) for when item {kept[0]} is made again"
    for i, mine in expected.items():
        here, first, second = mine[j], *(_digest_at(report, which, i, j) for which in (0, 1))
        if first and second and first != second:
            return Code.UNSTABLE, f"yields something else when item {i} is made again after other items"
        if here and first and here != first:
            return Code.UNSTABLE, f"yields something else for item {i} in another process"
    return None


def _paths(traced: Report, field: str) -> list[str]:
    """Paths of a tracer's report: text, or bytes where they are not."""
    return [each if isinstance(each, str) else os.fsdecode(bytes(each)) for each in traced.get(field, ())]


def _unseen(report: Report, traced: Report) -> list[str]:
    """Files that were opened, but not through Python, and are not programs."""
    seen = {os.path.realpath(path) for path in report["opened"]} | set(report["mapped"])
    return [path for path in _paths(traced, "reads") if path not in seen and not is_startup(path)]


def _kept(report: Report, j: int) -> tuple[str, str] | None:
    """An item, not the first, of which a step opened a file once and not when the item was made again. Of the
    items to come nobody could tell when they read it."""
    first, again = report["passes"]
    for i in list(first)[1:]:
        if j < len(first[i]):
            for path in first[i][j]["reads"]:
                if path not in again[i][j]["reads"]:
                    return i, path
    return None


def _with_reads(
    verdict: Verdict, report: Report, traced: Report, at_load: set[str], own: dict[str, tuple[int, str]]
) -> Verdict:
    """Adds what the proven steps read, and whether that is all."""
    first, again = (_reads_of(each, verdict.deterministic_until) for each in report["passes"])
    # What the first item opened, and not when it was made again, is kept somewhere and may be used by all.
    loaded, shared = dict.fromkeys(report["loaded"]["reads"]), dict[str, None]()
    for i in first:
        shared |= dict.fromkeys(path for path in first[i] if path not in again[i])
    reads = {i: list(dict.fromkeys([*again[i], *first[i]])) for i in first}
    ran = [seen for j in range(verdict.deterministic_until) for _, seen in _seen(report, j)]
    why = next((seen["incomplete"] for seen in ran if seen["incomplete"]), "") or traced.get("why", "")
    unhooked = []
    # What known clients talk to is known by what they got.
    objects = any(seen["objects"] for seen in ran)
    for path in _unseen(report, traced):
        if objects and path.endswith(CLIENT_FILES):
            continue
        if path in at_load:
            loaded |= dict.fromkeys([path] if is_users(path) else [])
        elif path in own:
            i, given = own[path]
            reads[i] += [given] if given not in reads[i] else []
        else:
            unhooked.append(path)
    if unhooked and not why:
        why = f"compiled code opens {unhooked[0]}"
    if (
        traced.get("network")
        and not objects
        and not report["loaded"]["network"]
        and verdict.code is not Code.NETWORK
    ):
        # Of compiled code, so that it is not known which step it was.
        verdict = verdict._replace(
            deterministic_until=0, code=Code.NETWORK, reason=f"talks to the network ({traced['network'][0]})"
        )
    note = f"opens unproven: {why}" if why else ""
    return verdict._replace(
        reads=reads,
        loaded=list(loaded),
        shared=[path for path in shared if path not in loaded],
        listed=list(dict.fromkeys(path for seen in ran for path in seen["listed"])),
        reads_proven=bool(traced.get("complete")) and not why,
        unhooked=unhooked,
        reason="; ".join(part for part in (verdict.reason, note) if part),
    )


def _reads_of(passed: Report, until: int) -> dict[int, list[str]]:
    return {
        int(i): list(dict.fromkeys(path for seen in steps[:until] for path in seen["reads"]))
        for i, steps in passed.items()
    }


def _own_files(source: Any, items: list[int]) -> dict[str, tuple[int, str]]:
    """Of items that are files: where each really is, whose it is and as what it was given. Compiled code that
    opens one of them reads its own item."""
    own = {}
    for i in items:
        given = source(i)
        if isinstance(given, (str, bytes, os.PathLike)):
            path = os.path.abspath(os.fsdecode(given))
            own[os.path.realpath(path)] = (i, path)
    return own
