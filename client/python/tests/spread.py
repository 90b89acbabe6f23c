"""Jobs of the tests of limits: each makes arrays of small texts, and proves every byte it reads.

Run as a program it is one such job, which does what its task (JSON) says.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

#: A job that takes longer hangs.
SECONDS_MAX = 120


#: What an array repeats. A prime: no two pages or blocks of it are the same. Longer than LZ4 looks back: to
#: compress it would make the disk the slowest part.
PERIOD_BYTES = 98_317


class Spread:
    """A text as an array of so many bytes that depend on all of it."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, path: str) -> Any:
        with open(path, "rb") as file:
            return sys.modules["__main__"].plain(file.read(), self.size)


def texts(folder: Path, count: int) -> list[str]:
    """Small texts that differ, written a while ago."""
    from conftest import settle

    folder.mkdir()
    paths = [folder / f"{i}.txt" for i in range(count)]
    for i, path in enumerate(paths):
        path.write_text(f"{folder.name} {i}\n")
        settle(path)
    return [str(path) for path in paths]


class SpreadJob:
    """A process that runs `main` on a task."""

    def __init__(self, cache: Path, files: list[str], size: int, **task: Any) -> None:
        environment = {**os.environ, "PREBAKE": "on", "PREBAKE_DIR": str(cache), "PREBAKE_AUTOSTART": "0"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, json.dumps({"files": files, "size": size, **task})],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for_pause(self) -> None:
        """Until it says that it waits."""
        assert self.process.stdout is not None and self.process.stderr is not None
        line = self.process.stdout.readline()
        assert line == "paused\n", line + self.process.stderr.read()

    def go_on(self) -> None:
        """Ends a pause that another follows."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def result(self) -> dict[str, Any]:
        """Ends its pause and waits for its end, which must be a good one; what it counted and `said`."""
        out, said = self.process.communicate("\n", timeout=SECONDS_MAX)
        assert self.process.returncode == 0, said
        return {**json.loads(out.splitlines()[-1]), "said": said}


def pause() -> None:
    print("paused", flush=True)
    sys.stdin.readline()


def main() -> None:
    task = json.loads(sys.argv[1])
    if "descriptors" in task:
        resource.setrlimit(resource.RLIMIT_NOFILE, (task["descriptors"],) * 2)
    import prebake

    files, size = task["files"], task["size"]
    dataset = prebake.wrap(files, [prebake.pure(Spread)(size)])
    content = [Path(path).read_bytes() for path in files]
    kept: list[Any] = []
    taken = take_descriptors(task["descriptors_before"]) if "descriptors_before" in task else []
    for epoch in range(task.get("epochs", 1)):
        order = list(range(len(files)))
        if "shuffle" in task:
            random.Random(task["shuffle"] + epoch).shuffle(order)
        place = 0
        for batch in dataset.batches(order, task.get("batch", 10)):
            for array in batch:
                expected = plain(content[order[place]], size)
                assert np.array_equal(array, expected), f"item {order[place]} is wrong in epoch {epoch}"
                place += 1
            if not taken and "descriptors_left" in task:
                taken = take_descriptors(task["descriptors_left"])
            if place == (task.get("pause_after_batch", 0) or -1) * len(batch):
                pause()
            if task.get("keep"):
                kept += zip(order[place - len(batch) : place], batch, strict=True)
            time.sleep(task.get("sleep_s", 0))
        assert place == len(files)
        if task.get("pause"):
            pause()
    for i, array in kept:
        assert np.array_equal(array, plain(content[i], size)), f"item {i} did not keep its bytes"
    for fd in taken:
        os.close(fd)
    print(json.dumps(dataset.stats()))


def plain(text: bytes, size: int) -> Any:
    return np.resize(np.frombuffer(hashlib.shake_256(text).digest(PERIOD_BYTES), np.uint8), size)


def take_descriptors(left: int) -> list[int]:
    """Opens descriptors until only so many can still be opened."""
    taken = []
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        for _ in range(left):
            os.close(taken.pop())
    return taken


if __name__ == "__main__":
    main()
