"""One job of the demonstration: a process that runs a pipeline and says how it went, in JSON lines.

It says `ready` after its imports and a warm-up of Pillow, waits for a line, runs, and says `done`. Only
the time from then on counts; the digests of what it got are made after the clock has stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import prebake
from prebake.demo import pipeline

BATCH = 50


def images(folder: str, count: int) -> list[str]:
    """The first `count` images of a folder, by name."""
    suffixes = (".jpg", ".jpeg")
    return [str(path) for path in sorted(Path(folder).rglob("*")) if path.suffix.lower() in suffixes][:count]


def say(**message: Any) -> None:
    """One line to the parent."""
    print(json.dumps(message), flush=True)


def cpu_seconds() -> float:
    """User and system time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Record:
    """What a job got.

    Its memory is there before the clock starts: copying into it reads every byte once, as a model would, and
    is all that recording costs.
    """

    def __init__(self, elements: int) -> None:
        size = pipeline.SIZE
        self.values = np.ones((elements, size, size, 3), np.uint8)
        self.types: list[str] = []

    def take(self, batch: Any) -> None:
        """Adds a batch: an array, or a list of elements."""
        for part in batch if isinstance(batch, list) else [batch]:
            elements = part.reshape(-1, *self.values.shape[1:])
            self.values[len(self.types) : len(self.types) + len(elements)] = elements
            self.types += [f"{part.dtype.str}{part.shape[-3:]}"] * len(elements)

    def digest(self) -> str:
        """Of every element's type, shape and bytes, in order."""
        return hashlib.sha256("".join(self.types).encode() + self.values.data).hexdigest()


def epoch(dataset: prebake.Dataset, order: list[int], record: Record, edit: bool = False) -> Record:
    """One pass in an order. With `edit`, every array is changed in place after it was recorded."""
    for batch in dataset.batches(order, BATCH):
        record.take(batch)
        say(progress=len(record.types), of=len(order))
        if edit:
            for element in batch:
                element += 1
    return record


def main() -> None:
    """Reads its task (JSON) from a variable."""
    task = json.loads(os.environ["PREBAKE_DEMO_TASK"])
    files = images(task["folder"], task["images"])
    shuffles = random.Random(task["order_seed"])
    record = Record(len(files))
    pipeline.warm_up()
    say(ready=True)
    sys.stdin.readline()
    cpu, wall = cpu_seconds(), time.perf_counter()
    dataset = prebake.wrap(files, pipeline.transforms(task["pipeline"], task["seed"]), root=task["folder"])
    order = list(range(len(files)))
    shuffles.shuffle(order)
    epoch(dataset, order, record, edit=task["edit"])
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    # The parent reads the daemon's clock before any of this job's digests run.
    say(stopped=True)
    sys.stdin.readline()
    random_cpu_s = pipeline.random_cpu_ns / 1e9
    digests = [record.digest()]
    if task["edit"]:
        shuffles.shuffle(order)
        digests.append(epoch(dataset, order, Record(len(files))).digest())
    say(
        done={
            "wall_s": wall,
            "cpu_s": cpu,
            "random_cpu_s": random_cpu_s,
            "digests": digests,
            **dataset.stats(),
        }
    )


if __name__ == "__main__":
    main()
