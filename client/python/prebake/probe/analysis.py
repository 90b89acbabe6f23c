"""What a probe's children saw, judged: how many steps are proven, and what they read."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from prebake.reads.compiled_opens import CLIENT_FILES, is_of_clients
from prebake.reads.record import lasting
from prebake.reads.startup_files import is_installed, is_startup, is_users
from prebake.runtime.errors import Code

#: Beside a database and in caches of code, what is no data and comes and goes.
BESIDE = ("-wal", "-shm", "-journal", "lock.mdb", ".lock", ".pyc", ".nbi", ".nbc")
#: The clock of files is behind by up to a tick of the kernel's.
CLOCK_NS = 10_000_000

#: What a child says, or the tracer.
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
    #: Files of code that those steps ran and variables that they read, beside what describes them.
    ran: list[str]
    #: Of the children, and of what traced them.
    cpu_seconds: float
    #: Fields of the data set that loading filled with what no process can be sent, and how they were before.
    opened: dict[str, str] = {}  # noqa: RUF012
    #: Whether the first step holds then what cannot be described: of that nobody can tell how it changes.
    holds_unseen: bool = False
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


def is_want(error: str) -> bool:
    """Whether an error, in words, is for want of memory or processes: it says nothing of the steps."""
    return error.startswith("MemoryError") or "start new thread" in error or "Cannot allocate" in error


def is_wanting(report: Report) -> bool:
    """Whether a child failed for want of memory or processes."""
    passes = (seen for each in report["passes"] for steps in each.values() for seen in steps)
    return any(is_want(seen["error"]) for seen in passes)


def judged(
    report: Report,
    expected: dict[int, list[bytes]],
    steps: Sequence[Any],
    in_place: bool,
    vouched: Collection[int],
    unsteady: Sequence[tuple[int, int]] = (),
) -> Verdict:
    """How many steps are proven, and the first fault. `unsteady` are other items that were not the same
    twice, and after which step."""
    until, code, reason = 0, None, ""
    for j, step in enumerate(steps):
        if j in vouched:
            until += until == j
            continue
        fault = _fault(report, expected, j, in_place)
        other = next((i for i, after in unsteady if after == j), None)
        if fault is None and other is not None:
            fault = Code.UNSTABLE, f"yields something else when item {other} is made again"
        if fault is not None:
            code, reason = fault[0], f"step {j} ({_name(step)}) {fault[1]}"
            break
        if all(_digest_at(report, p, i, j) and mine[j] for p in (0, 1) for i, mine in expected.items()):
            until = j + 1
    if code is None and until < len(steps):
        code, reason = Code.VALUE, f"what step {until} ({_name(steps[until])}) yields cannot be compared"
    return Verdict(until, code, reason, {}, [], [], [], False, [], [], 0.0)


def _name(step: Any) -> str:
    if isinstance(step, functools.partial):
        # A step of a data set is what that applies.
        applied = getattr(step.func, "__module__", None) == "prebake.sources.mapped"
        step = step.args[-1] if applied else step.func
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
        ("switched", Code.EFFECT, "changes what the whole process is set to ({}), which a hit would not"),
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


def paths(traced: Report, field: str) -> list[str]:
    """Paths of a tracer's report: text, or bytes where they are not."""
    return [each if isinstance(each, str) else os.fsdecode(bytes(each)) for each in traced.get(field, ())]


def unseen(report: Report, traced: Report) -> list[str]:
    """Files that were opened, but not through Python, and are not programs."""
    seen = {os.path.realpath(path) for path in report["opened"]} | set(report["mapped"])
    return [path for path in paths(traced, "reads") if path not in seen and not is_startup(path)]


def withheld(report: Report, traced: Report, has_failed: bool) -> list[str]:
    """Files that it was not let write. Where nothing failed for it, what Python heard of is no effect: a
    database is tidied up by whoever closes it last, and caches are kept where they can be."""
    refused = lasting(paths(traced, "refused"))
    if has_failed:
        return refused
    heard = {os.path.realpath(path) for path in report["opened"]}
    return [path for path in refused if path not in heard and not path.endswith(BESIDE)]


def left_behind(report: Report, traced: Report) -> list[str]:
    """Files that compiled code wrote: Python hears of its own. What is opened to be written to and only read,
    as databases are, was not changed."""
    heard = {os.path.realpath(path) for path in report["opened"]}
    return [
        path
        for path in lasting(paths(traced, "writes"))
        if path not in heard and not path.endswith(BESIDE) and _is_newer(path, traced["begun_ns"])
    ]


def _is_newer(path: str, begun_ns: int) -> bool:
    try:
        return os.lstat(path).st_mtime_ns >= begun_ns - CLOCK_NS
    except OSError:
        # It was there to be written to: the job that goes on meanwhile may have removed what it made. What
        # never had a name is found by nobody.
        return not path.endswith(" (deleted)")


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


def with_reads(verdict: Verdict, report: Report, traced: Report, own: dict[str, tuple[int, str]]) -> Verdict:
    """Adds what the proven steps read, and whether that is all."""
    first, again = (_reads_of(each, verdict.deterministic_until) for each in report["passes"])
    # What the first item opened, and not when it was made again, is kept somewhere and may be used by all.
    loaded, shared = dict.fromkeys(report["loaded"]["reads"]), dict[str, None]()
    for i in first:
        once = (path for path in first[i] if path not in again[i])
        shared |= dict.fromkeys(path for path in once if not is_installed(path))
    reads = {i: list(dict.fromkeys([*again[i], *first[i]])) for i in first}
    ran = [seen for j in range(verdict.deterministic_until) for _, seen in _seen(report, j)]
    why = next((seen["incomplete"] for seen in ran if seen["incomplete"]), "") or traced.get("why", "")
    unhooked = []
    # What known clients talk to is known by what they got.
    objects = any(seen["objects"] for seen in ran)
    at_load = set(paths(traced, "loaded"))
    for path in unseen(report, traced):
        if objects and path.endswith(CLIENT_FILES):
            continue
        if path in at_load:
            # Importing the job's packages did it.
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
    written = withheld(report, traced, has_failed=verdict.code is Code.OPAQUE)
    if verdict.code is None:
        written = written or left_behind(report, traced)
    if written:
        told = f"it writes {written[0]}, which a hit would not"
        verdict = verdict._replace(deterministic_until=0, code=Code.EFFECT, reason=told)
    note = f"opens unproven: {why}" if why else ""
    return verdict._replace(
        reads=reads,
        loaded=list(loaded),
        shared=[path for path in shared if path not in loaded],
        listed=list(dict.fromkeys(path for seen in ran for path in seen["listed"])),
        reads_proven=bool(traced.get("complete")) and not why,
        unhooked=unhooked,
        opened=report["kept open"],
        holds_unseen=report["holds unseen"],
        ran=sorted({name for names in report["ran"][: verdict.deterministic_until] for name in names}),
        reason="; ".join(part for part in (verdict.reason, note) if part),
    )


def with_unhooked(
    verdict: Verdict, report: Report, traced: Report, own: dict[str, tuple[int, str]]
) -> Verdict:
    """Adds what compiled code opens for items beside those that are looked at closely."""
    known = {*own, *verdict.unhooked, *paths(traced, "loaded")}
    more = [path for path in unseen(report, traced) if path not in known and not is_of_clients(path)]
    if not more:
        return verdict
    note = f"opens unproven: compiled code opens {more[0]}"
    return verdict._replace(
        reads_proven=False,
        unhooked=[*verdict.unhooked, *more],
        reason="; ".join(part for part in (verdict.reason, note) if part),
    )


def _reads_of(passed: Report, until: int) -> dict[int, list[str]]:
    return {
        int(i): list(dict.fromkeys(path for seen in steps[:until] for path in seen["reads"]))
        for i, steps in passed.items()
    }


def own_files(source: Any, items: list[int]) -> dict[str, tuple[int, str]]:
    """Of items that are files: where each really is, whose it is and as what it was given. Compiled code that
    opens one of them reads its own item."""
    own = {}
    for i in items:
        given = source(i)
        if isinstance(given, (str, bytes, os.PathLike)):
            path = os.path.abspath(os.fsdecode(given))
            own[os.path.realpath(path)] = (i, path)
    return own
