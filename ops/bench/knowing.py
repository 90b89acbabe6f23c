"""What it costs to know that an element is the right one: inputs looked at, draws and reads watched."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from processes import run
from rows import Row

from prebake._demo_daemon import PrivateDaemon

SCRIPT = "knowing_job.py"
#: Files of a large data set, in so many folders.
FILES, FOLDERS = 1_000_000, 1_000
BYTES = 100


def rows(jobs: int) -> list[Row]:
    """Of jobs, one after the other; those over many files have a daemon and an empty cache each."""
    found = [
        Row("rng_tripwire_us", "microseconds per item, generators' states taken and compared", "lower"),
        Row("recorder_us", "microseconds per item, a record opened and closed", "lower"),
        Row("audit_event_ns", "nanoseconds, an audit event of the process while nothing records", "lower"),
        Row("snapshot_200_us", "microseconds per batch, a look at 200 objects that steps hold", "lower"),
    ]
    with (
        tempfile.TemporaryDirectory(prefix="prebake-bench-") as folder,
        PrivateDaemon(Path(folder)) as daemon,
    ):
        for _ in range(jobs):
            measured = run(SCRIPT, daemon, "watch")
            found = [row.add(measured[row.id]) for row in found]
    return [*found, *_many(jobs)]


def _many(jobs: int) -> list[Row]:
    found = [
        Row("million_first_batch_s", f"seconds, wrap and first batch over {FILES:,} files", "lower", 1.0),
        Row("million_read_s", "seconds, read all of them, once on a node", "lower"),
        Row("million_check_s", "seconds, look at all of them in another job", "lower", 10.0),
        Row("million_again_s", "seconds, look at all of them again, before the next epoch", "lower"),
    ]
    first, read, *looks = found
    with tempfile.TemporaryDirectory(prefix="prebake-bench-million-") as folder:
        print(f"making {FILES} files", file=sys.stderr)
        make(Path(folder))
        for _ in range(jobs):
            with (
                tempfile.TemporaryDirectory(prefix="prebake-bench-") as cache,
                PrivateDaemon(Path(cache)) as daemon,
            ):
                first.add([run(SCRIPT, daemon, "first", folder)["first_s"]])
        with (
            tempfile.TemporaryDirectory(prefix="prebake-bench-") as cache,
            PrivateDaemon(Path(cache)) as daemon,
        ):
            read.add([run(SCRIPT, daemon, "look", folder)["million_check_s"]])
            for _ in range(jobs):
                measured = run(SCRIPT, daemon, "look", folder)
                for row in looks:
                    row.add([measured[row.id]])
    return found


def make(folder: Path) -> None:
    """Files of 100 bytes, no two alike, last changed long ago: as a data set is found."""
    for outer in range(FOLDERS):
        below = folder / f"{outer:03}"
        below.mkdir()
        for inner in range(FILES // FOLDERS):
            path = below / f"{inner:03}.bin"
            path.write_bytes(f"{outer} {inner}".ljust(BYTES).encode())
            os.utime(path, (1_000_000_000, 1_000_000_000))
