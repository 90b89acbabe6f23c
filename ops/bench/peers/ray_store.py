"""Ray's object store: an actor keeps the references, and has each batch made once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import ray
from elements import BATCH
from work import Work

import peers

#: All must fit.
STORE_BYTES = 1 << 30
LOOPBACK = "127.0.0.1"


@ray.remote
def make(name: str, paths: list[str]) -> Any:
    """The elements of some inputs."""
    work = Work(name, Path(paths[0]).parent)
    return np.stack([work.make(path) for path in paths])


@ray.remote(num_cpus=0)
class Kept:
    """References by name."""

    def __init__(self) -> None:
        self.references: dict[str, Any] = {}

    def get(self, key: str, name: str, paths: list[str]) -> list[Any]:
        """A reference in a list, so that the reference itself is returned and not what it is of."""
        if key not in self.references:
            self.references[key] = make.remote(name, paths)
        return [self.references[key]]


class Peer(peers.Peer):
    """Asks the actor for each batch, and maps it from the store."""

    packages = ("ray", "numpy")

    def __init__(self, work: Work, place: Path, variant: str) -> None:
        super().__init__(work, place, variant)
        ray.init(
            address=(place / peers.ADDRESS).read_text(),
            namespace="bench",
            log_to_driver=False,
            logging_level="ERROR",
            runtime_env={"env_vars": {"PYTHONPATH": str(Path(__file__).parents[1])}},
        )
        self.kept = Kept.options(name="kept", lifetime="detached", get_if_exists=True).remote()

    def epoch(self, order: list[int] | None) -> Iterable[Any]:
        files = self.work.files if order is None else [self.work.files[i] for i in order]
        for start in range(0, len(files), BATCH):
            batch = files[start : start + BATCH]
            yield ray.get(ray.get(self.kept.get.remote(batch[0], self.work.name, batch))[0])


def serve(work: Work, place: Path) -> None:
    """A head node. Its folder's name is short, since that of a Unix socket must be."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        head = subprocess.Popen(
            [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block"]
            + [f"--node-ip-address={LOOPBACK}", f"--port={port}", f"--num-cpus={os.cpu_count()}"]
            + [f"--object-store-memory={STORE_BYTES}", "--include-dashboard=false", f"--temp-dir={folder}"],
            stdout=subprocess.PIPE,
            text=True,
        )
        signal.signal(signal.SIGTERM, lambda *_: head.terminate())
        assert head.stdout is not None
        for line in head.stdout:
            if "Ray runtime started" in line:
                (place / "starting").write_text(f"{LOOPBACK}:{port}")
                (place / "starting").rename(place / peers.ADDRESS)
        head.wait()
