"""A job of the rows of knowing: `python knowing_job.py watch | first FOLDER | look FOLDER`.

The last line of output is the answer, JSON.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import prebake
from prebake import _native, graph, snapshot, tripwire
from prebake.reads import Recorder

#: Calls in one measurement.
CALLS = 2_000
OBJECTS = 200
#: Items asked for at once where all of a data set is looked at: as many as one request takes.
CHUNK = 1_024


@prebake.pure
def load(path: str) -> Any:
    """A step that costs next to nothing."""
    with open(path, "rb") as file:
        return np.frombuffer(file.read(), np.uint8)


def each(call: Callable[[], Any]) -> float:
    """Nanoseconds of a call, on average."""
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - start) / CALLS


def watch() -> dict[str, Any]:
    """What is done around every fill, without a fill in it."""

    def record() -> None:
        with Recorder():
            pass

    record()
    held = [[] for _ in range(OBJECTS - 1)]
    nothing: list[Any] = []
    return {
        "rng_tripwire_us": [each(lambda: tripwire.moved(tripwire.state())) / 1e3],
        "recorder_us": [each(record) / 1e3],
        "audit_event_ns": [each(lambda: gc.get_referents(nothing))],
        "snapshot_200_us": [each(lambda: snapshot.take(held)) / 1e3],
    }


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
    """All inputs looked at by a job that does not know them, and once more."""
    paths = files(folder)
    job = _native.connect(None, "bench", False)
    described = graph.chain([graph.files(False), graph.step(load, graph.identify(load))])
    items = job.plan(described).files(None, paths)
    start = time.perf_counter()
    for at in range(0, len(paths), CHUNK):
        granted, _ = items.acquire(range(at, min(len(paths), at + CHUNK)), [], 1)
        items.release(granted)
    check = time.perf_counter() - start
    start = time.perf_counter()
    if items.validate():
        raise RuntimeError("files changed while they were measured")
    return {"million_check_s": check, "million_again_s": time.perf_counter() - start}


def main() -> None:
    """The command line."""
    kind, *arguments = sys.argv[1:]
    kinds = {"first": first, "look": look}
    print(json.dumps(watch() if kind == "watch" else kinds[kind](Path(arguments[0]))))


if __name__ == "__main__":
    main()
