"""A job of the warm rows: `python warm_job.py plan | fill FOLDER | read FOLDER PAIRS`.

`fill` computes every element in order and writes the same bytes to one file; `read`, another process, then
reads both by turns. The last line of output is the answer, JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import prebake
from prebake import _demo_pipeline, _native, graph
from prebake.code import identify

SHAPE = (224, 224, 3)
BATCH = 50
#: Passes over everything in one measurement, which then takes some 100 ms.
EPOCHS = 3
#: Calls of a measurement of `plan`, and before it.
PLANS, PLANS_BEFORE = 2_000, 100
VALUES = "values.bin"


def element(path: str) -> Any:
    """Random bytes, the same for the same file."""
    seed = int(Path(path).read_text())
    return np.random.default_rng(seed).integers(0, 256, SHAPE, np.uint8)


def files(folder: Path) -> list[str]:
    """The inputs, in order."""
    return sorted(str(path) for path in folder.glob("*.txt"))


def described(transforms: list[Any]) -> str:
    """The graph of transforms over files."""
    return graph.chain([graph.files(False), *(graph.step(each, identify(each)) for each in transforms)])


def plan() -> dict[str, Any]:
    """Median round trip of naming a pipeline of three transforms."""
    job = _native.connect(None, "bench", False)
    pipeline = described(_demo_pipeline.transforms("eval", 0))
    spent = []
    for _ in range(PLANS_BEFORE + PLANS):
        start = time.perf_counter_ns()
        job.plan(pipeline)
        spent.append(time.perf_counter_ns() - start)
    return {"p50_us": statistics.median(spent[PLANS_BEFORE:]) / 1e3}


def fill(folder: Path) -> dict[str, Any]:
    """Makes every element, by one sequential job, and the file to compare with."""
    wrapped = prebake.wrap(files(folder), [element])
    with (folder / VALUES).open("wb") as values:
        for batch in wrapped.batches(size=BATCH):
            values.write(batch.data)
        return {"bytes": values.tell()}


def touch(batches: Iterable[Any]) -> int:
    """Reads every byte: the sum of all 8-byte words."""
    total = 0
    for batch in batches:
        total += int(batch.reshape(-1).view(np.uint64).sum())
    return total


def pair(cached: Callable[[], Iterable[Any]], mapped: Callable[[], Iterable[Any]]) -> float:
    """Speed of the cached reads over the mapped file's. Raises if they read different bytes."""
    seconds = []
    sums = set()
    for batches in (cached, mapped):
        start = time.perf_counter()
        for _ in range(EPOCHS):
            sums.add(touch(batches()))
        seconds.append(time.perf_counter() - start)
    if len(sums) != 1:
        raise RuntimeError("the cached bytes differ from the file's")
    return seconds[1] / seconds[0]


def read(folder: Path, pairs: int) -> dict[str, Any]:
    """All rows of a filled cache. Both sides stay mapped; each is read before pairs of them are measured."""
    paths = files(folder)
    wrapped = prebake.wrap(paths, [element])
    values = np.memmap(folder / VALUES, np.uint8, "r").reshape(-1, *SHAPE)
    starts = range(0, len(values), BATCH)

    def sequential() -> float:
        return pair(
            lambda: wrapped.batches(size=BATCH), lambda: (values[start : start + BATCH] for start in starts)
        )

    def shuffled() -> float:
        order = numbers.permutation(len(values))
        listed = order.tolist()
        return pair(
            lambda: wrapped.batches(listed, BATCH),
            lambda: (values[order[start : start + BATCH]] for start in starts),
        )

    numbers = np.random.default_rng(0)
    start = time.perf_counter()
    touch(wrapped.batches(size=BATCH))
    first_us = (time.perf_counter() - start) / len(values) * 1e6
    sequential()
    answer = {
        "first_epoch_us_per_item": [first_us],
        "warm_seq_vs_memmap": [sequential() for _ in range(pairs)],
        "warm_shuffled_vs_memmap": [shuffled() for _ in range(pairs)],
        "getitem_us": [getitem_us(wrapped) for _ in range(pairs)],
        "validate_us_per_item": validate_us(folder, paths, pairs),
    }
    if wrapped.stats()["computed"]:
        raise RuntimeError(f"the cache was not warm: {wrapped.stats()}")
    return answer


def getitem_us(wrapped: Any) -> float:
    """Mean time of `wrapped[i]` over all items in turn, the look at its file included."""
    start = time.perf_counter_ns()
    for i in range(len(wrapped)):
        wrapped[i]
    return (time.perf_counter_ns() - start) / len(wrapped) / 1e3


def validate_us(folder: Path, paths: list[str], times: int) -> list[float]:
    """Times per item of looking at every input again, by jobs that do so for the first time."""
    job = _native.connect(None, "bench", False)
    spent = []
    for _ in range(times):
        items = job.plan(described([element])).files(str(folder), paths)
        while missing := items.missing(range(len(paths))):
            if items.acquire(missing, [], 1) != ([], {}):
                raise RuntimeError("the cache was not warm: elements were to be computed")
        start = time.perf_counter_ns()
        items.validate()
        spent.append((time.perf_counter_ns() - start) / len(paths) / 1e3)
    return spent


def main() -> None:
    """The command line."""
    kind, *arguments = sys.argv[1:]
    if kind == "plan":
        answer = plan()
    elif kind == "fill":
        answer = fill(Path(arguments[0]))
    else:
        answer = read(Path(arguments[0]), int(arguments[1]))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
