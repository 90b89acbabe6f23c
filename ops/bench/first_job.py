"""A fresh job's first batch of a warm cache, and its looks at each item: `python first_job.py FOLDER`.

The last line of output is the answer, JSON: milliseconds from after the imports to the batch, and what that
takes beyond computing two items; microseconds for each of the other items of its first pass, of `wrapped[i]`,
and of a look at all inputs anew. One more argument, which no job had before, makes a world in which nothing
is proven.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from elements import BATCH, element, files, touch

import prebake
from prebake import _native
from prebake.identity import graph
from prebake.identity.code import identify
from prebake.sources.source import FileSource

#: Between two looks whether all inputs were looked at: a hundredth of what that takes.
LOOK_SECONDS = 100e-6


def getitem_us(wrapped: Any) -> float:
    """Mean time of `wrapped[i]` over all items in turn, the look at its file included."""
    start = time.perf_counter_ns()
    for i in range(len(wrapped)):
        wrapped[i]
    return (time.perf_counter_ns() - start) / len(wrapped) / 1e3


def two_items_ms(paths: list[str]) -> float:
    """Time of computing two items once more, as a new world has it done."""
    start = time.perf_counter()
    for path in paths[:2]:
        element(path)
    return (time.perf_counter() - start) * 1e3


def validate_us(folder: Path, paths: list[str]) -> float:
    """Time per item of looking at every input again, by a job that does so for the first time."""
    job = _native.connect(None, "bench", False)
    step = graph.step(element, identify(element))
    step = graph.in_folder(step, FileSource(paths, [], None, False).folder)
    collection = job.plan(graph.chain([graph.files(False), step]))
    items = collection.files(str(folder), paths)
    while missing := items.missing(range(len(paths))):
        if items.acquire(missing, [], 1) != ([], {}):
            raise RuntimeError("the cache was not warm: elements were to be computed")
    start = time.perf_counter_ns()
    items.validate()
    # A thread goes on with it, for what is far ahead.
    while items.looked_at()[0] < len(paths):
        time.sleep(LOOK_SECONDS)
    return (time.perf_counter_ns() - start) / len(paths) / 1e3


def main() -> None:
    """The command line."""
    folder = Path(sys.argv[1])
    paths = files(folder)
    start = time.perf_counter()
    wrapped = prebake.wrap(paths, [element])
    batches = wrapped.batches(size=BATCH)
    touch([next(batches)])
    first = time.perf_counter()
    touch(batches)
    rest = time.perf_counter()
    answer = {
        "first_batch_ms": (first - start) * 1e3,
        "unproven_batch_ms": (first - start) * 1e3 - two_items_ms(paths),
        "first_epoch_us_per_item": (rest - first) / (len(paths) - BATCH) * 1e6,
        "getitem_us": getitem_us(wrapped),
        "validate_us_per_item": validate_us(folder, paths),
    }
    if wrapped.stats()["computed"]:
        raise RuntimeError(f"the cache was not warm: {wrapped.stats()}")
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
