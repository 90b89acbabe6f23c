"""A job of the rows of knowing: `python knowing_job.py watch | first FOLDER | look FOLDER | check FOLDER`.

The last line of output is the answer, JSON.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import prebake
from prebake import _native
from prebake.execution.scope import Scope
from prebake.identity import graph, snapshot
from prebake.identity.code import identify
from prebake.purity import tripwire
from prebake.reads.recorder import Recorder

#: Calls in one measurement.
CALLS = 2_000
OBJECTS = 200
#: Items asked for at once where all of a data set is looked at: as many as one request takes.
CHUNK = 1_024
#: Files of the small data set, and numbers in each.
ITEMS, BYTES = 500, 25
#: A file's `stat` is trusted once the file has been left alone for two seconds.
SETTLE_SECONDS = 2.5
#: Asking whether all is looked at counts them, under the lock of those that look: of a million, 10 ms. Asked
#: fifty times a second it took as long as the looks.
POLL_SECONDS = 0.2
#: Nothing is looked at beside a job for four times as long as the last look took: a little longer than that.
REST = 5
#: Ten times what it may take.
LOOKING_SECONDS_MAX = 100.0


@prebake.pure
def load(path: str) -> Any:
    """A step that costs next to nothing."""
    with open(path, "rb") as file:
        return np.frombuffer(file.read(), np.uint8)


def each(call: Callable[[], Any]) -> float:
    """Nanoseconds of this thread's CPU time for a call, on average."""
    start = time.thread_time_ns()
    for _ in range(CALLS):
        call()
    return (time.thread_time_ns() - start) / CALLS


def watch() -> dict[str, Any]:
    """What is done around every fill, without a fill in it."""

    def record() -> None:
        with Recorder():
            pass

    scope = Scope()

    def record_code() -> None:
        with Recorder(scope=scope):
            pass

    record()
    record_code()
    held = [[] for _ in range(OBJECTS - 1)]
    taken = snapshot.Snapshot(held)
    nothing: list[Any] = []
    return {
        "rng_tripwire_us": [each(lambda: tripwire.moved(tripwire.state())) / 1e3],
        "recorder_us": [each(record) / 1e3],
        "code_us": [each(record_code) / 1e3],
        "audit_event_ns": [each(lambda: gc.get_referents(nothing))],
        "snapshot_us": [each(lambda: taken.holds(held)) / 1e3],
        "hit_us": [_hit()],
    }


def _hit() -> float:
    """CPU microseconds for one element of a data set like torchvision's ImageFolder, in shuffled order."""
    with tempfile.TemporaryDirectory(prefix="prebake-bench-") as folder:
        paths = [os.path.join(folder, str(i)) for i in range(ITEMS)]
        for i, path in enumerate(paths):
            Path(path).write_bytes(i.to_bytes(4, "big") * BYTES)
            os.utime(path, (1_000_000_000, 1_000_000_000))
        time.sleep(SETTLE_SECONDS)
        wrapped = prebake.wrap(Folder(paths))
        order = random.Random(0).choices(range(ITEMS), k=CALLS)
        for i in order:
            wrapped[i]
        start = time.thread_time_ns()
        for i in order:
            wrapped[i]
        spent = time.thread_time_ns() - start
        if wrapped.stats()["reused"] < CALLS:
            raise RuntimeError(f"not all were hits: {wrapped.stats()}")
        return spent / CALLS / 1e3


class Scale:
    """A step with a parameter."""

    def __init__(self, by: int) -> None:
        self.by = by

    def __call__(self, value: Any) -> Any:
        return value * self.by


class Compose:
    """As torchvision's."""

    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value


class Folder:
    """As torchvision's ImageFolder."""

    def __init__(self, paths: list[str]) -> None:
        self.samples = [(path, i) for i, path in enumerate(paths)]
        self.loader = load
        self.transform = Compose([Scale(1), Scale(2), Scale(3)])

    def __getitem__(self, i: int) -> Any:
        path, target = self.samples[i]
        return self.transform(self.loader(path)), target

    def __len__(self) -> int:
        return len(self.samples)


def files(folder: Path) -> list[str]:
    """All of them, in order."""

    def below(path: Any) -> list[Any]:
        return sorted(os.scandir(path), key=lambda entry: entry.name)

    return [entry.path for outer in below(folder) for entry in below(outer.path)]


def first(folder: Path) -> dict[str, Any]:
    """From the list of the files to the first batch."""
    paths = files(folder)
    start = time.perf_counter()
    next(prebake.wrap(paths, [load]).batches())
    return {"first_s": time.perf_counter() - start}


def look(folder: Path) -> dict[str, Any]:
    """All inputs read by a job that does not know them, and the first of them stored."""
    paths = files(folder)
    next(prebake.wrap(paths, [load]).batches())
    job = _native.connect(None, "bench", False)
    described = graph.chain([graph.files(False), graph.step(load, identify(load))])
    items = job.plan(described).files(None, paths)
    start = time.perf_counter()
    for at in range(0, len(paths), CHUNK):
        granted, _ = items.acquire(range(at, min(len(paths), at + CHUNK)), [], 1)
        items.release(granted)
    return {"read_s": time.perf_counter() - start}


def check(folder: Path) -> dict[str, Any]:
    """All inputs looked at beside a job that reads its first batch, and before the next two epochs."""
    paths = files(folder)
    start = time.perf_counter()
    wrapped = prebake.wrap(paths, [load])
    next(wrapped.batches())
    first = time.perf_counter() - start
    items = wrapped._pipeline.client.collection.items()
    checked = _all_looked_at(items, start)
    begin, again = _epoch(items, checked)
    _, quiet = _epoch(items, again)
    return {
        "first_s": first,
        "check_s": checked,
        "begin_ms": begin * 1e3,
        "again_s": again,
        "again_us": again / len(paths) * 1e6,
        "quiet_us": quiet / len(paths) * 1e6,
    }


def _epoch(items: Any, before: float) -> tuple[float, float]:
    """Seconds until the caller may go on, and until all is looked at; the epoch before took so many."""
    time.sleep(REST * before)
    start = time.perf_counter()
    items.validate()
    return time.perf_counter() - start, _all_looked_at(items, start)


def _all_looked_at(items: Any, start: float) -> float:
    while (looked := items.looked_at()) != (len(items), len(items)):
        if time.perf_counter() - start > LOOKING_SECONDS_MAX:
            raise RuntimeError(f"of {len(items)} items, {looked[1]} are known and {looked[0]} looked at")
        time.sleep(POLL_SECONDS)
    return time.perf_counter() - start


def main() -> None:
    """The command line."""
    kind, *arguments = sys.argv[1:]
    kinds = {"first": first, "look": look, "check": check}
    print(json.dumps(watch() if kind == "watch" else kinds[kind](Path(arguments[0]))))


if __name__ == "__main__":
    main()
