"""One job of the scenario tests: reads files through a pipeline as its task (JSON) says."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

import prebake
from prebake.runtime import daemon


def note_decode() -> None:
    """One byte for each decode; dies or waits where the task says so."""
    count = os.open(os.environ["PREBAKE_TEST_DECODES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(count, b".")
    os.close(count)
    Steps.decoded += 1
    if Steps.decoded == Steps.die_after:
        os.kill(os.getpid(), signal.SIGKILL)
    if Steps.decoded == Steps.pause_after:
        pause()


class Steps:
    """How far this process is."""

    decoded = 0
    die_after: int | None = None
    pause_after: int | None = None


def pause() -> None:
    """Waits until the test says to go on."""
    print("paused", flush=True)
    sys.stdin.readline()


@prebake.pure
class Decode:
    """A file as an array. Its bookkeeping is reached so that it is no part of its fingerprint."""

    def __call__(self, path: str) -> Any:
        sys.modules["__main__"].note_decode()
        return np.asarray(Image.open(path).convert("RGB"))


@prebake.pure
class Shrink:
    """To a square of a size."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, image: Any) -> Any:
        return np.asarray(Image.fromarray(image).resize((self.size, self.size)))


@prebake.pure
class Flip:
    """Randomly, by the job's own numbers."""

    def __init__(self, seed: int) -> None:
        self.numbers = random.Random(seed)

    def __call__(self, image: Any) -> Any:
        return np.array(image[:, ::-1] if self.numbers.random() < 0.5 else image)


def digest(element: Any) -> str:
    return hashlib.sha256(f"{element.dtype.str}{element.shape}".encode() + element.tobytes()).hexdigest()


def epoch(dataset: prebake.Dataset, order: list[int], task: dict[str, Any]) -> list[str]:
    """Digests of the elements by item; with `edit`, each batch is written over once it is read."""
    digests = [""] * len(order)
    if task.get("by_item"):
        for i in order:
            digests[i] = digest(dataset[i])
        return digests
    place = 0
    for number, batch in enumerate(dataset.batches(order, task.get("batch", 8))):
        if number == task.get("pause_before_batch"):
            pause()
        for element in batch:
            digests[order[place]] = digest(element)
            place += 1
            if task.get("edit"):
                element[...] = 255 - element
    return digests


def main() -> None:
    task = json.loads(os.environ["PREBAKE_TEST_TASK"])
    if task.get("retry_at_once"):
        daemon.RETRY_SECONDS = 0.0
    Steps.die_after, Steps.pause_after = task.get("die_after"), task.get("pause_after")
    transforms: list[Any] = [Decode(), Shrink(task.get("size", 32))]
    if "flip" in task:
        transforms.insert(1, prebake.random(Flip(task["flip"])))
    dataset = prebake.wrap(task["files"], transforms, root=task.get("root"))
    order = list(range(len(task["files"])))
    digests = []
    for number in range(task.get("epochs", 1)):
        if number and task.get("pause_between"):
            pause()
        if "shuffle" in task:
            random.Random(task["shuffle"] + number).shuffle(order)
        try:
            digests.append(epoch(dataset, order, task))
        except UnidentifiedImageError:
            if not task.get("survive"):
                raise
            pause()
    print(json.dumps({"digests": digests, **dataset.stats()}))


if __name__ == "__main__":
    main()
