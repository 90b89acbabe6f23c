"""Prebake: the first half of the values by `wrap`, the others by `cached`, and a daemon over the folder.

A daemon that refuses a damaged folder leaves its jobs without a cache: they compute.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from values import COUNT, inputs, make

import prebake
from prebake.demo.daemon import PrivateDaemon

PACKAGES = ("prebake", "numpy")
WRAPPED = COUNT // 2
#: Values become durable while others are still made: by the default they would when the daemon ends, and a
#: kill would find none.
SEGMENT_IDLE_MS = 100


@prebake.pure
def _element(path: str) -> Any:
    return make(int(Path(path).read_text()))


@prebake.cached(inputs=["path"])
@prebake.pure
def _function(path: str) -> Any:
    return make(int(Path(path).read_text()))


def store(place: Path) -> None:
    """Reads all once; segments are closed when the daemon ends."""
    read(place)


def read(place: Path) -> list[Any]:
    """Runs a job beside a new daemon."""
    settings = place / "prebaked.toml"
    settings.write_text(f"segment_idle_ms = {SEGMENT_IDLE_MS}\n")
    daemon = PrivateDaemon(place, "--config", str(settings))
    try:
        daemon.start()
    except RuntimeError as error:
        print(f"REFUSED {error}", file=sys.stderr)
    try:
        paths = [str(path) for path in inputs(place)]
        wrapped = prebake.wrap(paths[:WRAPPED], [_element])
        return [*(wrapped[i] for i in range(WRAPPED)), *map(_function, paths[WRAPPED:])]
    finally:
        daemon.stop()
