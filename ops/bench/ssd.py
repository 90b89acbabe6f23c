"""Reads of elements that are on disk, since the RAM tier is too small, against what the disk gives."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from elements import make_files
from processes import run
from rows import Row
from warm import RAM_BYTES as FILL_RAM_BYTES
from warm import SETTLE_SECONDS, wait_until_stored

from prebake.demo.daemon import PrivateDaemon

#: Of the RAM tier: a sixth of the elements, of which each pass reads all.
RAM_BYTES = 256 << 20
#: Direct reads at a time, against which the bar is; as many as the daemon makes.
DEPTH = 4


@dataclass
class Ssd:
    """Rows of a cache that is filled before, of `items` elements; each read is by a process of its own."""

    items: int
    pairs: int
    python: str

    def rows(self) -> list[Row]:
        """In order and shuffled, each against direct reads of the same files."""
        rows = [
            (
                Row("ssd_vs_odirect", f"on disk, in order / O_DIRECT by 4 MiB, {DEPTH} deep", "higher", 0.8),
                "cached",
                f"direct{DEPTH}",
            ),
            (
                Row("ssd_vs_odirect_depth1", "the same / O_DIRECT by 4 MiB, one at a time", "higher"),
                "cached",
                "direct1",
            ),
            (
                Row("ssd_shuffled_vs_odirect", f"shuffled / O_DIRECT by 4 MiB, {DEPTH} deep", "higher"),
                "cached_shuffled",
                f"direct{DEPTH}",
            ),
            (
                Row(
                    "ssd_shuffled_vs_odirect_shuffled",
                    "the same / O_DIRECT by element",
                    "higher",
                ),
                "cached_shuffled",
                f"direct{DEPTH}_shuffled",
            ),
        ]
        with tempfile.TemporaryDirectory(prefix="prebake-bench-") as folder:
            inputs = Path(folder) / "inputs"
            make_files(inputs, self.items)
            time.sleep(SETTLE_SECONDS)
            # By a daemon that has room for all, so that none waits for the disk.
            with PrivateDaemon(Path(folder), "--ram-bytes", str(FILL_RAM_BYTES)) as daemon:
                stored = run("fill_job.py", daemon, inputs, python=[self.python])["bytes"]
                wait_until_stored(daemon, stored)
            with PrivateDaemon(Path(folder), "--ram-bytes", str(RAM_BYTES)) as daemon:
                self._read(rows, daemon, inputs)
        return [row for row, *_ in rows]

    def _read(self, rows: list[tuple[Row, str, str]], daemon: PrivateDaemon, inputs: Path) -> None:
        self._sums = set[int]()
        for pair in range(self.pairs):
            for row, way, other in rows:
                direct = self._bytes_per_second(daemon, inputs, other, pair)
                row.add([self._bytes_per_second(daemon, inputs, way, pair) / direct])

    def _bytes_per_second(self, daemon: PrivateDaemon, inputs: Path, way: str, seed: int) -> float:
        segments = daemon.folder / "cache"
        read = run("ssd_job.py", daemon, inputs, way, str(seed), segments, python=[self.python])
        self._sums |= {read["sum"]} if "sum" in read else set()
        if len(self._sums) > 1:
            raise RuntimeError(f"{way} reads other bytes than the passes before")
        return float(read["bytes"]) / float(read["seconds"])
