"""What it costs to know that an element is the right one: inputs looked at, draws and reads watched."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from processes import run
from rows import Row

from prebake.demo.daemon import PrivateDaemon

SCRIPT = "knowing_job.py"
#: Files of a folder.
NEIGHBOURS = 1_000
BYTES = 100
#: Files that are looked at with a delay: a second of it.
SLOW_FILES = 1_000
#: What is known of a file is trusted once it has been left alone for two seconds.
SETTLE_SECONDS = 2.5
#: Added to each `stat` of a job by `strace`, which stops it in the system call for so long.
DELAY_US = 1_000


def rows(jobs: int, files: int, kept: Path | None, torch: str | None) -> list[Row]:
    """Of jobs, one after the other. Over `files` files, which are made in the folder `kept` and stay there if
    one is given; `torch` is a Python that has torchvision, without which there is no fingerprint of it."""
    found = [
        Row("rng_tripwire_us", "CPU microseconds per item, generators' states taken and compared", "lower"),
        Row("recorder_us", "CPU microseconds per item, a record opened and closed", "lower"),
        Row("code_us", "CPU microseconds per item, the same and code that starts is seen", "lower"),
        Row(
            "audit_event_ns", "CPU nanoseconds, an audit event of the process while nothing records", "lower"
        ),
        Row("snapshot_us", "CPU microseconds per read, a look at what steps hold (200 objects)", "lower"),
        Row("hit_us", "CPU microseconds per item, ds[i] of a small pipeline over files", "lower", 30.0),
    ]
    with (
        tempfile.TemporaryDirectory(prefix="prebake-bench-") as folder,
        PrivateDaemon(Path(folder)) as daemon,
    ):
        for _ in range(jobs):
            measured = run(SCRIPT, daemon, "watch")
            found = [row.add(measured[row.id]) for row in found]
    with tempfile.TemporaryDirectory(prefix="prebake-bench-files-") as made:
        few = Path(made) / "few"
        make(few, SLOW_FILES)
        found += _slow(jobs, few)
        many = Path(made) if kept is None else kept
        found += _many(jobs, _made(many, files), files)
    return found + _fingerprint(jobs, torch)


def _fingerprint(jobs: int, torch: str | None) -> list[Row]:
    if torch is None:
        print("no fingerprint of a torchvision pipeline: no --torch", file=sys.stderr)
        return []
    found = [
        Row("fingerprint_ms", "milliseconds, first fingerprint of a torchvision pipeline", "lower", 20.0),
        Row("fingerprint_again_ms", "milliseconds, the same again", "lower", 1.0),
    ]
    with (
        tempfile.TemporaryDirectory(prefix="prebake-bench-") as cache,
        PrivateDaemon(Path(cache)) as daemon,
    ):
        for _ in range(jobs):
            measured = run("fingerprint_job.py", daemon, python=[torch])
            found = [row.add(measured[row.id]) for row in found]
    return found


def _slow(jobs: int, folder: Path) -> list[Row]:
    """Looks that take a millisecond each."""
    strace = shutil.which("strace")
    if strace is None:
        print("no validation with a delay: strace is not installed", file=sys.stderr)
        return []
    found = [
        Row("validation_1ms_us", "microseconds per item, inputs looked at with 1 ms for each stat", "lower"),
        Row("validation_1ms_quiet_us", "the same in the next epoch, with a quiet watch", "lower"),
    ]
    stats = "newfstatat,statx,stat,lstat"
    delayed = [strace, "--seccomp-bpf", "-f", "-qq", "-o", os.devnull, "-e", f"trace={stats}"]
    delayed += ["-e", f"inject={stats}:delay_enter={DELAY_US}", sys.executable]
    with (
        tempfile.TemporaryDirectory(prefix="prebake-bench-") as cache,
        PrivateDaemon(Path(cache)) as daemon,
    ):
        run(SCRIPT, daemon, "look", folder)
        for _ in range(jobs):
            measured = run(SCRIPT, daemon, "check", folder, python=delayed)
            for row, name in zip(found, ("again_us", "quiet_us"), strict=True):
                row.add([measured[name]])
    return found


def _many(jobs: int, folder: Path, files: int) -> list[Row]:
    many = f"{files:,} files"
    found = [
        Row("many_cold_batch_s", f"seconds, wrap and first batch over {many}, empty cache", "lower", 1.0),
        Row("many_first_batch_s", "seconds, the same where some are cached and all were read", "lower", 1.0),
        Row("many_check_s", "seconds, all of them looked at beside that job", "lower", 10.0),
        Row("many_again_s", "seconds, the same before the next epoch", "lower", 10.0),
        Row("many_begin_ms", "milliseconds that this epoch's first batch waits for it", "lower"),
        Row("validation_us", "microseconds per item, inputs looked at again", "lower"),
        Row("many_read_s", "seconds, all of them read, once on a node", "lower"),
    ]
    cold, *_, read = found
    for _ in range(jobs):
        with (
            tempfile.TemporaryDirectory(prefix="prebake-bench-") as cache,
            PrivateDaemon(Path(cache)) as daemon,
        ):
            cold.add([run(SCRIPT, daemon, "first", folder)["first_s"]])
    with (
        tempfile.TemporaryDirectory(prefix="prebake-bench-") as cache,
        PrivateDaemon(Path(cache)) as daemon,
    ):
        read.add([run(SCRIPT, daemon, "look", folder)["read_s"]])
        for _ in range(jobs):
            measured = run(SCRIPT, daemon, "check", folder)
            names = ("first_s", "check_s", "again_s", "begin_ms", "again_us")
            for row, name in zip(found[1:-1], names, strict=True):
                row.add([measured[name]])
    return found


def _made(folder: Path, files: int) -> Path:
    """So many files in a folder of theirs; those of an earlier run if it made all of them."""
    whole = folder / f"files-{files}"
    if not whole.exists():
        folder.mkdir(parents=True, exist_ok=True)
        begun = Path(tempfile.mkdtemp(prefix="begun-", dir=folder))
        make(begun / "files", files)
        (begun / "files").rename(whole)
        begun.rmdir()
    return whole


def make(folder: Path, files: int) -> None:
    """Files of 100 bytes, no two alike, last changed long ago: as a data set is found."""
    print(f"making {files} files", file=sys.stderr)
    for outer in range(files // NEIGHBOURS):
        below = folder / f"{outer:03}"
        below.mkdir(parents=True)
        for inner in range(NEIGHBOURS):
            path = below / f"{inner:03}.bin"
            path.write_bytes(f"{outer} {inner}".ljust(BYTES).encode())
            os.utime(path, (1_000_000_000, 1_000_000_000))
    time.sleep(SETTLE_SECONDS)
