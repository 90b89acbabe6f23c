"""Reads of a filled cache, calls to a daemon without one, and what the daemon holds then."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from processes import private_rss_mib, run
from rows import Row

from prebake._demo_daemon import PrivateDaemon

SCRIPT = "warm_job.py"
#: The elements are 150 kB each and must all fit.
RAM_BYTES = 1 << 30
#: A file's `stat` is trusted once the file has been left alone for two seconds.
SETTLE_SECONDS = 2.5
#: A segment is closed after five quiet seconds; a slow disk takes a while for 300 MB.
STORE_SECONDS_MAX = 60.0


def idle_rows(daemons: int) -> list[Row]:
    """Of daemons without cached blocks; each serves one job that plans."""
    plan = Row("plan_p50_us", "microseconds, round trip of Plan over the socket", "lower", 150)
    memory = Row("daemon_idle_rss_mib", "MiB, daemon after those calls, no blocks cached", "lower", 40)
    for _ in range(daemons):
        with (
            tempfile.TemporaryDirectory(prefix="prebake-bench-") as folder,
            PrivateDaemon(Path(folder)) as daemon,
        ):
            plan.add([run(SCRIPT, daemon, "plan")["p50_us"]])
            memory.add([private_rss_mib(daemon)])
    return [plan, memory]


def read_rows(items: int, jobs: int, pairs: int) -> list[Row]:
    """Of jobs, one after the other, that read `items` elements which an earlier one computed in order."""
    rows = [
        Row("warm_seq_vs_memmap", "speed of batches of 50 in order / numpy.memmap", "higher", 0.8),
        Row("warm_shuffled_vs_memmap", "the same, shuffled / numpy.memmap gathered", "higher"),
        Row("first_epoch_us_per_item", "microseconds, a new job's first pass in order", "lower"),
        Row("getitem_us", "microseconds, ds[i] with its look at the file", "lower"),
        Row("validate_us_per_item", "microseconds, look at all files anew", "lower"),
    ]
    with (
        tempfile.TemporaryDirectory(prefix="prebake-bench-") as folder,
        PrivateDaemon(Path(folder), "--ram-bytes", str(RAM_BYTES)) as daemon,
    ):
        inputs = Path(folder) / "inputs"
        inputs.mkdir()
        for i in range(items):
            (inputs / f"{i:05}.txt").write_text(str(i))
        time.sleep(SETTLE_SECONDS)
        stored = run(SCRIPT, daemon, "fill", str(inputs))["bytes"]
        wait_until_stored(daemon, stored)
        for _ in range(jobs):
            measured = run(SCRIPT, daemon, "read", str(inputs), str(pairs))
            rows = [row.add(measured[row.id]) for row in rows]
    return rows


def wait_until_stored(daemon: PrivateDaemon, size: int) -> None:
    """Until the daemon has closed the segments of so many bytes: what it does then is no cost of reading."""
    deadline = time.monotonic() + STORE_SECONDS_MAX
    while daemon.stored_bytes() < size:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{daemon.stored_bytes()} of {size} bytes were stored")
        time.sleep(0.1)
