"""The well-behaved job that is measured: `python probe_job.py CACHE INPUTS`, with seconds on lines of input.

It first fills the cache, and says `ready`. Then it answers each line with one line of JSON: for each window
of that time the 50th and 99th percentile of a hit, in microseconds, and what went wrong. Every value is
proven, outside of the time that is taken.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import steps

import prebake
from prebake import _native

#: Windows of a measurement, for the spread; and the least that one is long, which is some hundred hits.
WINDOWS = 8
WINDOW_SECONDS_MIN = 1.0
WINDOW_SECONDS_MAX = 10.0
#: A job does something with what it is given. Without a pause the probe would be a load of its own.
PAUSE_SECONDS = 0.003
#: A lost session is connected anew after so long.
RETRY_SECONDS = 0.5
MAPPED, ASKED, OWN = "mapped", "asked", "own"


class Probe:
    """A wrapped data set, and a session by which the daemon is asked for each item anew."""

    def __init__(self, cache: Path, inputs: Path) -> None:
        self.cache = str(cache)
        self.inputs = str(inputs)
        self.paths = steps.inputs(inputs)
        self.errors: Counter[str] = Counter()
        self.told = ""
        self.collection: Any = None
        self.wrapped = prebake.wrap(self.paths, [steps.make])
        self.values = [steps.value(i) for i in range(len(self.paths))]
        self.shared = [steps.value(i, steps.SHARED_NUMBER) for i in range(len(self.paths))]

    def fill(self) -> None:
        """All that is asked for later is in the cache after."""
        # First, since others name this collection by its number: the first of a daemon is 0.
        self._connect()
        for i, wanted in enumerate(self.values):
            self._prove(np.array_equal(self.wrapped[i], wanted), f"item {i} when it was made")
        items = self.collection.files(self.inputs, self.paths)
        everything = range(len(self.paths))
        while leased := items.acquire([*everything], [])[0]:
            steps.put(items, leased, steps.SHARED_NUMBER)
        self.computed = self.wrapped.stats()["computed"]

    def measure(self, seconds: float) -> dict[str, Any]:
        """Windows one after the other."""
        self.errors.clear()
        length = min(max(seconds / WINDOWS, WINDOW_SECONDS_MIN), WINDOW_SECONDS_MAX)
        windows = [self._window(length) for _ in range(max(1, round(seconds / length)))]
        # Of a wrapped data set it is no error to be computed: it is one here, where all is there.
        computed = self.wrapped.stats()["computed"]
        self.errors["computed"] += computed - self.computed
        self.computed = computed
        return {"windows": windows, "errors": {k: n for k, n in self.errors.items() if n}, "told": self.told}

    def _window(self, seconds: float) -> dict[str, Any]:
        taken: dict[str, list[float]] = {MAPPED: [], ASKED: [], OWN: []}
        until, turn = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            i = turn * 7 % len(self.paths)
            turn += 1
            begun = time.perf_counter()
            value = self.wrapped[i]
            taken[MAPPED].append(time.perf_counter() - begun)
            self._prove(np.array_equal(value, self.values[i]), f"item {i}")
            del value
            self._ask(i, taken[ASKED])
            begun = time.perf_counter()
            value = self.values[i].copy()
            taken[OWN].append(time.perf_counter() - begun)
            time.sleep(PAUSE_SECONDS)
        return {kind: _percentiles(times) for kind, times in taken.items()} | {"at": time.monotonic()}

    def _ask(self, i: int, taken: list[float]) -> None:
        """An item that this session knows nothing of."""
        try:
            if self.collection is None:
                self._connect()
            begun = time.perf_counter()
            items = self.collection.files(self.inputs, [self.paths[i]])
            leased, bypassed = items.acquire([0], [], 0)
            found = items.get(0)
            taken.append(time.perf_counter() - begun)
        except _native.Error as error:
            self.errors["lost"] += 1
            self.told = str(error)
            self.collection = None
            time.sleep(RETRY_SECONDS)
            return
        if leased or bypassed or found is None:
            self.errors["missed"] += 1
            return
        right = np.array_equal(np.frombuffer(found[0], np.uint8), self.shared[i])
        self._prove(right, f"item {i} of the daemon")

    def _connect(self) -> None:
        job = _native.connect(self.cache, "probe", False)
        self.collection = job.plan(steps.SHARED)

    def _prove(self, right: bool, what: str) -> None:
        if not right:
            self.errors["wrong"] += 1
            self.told = what


def _percentiles(seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {"count": 0}
    p50, p99 = np.percentile(seconds, [50, 99]) * 1e6
    return {"count": len(seconds), "p50": round(p50, 1), "p99": round(p99, 1)}


def main() -> None:
    """The command line."""
    probe = Probe(Path(sys.argv[1]), Path(sys.argv[2]))
    probe.fill()
    print("ready", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        for line in sys.stdin:
            print(json.dumps(probe.measure(float(line))), flush=True)


if __name__ == "__main__":
    main()
