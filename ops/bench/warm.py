"""Reads of a filled cache against `numpy.memmap`; calls to a daemon without one, and what it holds then."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from elements import make_files
from processes import private_rss_mib, run
from readers import Readers, compare
from rows import Row

from prebake.demo.daemon import PrivateDaemon

#: The elements are 150 kB each and must all fit.
RAM_BYTES = 3 << 30
#: A file's `stat` is trusted once the file has been left alone for two seconds.
SETTLE_SECONDS = 2.5
#: A segment is closed after five quiet seconds; a slow disk takes a while for 600 MB.
STORE_SECONDS_MAX = 120.0
#: Jobs that read, or fill, side by side.
JOBS = 4
#: Jobs that share processors differ by 40 % from one pass to the next: so many times as many pairs of them.
MORE_PAIRS = 4


def idle_rows(daemons: int) -> list[Row]:
    """Of daemons without cached blocks; each serves one job that plans."""
    plan = Row("plan_p50_us", "microseconds, round trip of Plan over the socket", "lower", 60)
    memory = Row("daemon_idle_rss_mib", "MiB, daemon after those calls, no blocks cached", "lower", 40)
    for _ in range(daemons):
        with (
            tempfile.TemporaryDirectory(prefix="prebake-bench-") as folder,
            PrivateDaemon(Path(folder)) as daemon,
        ):
            plan.add([run("plan_job.py", daemon)["p50_us"]])
            memory.add([private_rss_mib(daemon)])
    return [plan, memory]


@dataclass
class Warm:
    """Rows of a cache that is filled before: `items` elements, read by a Python that may have torch."""

    items: int
    jobs: int
    pairs: int
    python: str
    has_torch: bool

    def rows(self) -> list[Row]:
        """Of a cache filled by one job in order, then of one filled by four shuffled ones."""
        with self._filled(seeds=()) as (daemon, inputs):
            rows = [*self._read(daemon, inputs), *self._first(daemon, inputs)]
        with self._filled(seeds=range(JOBS)) as (daemon, inputs), Readers(daemon, inputs, self.python) as one:
            scattered = Row(
                "warm_scattered_vs_memmap", "filled by 4 shuffled jobs / numpy gathers", "higher", 1.0
            )
            compare([(scattered, "cached", "memmap_gathered")], one, self.pairs)
        return [*rows, scattered]

    def _read(self, daemon: PrivateDaemon, inputs: Path) -> list[Row]:
        same = Row("memmap_vs_memmap", "A/A: numpy.memmap in order / the same", "higher", same=True)
        of_one = [
            (same, "memmap", "memmap"),
            (
                Row("warm_seq_vs_memmap", "in order, read-only / numpy.memmap", "higher", 0.95),
                "cached",
                "memmap",
            ),
            (
                Row("warm_seq_cow_vs_memmap", "in order, copy-on-write / numpy.memmap", "higher", 0.75),
                "cached_writable",
                "memmap",
            ),
            (
                Row("warm_shuffled_vs_memmap", "shuffled / numpy.memmap gathered", "higher", 1.0),
                "cached_shuffled",
                "memmap_shuffled",
            ),
        ]
        extra = Row(
            "shuffled_element_extra_us", "microseconds an element, shuffled, beyond memmap's", "lower", 3
        )
        loaders = [
            (
                Row(f"dataloader{workers}_vs_memmap", f"torch's loader, {workers} workers", "higher", bar),
                f"cached_loader{workers}",
                f"memmap_loader{workers}",
            )
            for workers, bar in ((0, 1.5), (2, 2.0))
        ]
        with Readers(daemon, inputs, self.python) as one:
            compare(of_one, one, self.pairs)
            for _ in range(self.pairs):
                mapped, cached = one.seconds("memmap_shuffled"), one.seconds("cached_shuffled")
                extra.add([(cached - mapped) / self.items * 1e6])
            compare(loaders if self.has_torch else [], one, self.pairs)
        together = Row("warm_4jobs_vs_memmap", "4 jobs in order / 4 with numpy.memmap", "higher", 0.95)
        with Readers(daemon, inputs, self.python, JOBS) as four:
            compare([(together, "cached", "memmap")], four, self.pairs * MORE_PAIRS)
        return [*(row for row, *_ in of_one), extra, together, *(row for row, *_ in loaders if row.samples)]

    def _first(self, daemon: PrivateDaemon, inputs: Path) -> list[Row]:
        rows = [
            Row("first_batch_ms", "milliseconds, a fresh job's first warm batch, after imports", "lower", 5),
            Row("first_epoch_us_per_item", "microseconds, the rest of its first pass", "lower"),
            Row("getitem_us", "microseconds, ds[i] with its look at the file", "lower"),
            Row("validate_us_per_item", "microseconds, look at all files anew", "lower"),
        ]
        for _ in range(self.jobs):
            measured = run("first_job.py", daemon, inputs, python=[self.python])
            rows = [row.add([measured[row.id]]) for row in rows]
        unproven = Row(
            "unproven_batch_ms",
            "milliseconds, the same in a world where nothing is proven, beyond computing two items",
            "lower",
            5,
        )
        for n in range(self.jobs):
            measured = run("first_job.py", daemon, inputs, f"world{n}", python=[self.python])
            unproven.add([measured[unproven.id]])
        return [*rows, unproven]

    @contextlib.contextmanager
    def _filled(self, seeds: range | tuple[int, ...]) -> Iterator[tuple[PrivateDaemon, Path]]:
        with (
            tempfile.TemporaryDirectory(prefix="prebake-bench-") as folder,
            PrivateDaemon(Path(folder), "--ram-bytes", str(RAM_BYTES)) as daemon,
        ):
            inputs = Path(folder) / "inputs"
            make_files(inputs, self.items)
            time.sleep(SETTLE_SECONDS)
            with ThreadPoolExecutor(JOBS) as pool:
                jobs = [
                    pool.submit(run, "fill_job.py", daemon, inputs, str(seed), python=[self.python])
                    for seed in seeds
                ]
                shares = [job.result()["computed"] for job in jobs]
            if shares and statistics.median(shares) < self.items / JOBS / 4:
                raise RuntimeError(f"one job filled the cache for the others: {shares}")
            # In order: it finds what the others stored, and writes the file to compare with.
            stored = run("fill_job.py", daemon, inputs, python=[self.python])["bytes"]
            wait_until_stored(daemon, stored)
            yield daemon, inputs


def wait_until_stored(daemon: PrivateDaemon, size: int) -> None:
    """Until the daemon has closed the segments of so many bytes: what it does then is no cost of reading."""
    deadline = time.monotonic() + STORE_SECONDS_MAX
    while daemon.stored_bytes() < size:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{daemon.stored_bytes()} of {size} bytes were stored")
        time.sleep(0.1)
