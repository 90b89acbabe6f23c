"""A job that reads by one peer: `python peer_job.py PEER[.VARIANT] WORK INPUTS PLACE [serve]`.

It says which versions it has once its imports are done. Each line of input, JSON, is then answered by one:
`epochs` passes, shuffled by `seed` or in order (null), or `fill`. The answer is the seconds of the peer's
set-up and of each pass, and what the passes read: elements, bytes, and the sums of all bytes.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from work import Work, touch


class Job:
    """A peer, made at the first request and kept."""

    def __init__(self, module: Any, variant: str, work: Work, place: Path) -> None:
        self._module = module
        self._variant = variant
        self._work = work
        self._place = place
        self._peer: Any = None
        self._passes = 0

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Does what a line asks for."""
        start = time.perf_counter()
        if self._peer is None:
            self._peer = self._module.Peer(self._work, self._place, self._variant)
        parts, passes = [time.perf_counter() - start], []
        if request.get("fill"):
            self._peer.fill()
        for _ in range(request.get("epochs", 0)):
            order = self._order(request["seed"])
            start = time.perf_counter()
            passes.append(touch(self._peer.epoch(order)))
            parts.append(time.perf_counter() - start)
        if request.get("warm"):
            self._peer.check_warm()
        return {
            "seconds": parts,
            "counts": [each.count for each in passes],
            "size": sum(each.size for each in passes),
            "sums": sorted({each.sum for each in passes}),
        }

    def _order(self, seed: int | None) -> list[int] | None:
        self._passes += 1
        if seed is None:
            return None
        return list(np.random.default_rng((seed, self._passes)).permutation(len(self._work.files)).tolist())


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Of what a figure depends on."""
    return {"python": sys.version.split()[0], **{name: importlib.metadata.version(name) for name in packages}}


def main() -> None:
    """The command line."""
    named, work, inputs, place, *serve = sys.argv[1:]
    name, _, variant = named.partition(".")
    module = importlib.import_module(f"peers.{name}")
    if serve:
        module.serve(Work(work, Path(inputs)), Path(place))
        return
    job = Job(module, variant, Work(work, Path(inputs)), Path(place))
    print(json.dumps({"versions": versions(module.Peer.packages)}), flush=True)
    for line in sys.stdin:
        print(json.dumps(job.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
