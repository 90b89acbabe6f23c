"""The probe's child: runs steps on items it is sent and says what they yield, open, draw and change.

Started by `probe.py` as `python -m prebake.probe.child`: reads its task from stdin and answers with JSON on
stdout. The user's code has neither.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import math
import os
import pickle
import random
import resource
import signal
import sys
import time
import types
from collections.abc import Callable, Iterable
from typing import Any

from prebake import _native
from prebake.bytecode import instructions
from prebake.encoding import digests
from prebake.execution.profile_watcher import unheard
from prebake.execution.reached import Reached
from prebake.execution.scope import Scope
from prebake.identity import snapshot
from prebake.identity.code import identify
from prebake.known.marks import is_pure
from prebake.probe import kept_readers, shifted_clock
from prebake.probe.analysis import Report
from prebake.probe.probe import LOADED, digest, element_digest
from prebake.purity import generators, tripwire
from prebake.reads import compiled_opens
from prebake.reads.record import Record
from prebake.reads.recorder import Recorder
from prebake.reads.startup_files import is_users
from prebake.runtime import packages
from prebake.world import world
from prebake.world.switches import Switches

#: Seeds nobody chooses: what a module seeds when it is imported must not look like another process's draw.
_SEED = 0x5EED_BA4E
#: The parent ends this process in time. Should the parent be gone, nobody does, so long after.
_GRACE_SECONDS = 5
#: Of the memory that is free, so much is for each of two such processes: the job needs the rest.
_MEMORY_SHARE = 0.3

#: Where items cost no more CPU time than this on average, others are made too, in so much of it; and no
#: longer than that, should they wait for something. Beside one item, a function's trial, nobody waits.
_CHEAP_SECONDS, _OTHERS_SECONDS, _OTHERS_WALL_SECONDS = 0.002, 0.15, 0.5
_FURTHER_SECONDS, _FURTHER_WALL_SECONDS = 0.5, 5.0

#: Every file opened through Python since this process began, whoever opened it.
_opened: set[str] = set()


def _note(event: str, args: tuple[Any, ...]) -> None:
    if event in ("open", "ctypes.dlopen", "sqlite3.connect") and isinstance(
        args[0], (str, bytes, os.PathLike)
    ):
        _opened.add(os.path.join(os.getcwd(), os.fsdecode(args[0])))


def main() -> None:
    sys.addaudithook(_note)
    compiled_opens.is_traced = True
    task = io.BytesIO(sys.stdin.buffer.read())
    answer = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    header = pickle.load(task)
    ahead = header["clock_shift"]
    if ahead and not shifted_clock.shift(ahead):
        _shift_clock(ahead)
    signal.alarm(math.ceil(header["seconds"]) + _GRACE_SECONDS)
    _bound_memory()
    _become(header)
    answer.write(json.dumps(_report(task, header["items"])).encode())
    answer.close()
    # What the user's code leaves behind (threads, handlers) must not keep or change the answer.
    os._exit(0)


def _shift_clock(seconds: int) -> None:
    """Sets the clock ahead for what asks Python's `time`, where it cannot be for all. To be called before a
    module of the user's takes a function of it."""
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() + seconds
    time.time_ns = lambda: now_ns() + seconds * 1_000_000_000

    def told(of: Callable[[Any], Any]) -> Callable[..., Any]:
        return lambda at=None: of(time.time() if at is None else at)

    time.localtime, time.gmtime, time.ctime = map(told, (time.localtime, time.gmtime, time.ctime))
    asctime, strftime = time.asctime, time.strftime
    time.asctime = lambda at=None: asctime(time.localtime() if at is None else at)
    time.strftime = lambda form, at=None: strftime(form, time.localtime() if at is None else at)


def _bound_memory() -> None:
    """Whatever the steps need, the job is not to suffer: this process fails first, and is ended first."""
    try:
        with open("/proc/meminfo") as file:
            free = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:"))
        limit = int(free * _MEMORY_SHARE)
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard == resource.RLIM_INFINITY or limit < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except (OSError, ValueError, StopIteration):
        return


def _become(header: Report) -> None:
    """Takes the parent's place as far as code can see: its modules' folders and its arguments."""
    sys.path[:] = header["path"]
    sys.argv[:] = header["argv"]
    if header["safe_path"] is None:
        os.environ.pop("PYTHONSAFEPATH", None)
    for name in header["modules"]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    # Digests must be the parent's. Nothing else of the native module is used here, `PREBAKE` being off.
    digests.native_module = lambda: _NATIVE


class _Native:
    """The native module, whose reads of files are none of the steps': what it read for a description counts
    by its content."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_native, name)

    def hash_file(self, path: str) -> Any:
        _opened.add(os.path.abspath(path))
        return _native.hash_file(path)


_NATIVE = _Native()


def _seed() -> None:
    random.seed(_SEED)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(_SEED)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(_SEED)


def _report(task: io.BytesIO, items: list[int]) -> Report:
    try:
        # Which code runs as it is imported is asked of none, and to hear of it costs more than the probe.
        with Recorder() as loaded, unheard():
            sources, steps = pickle.load(task)
        _opened.update(loaded.reads)
    except BaseException as error:
        return {"error": _words(error)}
    # By this the tracer tells what importing the job's packages read.
    os.access(LOADED, os.F_OK)
    _seed()
    scopes = [Scope() for _ in steps]
    first: Report = {}
    before: list[_State] = []
    changed = [False] * len(steps)

    def look() -> None:
        now = [_state(step) for step in steps]
        if before:
            changed[:] = [c or _differ(a, b) for c, a, b in zip(changed, before, now, strict=True)]
        before[:] = now

    for i in reversed(items):
        first[str(i)] = _ran(sources[i], steps, scopes)
        if len(first) == 1:
            # What changes with the first item only is preparation: a file opened, a table read.
            look()
    look()
    opened = kept_readers.found(steps[0], first, lambda i: _ran(sources[i], steps[:1], [Scope()])[0])
    if opened:
        # From here on there are copies.
        before.clear()
        look()
    # No item after the same item as before.
    second = {str(i): _ran(sources[i], steps, scopes) for i in items[1::2] + items[::2]}
    if opened and kept_readers.are_dear(items, first, second):
        changed[0] = True
    took = sum(seen["cpu_seconds"] for ran in second.values() for seen in ran)
    is_alone = len(items) == 1
    is_cheap = is_alone or took <= _CHEAP_SECONDS * len(items)
    look()
    for at, step in enumerate(steps):
        together = getattr(step, "together", None)
        if together is not None:
            _compare(together, at, [i for i in items if len(first[str(i)]) > at], first, changed)
    until = (_FURTHER_SECONDS, _FURTHER_WALL_SECONDS) if is_alone else (_OTHERS_SECONDS, _OTHERS_WALL_SECONDS)
    is_harmless = is_cheap and not _acts(first)
    unsteady, others, failed = _others(task, steps, set(items), until) if is_harmless else ([], {}, False)
    told = {
        "passes": [first, second],
        "changed": changed,
        "loaded": {"reads": [path for path in loaded.reads if is_users(path)], "network": loaded.network},
        "ran": _beside(steps, scopes),
        "unsteady": unsteady,
        "others": others,
        "failed": failed,
        "kept open": opened,
        "holds unseen": not before[0][0],
    }
    # Last: what else is traced was opened by compiled code.
    return {**told, "opened": sorted(_opened), "mapped": _programs()}


def _acts(passed: Report) -> bool:
    """Whether making items does more than that: then no more are made than have to be."""
    found = (seen for steps in passed.values() for seen in steps)
    return any(seen["effects"] or seen["switched"] or seen["network"] or seen["process"] for seen in found)


def _others(
    task: io.BytesIO, steps: list[Callable[[Any], Any]], known: set[int], seconds: tuple[float, float]
) -> tuple[list[tuple[int, int]], dict[int, str], bool]:
    """Other items, as far as some were sent and there is CPU and wall time: those that are not the same when
    they are made again, and after which step; the digests of the rest; and whether one failed. One that draws
    from a generator that is watched is seen when its turn comes."""
    unsteady: list[tuple[int, int]] = []
    same: dict[int, str] = {}
    failed = False
    if task.tell() == len(task.getbuffer()):
        return unsteady, same, failed
    sources, _ = pickle.load(task)
    cpu, until = time.process_time() + seconds[0], time.monotonic() + seconds[1]
    for i in sorted(sources.keys() - known):
        if time.process_time() > cpu or time.monotonic() > until:
            break
        once, again = (_ran(sources[i], steps, [Scope() for _ in steps]) for _ in range(2))
        failed = failed or any(seen["error"] for seen in (*once, *again))
        if not any(seen["error"] or seen["drew"] for seen in (*once, *again)):
            pairs = enumerate(zip(once, again, strict=True))
            differ = [(i, j) for j, (a, b) in pairs if a["digest"] != b["digest"]]
            unsteady += differ[:1]
            if not differ:
                same[i] = once[-1]["digest"]
    return unsteady, same, failed


def _compare(
    together: Callable[[list[int]], list[Any]], at: int, items: list[int], alone: Report, changed: list[bool]
) -> None:
    """Whether a step makes the same of items one after the other as of each alone; else it changed itself."""
    try:
        made = list(map(element_digest, together(items)))
    except BaseException:
        # Alone it did not fail, or was judged for that.
        changed[at] = True
        return
    changed[at] |= any(
        digest.hex() != alone[str(i)][at]["digest"] for i, digest in zip(items, made, strict=True) if digest
    )


def _beside(steps: list[Callable[[Any], Any]], scopes: list[Scope]) -> list[list[str]]:
    """Of each step, what it ran or read beside what describes it and the others."""
    reached = Reached()
    for step in steps:
        try:
            reached.update(identify(step).reached)
        except Exception:
            # What cannot be described runs in the job.
            continue
    # For what runs in a step that its user vouches for, he does too.
    return [[] if is_pure(step) else scope.names(reached) for step, scope in zip(steps, scopes, strict=True)]


def _ran(value: Any, steps: list[Callable[[Any], Any]], scopes: list[Scope]) -> list[Report]:
    """What was seen of each step, to the first that fails."""
    found = []
    look: Callable[[Any], bytes] = digest
    known = digest(value)
    for step, scope in zip(steps, scopes, strict=True):
        held = _generators(step)
        token = tripwire.state()
        error, result = "", None
        around, switches = world.current(), Switches()
        with Recorder(scope=scope) as record:
            # What it takes to watch it is none of the item's.
            cpu, began = time.process_time(), time.monotonic()
            try:
                result = step(value)
            except BaseException as raised:
                error = _words(raised)
            cpu, seconds = time.process_time() - cpu, time.monotonic() - began
        _opened.update(record.reads)
        switched = switches.changed(around)
        drew = tripwire.moved(token) or _drawn(held) or _from_system(record)
        mutated = "what it is given" if known and look(value) != known else ""
        # Between steps only what can be stored is ever given to a step twice.
        value, look, known = result, element_digest, b"" if error else element_digest(result)
        found.append(
            {
                "digest": (known or (b"" if error else digest(result))).hex(),
                "error": error,
                "cpu_seconds": cpu,
                "seconds": seconds,
                "drew": drew or "",
                "mutated": mutated,
                "switched": switched,
                "network": record.network or "",
                "process": record.process or "",
                "incomplete": record.incomplete or "",
                "reads": list(record.reads),
                "listed": list(record.listed),
                "objects": list(record.objects),
                "effects": list(record.effects()),
            }
        )
        if error:
            break
    return found


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]


def _generators(step: Any) -> list[tuple[Any, Any]]:
    """Generators that a step holds, and what each is at."""
    found = ((each, generators.held_state(each)) for each in _held(step))
    return [(each, state) for each, state in found if state is not None]


def _drawn(held: Iterable[tuple[Any, Any]]) -> str | None:
    return next(
        (
            f"a {type(each).__qualname__} of its own"
            for each, was in held
            if generators.held_state(each) != was
        ),
        None,
    )


def _from_system(record: Record) -> str | None:
    return next((path for path in ("/dev/urandom", "/dev/random") if path in record.reads), None)


_State = tuple[bytes, list[Any]]


def _state(step: Any) -> _State:
    """What a step is and holds: by content if that can be told, and by identity."""
    try:
        content = identify(step).digest
    except Exception:
        content = b""
    # What it holds by identity is to be let go of where it is closed.
    return content, [] if content else _held(step)


def _held(step: Any) -> list[Any]:
    """What a step reaches; of the user's modules, what its functions name in them."""
    found = snapshot.take([step])
    named: list[Any] = []
    for function in found:
        if isinstance(function, types.FunctionType):
            used = instructions.references(function.__code__)
            reached = [function.__globals__.get(name) for name in used.globals]
            for module in reached:
                if isinstance(module, types.ModuleType) and packages.owner(module.__name__) is None:
                    named += [vars(module)[name] for name in sorted(used.names & vars(module).keys())]
    return found + snapshot.take(named)


def _differ(a: _State, b: _State) -> bool:
    return a[0] != b[0] if a[0] and b[0] else not snapshot.same(a[1], b[1])


def _programs() -> list[str]:
    """Programs and libraries in memory."""
    with open("/proc/self/maps") as file:
        lines = [line.rstrip("\n").split(maxsplit=5) for line in file]
    return sorted({line[5] for line in lines if len(line) == 6 and "x" in line[1] and line[5][0] == "/"})


if __name__ == "__main__":
    main()
