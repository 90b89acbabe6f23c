"""Faults of clocks: the wall clock jumps, or the daemon's monotonic clock is another than its jobs'."""

from __future__ import annotations

import contextlib
import functools
import glob
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from daemon import FaultDaemon
from fault import Around, Fault

DAY = 86_400
AHEAD_SECONDS = 10**7
TOLERANCE_SECONDS = 5.0
#: The part of the daemon that logs a line when it is asked for its clock.
HEARD = "prebake_daemon::server::data_socket"
#: Where distributions put it.
LIBRARIES = ("/usr/lib/*/faketime", "/usr/lib64/faketime", "/usr/lib/faketime", "/usr/local/lib/faketime")
OFFSET = "clock-offset"


@functools.cache
def library() -> str:
    """libfaketime; empty if it is not here."""
    found = (path for folder in LIBRARIES for path in sorted(glob.glob(f"{folder}/libfaketime.so.1")))
    return next(found, "")


def no_library() -> str:
    """Why the wall clock cannot jump; empty if it can."""
    return "" if library() else "libfaketime is not here"


def no_namespace() -> str:
    """Why there is no namespace of time; empty if there is."""
    if not shutil.which("unshare"):
        return "unshare is not here"
    command = ["unshare", "-T", "--boottime", str(AHEAD_SECONDS), "cat", "/proc/uptime"]
    tried = subprocess.run(command, capture_output=True, text=True)
    if tried.returncode:
        return f"unshare -T fails: {tried.stderr.strip()}"
    # Before Linux 6.0 only children enter the namespace, not a program that takes the process over.
    return (
        ""
        if float(tried.stdout.split()[0]) > AHEAD_SECONDS
        else "unshare -T without a fork does nothing here"
    )


@contextlib.contextmanager
def settable(folder: Path) -> Iterator[Around]:
    """The wall clock of daemon and jobs is the machine's plus what a file says."""
    offset = folder / OFFSET
    offset.write_text("+0\n")
    variables = {
        "LD_PRELOAD": library(),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # Files keep their times: these do not jump with the clock.
        "NO_FAKE_STAT": "1",
    }
    named = {"PREBAKE_LOG": f"info,{HEARD}=debug", **variables}
    yield Around(" ".join(["env", *(f"{name}={value}" for name, value in named.items())]), variables)


@contextlib.contextmanager
def elsewhere(folder: Path) -> Iterator[Around]:
    """The daemon's monotonic clock is far ahead of its jobs'."""
    del folder
    yield Around(f"unshare -T --monotonic {AHEAD_SECONDS} --boottime {AHEAD_SECONDS}")


@contextlib.contextmanager
def jump(days: int, daemon: FaultDaemon) -> Iterator[None]:
    """The wall clock jumps, and back again after. That it did is asked of the daemon."""
    offset = daemon.folder / OFFSET
    for change in (days * DAY, 0):
        offset.write_text(f"{change:+}\n")
        off = daemon.clock() - time.time() - change
        assert abs(off) < TOLERANCE_SECONDS, f"the daemon's clock is {off} s from what it was set to"
        if change:
            yield


@contextlib.contextmanager
def nothing(daemon: FaultDaemon) -> Iterator[None]:
    """The fault is there from the start."""
    del daemon
    yield


def faults() -> list[Fault]:
    """All of them."""
    jumps = {"400 days ahead": 400, "400 days back": -400, "back before 1970": -60 * 365}
    return [
        *(
            Fault(
                f"wall clock {name}",
                functools.partial(jump, days),
                around=settable,
                missing=no_library,
                silent=True,
                quick=days == -400,
            )
            for name, days in jumps.items()
        ),
        Fault(
            "monotonic clock ahead of the jobs'",
            nothing,
            around=elsewhere,
            missing=no_namespace,
            silent=True,
        ),
    ]
