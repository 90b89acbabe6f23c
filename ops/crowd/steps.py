"""What the crowd's jobs compute: a value is told by the number in its file, and any reader can prove it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import default_rng

import prebake

ITEMS = 64
#: An image of 224 by 224: what most elements are like. All of them are three blocks of the daemon.
VALUE_BYTES = 150_528
#: Files are dated back: a file that was just written is looked at more often than others.
WRITTEN_SECONDS_AGO = 1_000


def value(number: int, pipeline: int = 0) -> Any:
    """Random bytes, others for each file and pipeline: no compression makes fewer of them."""
    return default_rng([pipeline, number]).integers(0, 256, VALUE_BYTES, np.uint8)


@prebake.pure
def make(path: str) -> Any:
    """The step of the wrapped pipeline."""
    return value(int(Path(path).read_text()))


def write_inputs(folder: Path) -> None:
    """The files, one number each."""
    folder.mkdir()
    for i in range(ITEMS):
        path = folder / f"{i:03}.txt"
        path.write_text(str(i))
        then = path.stat().st_mtime - WRITTEN_SECONDS_AGO
        os.utime(path, (then, then))


def inputs(folder: Path) -> list[str]:
    """Their paths, in the order of their numbers."""
    return sorted(str(path) for path in folder.glob("*.txt"))


def graph(name: str) -> str:
    """A pipeline over files, as the native module takes it; its values are told by `name`."""
    sure = {"deterministic": True}
    source = {"id": "files", "name": "files", "source": {"files": {}}, "determinism": sure}
    step = {"id": "step", "name": name, "inputs": [{"operator": "files"}], "determinism": sure}
    return json.dumps({"version": 1, "operators": [source, step], "output": "step"})


#: The pipeline that the probe fills and all clients read.
SHARED = graph("crowd.shared")
SHARED_NUMBER = 1


def held(round_: int) -> tuple[str, int]:
    """The pipeline of a round, of which some hold leases while a job wants it all, and its number."""
    return graph(f"crowd.held.{round_}"), 1_000 + round_


def written(process: int) -> tuple[str, int]:
    """The pipeline that one process of readers adds to, and its number."""
    return graph(f"crowd.written.{process}"), 100_000 + process


def put(items: Any, leased: list[int], pipeline: int) -> None:
    """Computes what was leased and hands it over."""
    for i in leased:
        items.put(i, "bytes", [value(i, pipeline)], 1_000_000, 0)
    items.commit()


def is_right(view: Any, number: int, pipeline: int) -> bool:
    """Whether these are the bytes of an item's value."""
    return bool(np.array_equal(np.frombuffer(view, np.uint8), value(number, pipeline)))
