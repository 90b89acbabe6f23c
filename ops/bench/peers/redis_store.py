"""Redis on a Unix socket: a key for each element, a batch in one MGET."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import redis
from elements import BATCH, SHAPE
from work import Work

import peers


class Peer(peers.Peer):
    """Get, or make and set."""

    packages = ("redis", "hiredis", "numpy")

    def __init__(self, work: Work, place: Path, variant: str) -> None:
        super().__init__(work, place, variant)
        self.server = redis.Redis(unix_socket_path=str(place / peers.ADDRESS))

    def epoch(self, order: list[int] | None) -> Iterable[Any]:
        files = self.work.files if order is None else [self.work.files[i] for i in order]
        for start in range(0, len(files), BATCH):
            batch = files[start : start + BATCH]
            values = self.server.mget(batch)
            missing = [i for i, value in enumerate(values) if value is None]
            for i in missing:
                values[i] = self.work.make(batch[i]).tobytes()
            if missing:
                self.server.mset({batch[i]: values[i] for i in missing})
            yield np.stack([np.frombuffer(value, np.uint8).reshape(SHAPE) for value in values])


def serve(work: Work, place: Path) -> None:
    """Its server, which keeps nothing on disk and listens on no network."""
    nothing_on_disk = ["--save", "", "--appendonly", "no"]
    socket = ["--port", "0", "--unixsocket", str(place / peers.ADDRESS)]
    os.execvp("redis-server", ["redis-server", *nothing_on_disk, *socket, "--dir", str(place)])
