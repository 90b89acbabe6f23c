"""One job of the demonstration: a process that runs a pipeline and says how it went, in JSON lines.

It says `ready` after its imports, waits for a line, runs, and says `done`. Only the time from then on counts;
the digests of what it got are made after the clock has stopped.
"""

from __future__ import annotations

import hashlib
import json
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import prebake
from prebake import _demo_pipeline

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


def digest(batches: list[Any]) -> str:
    """Of every element's type, shape and bytes, in order."""
    total = hashlib.sha256()
    for batch in batches:
        for element in batch:
            total.update(f"{element.dtype.str}{element.shape}".encode())
            total.update(np.ascontiguousarray(element))
    return total.hexdigest()


def epoch(dataset: prebake.Dataset, order: list[int]) -> list[Any]:
    """One pass in an order; every byte is read once, as a model would."""
    kept, done = [], 0
    for batch in dataset.batches(order, BATCH):
        for part in batch if isinstance(batch, list) else [batch]:
            part.max()
        kept.append(batch)
        done += len(batch)
        say(progress=done, of=len(order))
    return kept


def main() -> None:
    """Reads its task (JSON) from the command line."""
    task = json.loads(sys.argv[1])
    files = images(task["folder"], task["images"])
    shuffles = random.Random(task["order_seed"])
    say(ready=True)
    sys.stdin.readline()
    cpu, wall = cpu_seconds(), time.perf_counter()
    dataset = prebake.wrap(
        files, _demo_pipeline.transforms(task["pipeline"], task["seed"]), root=task["folder"]
    )
    order = list(range(len(files)))
    shuffles.shuffle(order)
    kept = epoch(dataset, order)
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    # The parent reads the daemon's clock before any of this job's digests run.
    say(stopped=True)
    sys.stdin.readline()
    random_cpu_s = _demo_pipeline.random_cpu_ns / 1e9
    digests = [digest(kept)]
    if task["edit"]:
        for batch in kept:
            for element in batch:
                element += 1
        del kept, batch, element
        shuffles.shuffle(order)
        digests.append(digest(epoch(dataset, order)))
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
