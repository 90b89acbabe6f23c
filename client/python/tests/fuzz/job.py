"""One run: `python job.py SEED FOLDER RUN`.

The seed says which data set, pipeline and edits; the run, in which order items are read. Prints each batch,
each edit, and after each epoch the states of the generators; if it runs cached, at last what was computed and
reused. All but that must be the same without a cache.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import prebake

SEED, FOLDER, RUN = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
CACHED = os.environ["PREBAKE"] != "off"
EPOCHS = 6
#: Edits in the midst of an epoch, per batch; there is one after each.
EDITS_SHARE = 0.05
#: Pauses after an epoch: for what is done beside the job, and for files to be old enough to be trusted.
PAUSES_SHARE = 0.2
PAUSE_SECONDS = 0.25


def take_in(name: str) -> None:
    """Runs a module's text in this script's own namespace, as if all were in one file: what is `__main__`'s
    has no name by which another process could import it, and is sent by value."""
    source = Path(__file__).with_name(f"{name}.py")
    exec(compile(source.read_text(), str(source), "exec"), globals())
    sys.modules[name] = sys.modules["__main__"]


for module in ("steps", "datasets") if SEED % 2 == 0 else ():
    take_in(module)

datasets = importlib.import_module("datasets")
edits = importlib.import_module("edits")
images = importlib.import_module("images")
pipeline = importlib.import_module("pipeline")
target = importlib.import_module("target")


def digest(x: Any) -> Any:
    """What tells one value from another, down to the last bit of an array."""
    if isinstance(x, dict):
        return {key: digest(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [type(x).__name__, *map(digest, x)]
    if isinstance(x, np.ndarray):
        return [str(x.dtype), x.shape, x.strides, hashlib.sha256(x.tobytes()).hexdigest()[:16]]
    return [type(x).__name__, repr(x)]


def generators() -> str:
    """The states of the generators that steps draw from."""
    states = repr(random.getstate()), repr(np.random.get_state(legacy=False))
    return " ".join(hashlib.sha256(state.encode()).hexdigest()[:16] for state in states)


def say(*words: Any) -> None:
    print(*words, flush=True)


class Job:
    def __init__(self) -> None:
        numbers = random.Random(SEED)
        kind = numbers.choice(datasets.KINDS)
        transform = pipeline.draw(numbers)
        raw = kind(FOLDER, transform)
        files = images.paths(FOLDER)
        self.target = target.Target(raw, transform.transforms, FOLDER, files, files[0], numbers)
        #: Of this run alone.
        self.orders = random.Random(SEED * 1000 + RUN)
        self.ways = random.Random(SEED * 77 + RUN)
        self.dataset: Any = raw
        if CACHED:
            listed = kind is datasets.Listed
            self.dataset = prebake.wrap(raw.files, raw.steps) if listed else prebake.wrap(raw)
        say(
            "KIND",
            kind.__name__,
            [getattr(step, "__name__", type(step).__name__) for step in transform.transforms],
        )

    def epoch(self, number: int) -> None:
        """Reads all, or some, in order or not, by batches."""
        how = self.orders.choice(["full", "shuffled", "partial", "single"])
        say("EPOCH", number, how)
        order = list(range(len(self.target.raw)))
        if how != "full":
            self.orders.shuffle(order)
        if how in ("partial", "single"):
            order = order[: self.orders.randrange(1, 9)]
        size = self.orders.choice([1, 3, 7])
        for start in range(0, len(order), size):
            batch = order[start : start + size]
            say(json.dumps([batch, digest(self.read(batch))]))
            if self.orders.random() < EDITS_SHARE:
                self.edit()
        say("GENERATORS", generators())
        self.edit()
        if self.orders.random() < PAUSES_SHARE:
            time.sleep(PAUSE_SECONDS)

    def read(self, batch: list[int]) -> list[Any]:
        """One by one, as the uncached run does, or at once, as loaders do: it must not make a difference."""
        if CACHED and self.ways.random() < 0.5:
            return self.dataset.__getitems__(batch)
        return [self.dataset[i] for i in batch]

    def edit(self) -> None:
        name = edits.draw(self.target.numbers)
        say("EDIT", name)
        self.target.file = self.target.numbers.choice(self.target.files)
        edits.EDITS[name](self.target)


if __name__ == "__main__":
    random.seed(SEED * 7 + RUN)
    np.random.seed((SEED * 7 + RUN) % 2**32)
    job = Job()
    for epoch in range(EPOCHS):
        job.epoch(epoch)
    if CACHED:
        say("STATS", json.dumps(job.dataset.stats()))
