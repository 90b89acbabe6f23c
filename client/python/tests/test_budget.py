"""Budgets smaller than what jobs produce: the daemon stays within them, and the bytes are right."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from spread import texts

from prebake.demo.daemon import PrivateDaemon

SSD_BYTES = 24 << 20
RAM_BYTES = 64 << 20
#: How often the folder is measured.
SAMPLE_SECONDS = 0.05

#: Makes arrays of so many bytes of small texts, twice, in its own order; prints the digest of each, by item.
JOB = """
import hashlib, json, random, sys
import numpy as np
import prebake

class Spread:
    def __init__(self, size):
        self.size = size

    def __call__(self, path):
        with open(path, "rb") as file:
            return np.frombuffer(hashlib.shake_256(file.read()).digest(self.size), np.uint8).copy()

size, seed, files = int(sys.argv[1]), int(sys.argv[2]), sys.stdin.read().splitlines()
dataset = prebake.wrap(files, [Spread(size)])
digests = [""] * len(files)
for epoch in range(2):
    order = list(range(len(files)))
    random.Random(seed + epoch).shuffle(order)
    place = 0
    for batch in dataset.batches(order, 10):
        for array in batch:
            digest = hashlib.sha256(array.tobytes()).hexdigest()
            assert digests[order[place]] in ("", digest)
            digests[order[place]] = digest
            place += 1
print(json.dumps(digests))
"""


class Gauge:
    """Measures a folder's bytes on disk, as `du` does, until it is left; `most` is the largest measure."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.most, self.samples = folder, 0, 0
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._measure)

    def __enter__(self) -> Gauge:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join()

    def _measure(self) -> None:
        last = False
        while not last:
            last = self._left.wait(SAMPLE_SECONDS)
            self.most = max(self.most, disk_bytes(self.folder))
            self.samples += 1


def disk_bytes(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for path in (parent, *(os.path.join(parent, name) for name in names)):
            try:
                total += os.lstat(path).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def expected(path: str, size: int) -> str:
    array = hashlib.shake_256(Path(path).read_bytes()).digest(size)
    return hashlib.sha256(array).hexdigest()


class Setting:
    """A daemon under small budgets, measured from outside, and jobs that use it."""

    def __init__(self, folder: Path, daemon: PrivateDaemon) -> None:
        self.daemon = daemon
        self.cache = daemon.folder / "cache"
        self._script = folder / "job.py"
        self._script.write_text(JOB)

    def run(self, files: list[str], size: int, jobs: int) -> None:
        """Jobs side by side, to their end; their bytes are compared."""
        environment = {
            **os.environ,
            "PREBAKE_AUTOSTART": "0",
            "PREBAKE": "on",
            "PREBAKE_DIR": str(self.cache),
        }
        with ThreadPoolExecutor(jobs) as threads:
            done = threads.map(
                lambda seed: subprocess.run(
                    [sys.executable, str(self._script), str(size), str(seed)],
                    input="\n".join(files),
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=120,
                ),
                range(jobs),
            )
        right = [expected(path, size) for path in files]
        for job in done:
            assert job.returncode == 0, job.stderr
            assert json.loads(job.stdout) == right
            # It may say, once, that not everything is cached.
            assert len(job.stderr.splitlines()) <= 1, job.stderr


# `daemon` is asked for in name only: what needs it is left out where there is none; this one has budgets.
@pytest.fixture
def setting(daemon: PrivateDaemon, tmp_path: Path) -> Iterator[Setting]:
    options = ["--ssd-bytes", str(SSD_BYTES), "--ram-bytes", str(RAM_BYTES)]
    with (
        tempfile.TemporaryDirectory(prefix="prebake-") as folder,
        PrivateDaemon(Path(folder), *options) as small,
    ):
        yield Setting(tmp_path, small)


def test_the_folder_never_outgrows_the_ssd_budget(setting: Setting, tmp_path: Path) -> None:
    with Gauge(setting.cache) as gauge:
        setting.run(texts(tmp_path / "texts", 300), 200_000, jobs=2)
        setting.daemon.stop()
    # The budget was the bound, not something else: much was kept, and not everything.
    assert SSD_BYTES // 4 < setting.daemon.stored_bytes() < 300 * 200_000 // 2
    assert gauge.samples > 2 and gauge.most <= SSD_BYTES, f"{gauge.most} bytes on disk"


def test_what_is_remembered_of_files_counts_too(setting: Setting, tmp_path: Path) -> None:
    with Gauge(setting.cache) as gauge:
        setting.run(texts(tmp_path / "large", 200), 200_000, jobs=1)
        setting.run(texts(tmp_path / "small", 6000), 100, jobs=1)
        setting.daemon.stop()
    assert gauge.samples > 2 and gauge.most <= SSD_BYTES, f"{gauge.most} bytes on disk"
