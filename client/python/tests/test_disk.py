"""Elements that are on disk alone, since the RAM tier is too small: in any order, the right bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from conftest import settle

from prebake.demo.daemon import PrivateDaemon

#: 90 MB of elements, of which the RAM tier holds less than a third.
RAM_BYTES = 64 << 20
COUNT = 600

#: Reads batches, shuffled and in order, over two epochs each; prints the sum of what differs, and the counts.
JOB = """
import hashlib, json, random, sys
import numpy as np
import prebake

def spread(path):
    with open(path, "rb") as file:
        seed = hashlib.sha256(file.read()).digest()
    return np.frombuffer(hashlib.shake_256(seed).digest(150_001), np.uint8).copy()

files = sys.stdin.read().splitlines()
dataset = prebake.wrap(files, [spread])
wrong = 0
for epoch, shuffled in enumerate([False] if sys.argv[1] == "fill" else [True, True, False]):
    order = list(range(len(files)))
    if shuffled:
        random.Random(epoch).shuffle(order)
    done = 0
    for number, batch in enumerate(dataset.batches(order, 40)):
        if sys.argv[1] == "leave" and number == 5:
            # The rest is never read: what was read ahead of it is nobody's.
            break
        for place, array in zip(order[done : done + 40], batch):
            wrong += not np.array_equal(array, spread(files[place]))
        done += len(batch)
        batch[:] = 0
for i in (7, 500, 7):
    wrong += not np.array_equal(dataset[i], spread(files[i]))
print(json.dumps({"wrong": wrong, **dataset.stats()}))
"""


class Stored:
    """Elements on disk, and none of them in a daemon's memory."""

    def __init__(self, folder: Path) -> None:
        self.script = folder / "job.py"
        self.script.write_text(JOB)
        (folder / "inputs").mkdir()
        self.files = [folder / "inputs" / f"{i}.txt" for i in range(COUNT)]
        for i, path in enumerate(self.files):
            path.write_text(str(i))
            settle(path)
        with PrivateDaemon(folder, "--ram-bytes", str(1 << 30)) as daemon:
            filled = self.run(daemon, "fill")
            assert filled["computed"] == COUNT

    def run(self, daemon: PrivateDaemon, how: str) -> dict[str, int]:
        done = subprocess.run(
            [sys.executable, str(self.script), how],
            input="\n".join(map(str, self.files)),
            env={
                **os.environ,
                "PREBAKE": "on",
                "PREBAKE_AUTOSTART": "0",
                "PREBAKE_DIR": str(daemon.folder / "cache"),
            },
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))


def test_shuffled_epochs_larger_than_memory_are_the_right_bytes() -> None:
    with tempfile.TemporaryDirectory(prefix="prebake-") as name:
        stored = Stored(Path(name))
        with PrivateDaemon(Path(name), "--ram-bytes", str(RAM_BYTES)) as daemon:
            for how in ("leave", "read", "read"):
                read = stored.run(daemon, how)
                assert (read["wrong"], read["computed"], read["bypassed"]) == (0, 0, 0), read
            # Whole blocks for each element would be 27 times what is read.
            data = 150_001 * COUNT
            assert data < read["bytes_ssd"] < 4 * data
            metrics = daemon.metrics()
            assert metrics['prebake_tier_bytes{tier="ram"}'] <= RAM_BYTES
            log = (daemon.folder / "prebaked.log").read_text()
            assert "ERROR" not in log, log
