"""Processes seen from outside: a daemon's CPU time and memory, and scripts that answer with JSON."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prebake.demo.daemon import PrivateDaemon
from prebake.demo.run import ONE_THREAD

#: A script that takes longer hangs; the longest reads a million files in some 90 seconds.
SCRIPT_SECONDS_MAX = 300

KIBI_PER_MEBI = 1024

#: A daemon looks at what waits every half second; by itself it takes a thousandth of a processor.
QUIET_SECONDS = 1.0
QUIET_SHARE = 0.02
#: Two gigabytes on their way to a slow disk take some 10 seconds, and a full machine longer.
QUIET_SECONDS_MAX = 120.0


def cache_environment(daemon: PrivateDaemon) -> dict[str, str]:
    """Variables of a job that uses a daemon, and no other."""
    return {"PREBAKE": "on", "PREBAKE_DIR": str(daemon.folder / "cache"), "PREBAKE_AUTOSTART": "0"}


def run(
    script: str, daemon: PrivateDaemon, *arguments: str | Path, python: Sequence[str] = (sys.executable,)
) -> dict[str, Any]:
    """Runs a script of this folder as a job of a daemon; what it answers on its last line."""
    done = subprocess.run(
        [*python, str(Path(__file__).with_name(script)), *arguments],
        env={**os.environ, **ONE_THREAD, **cache_environment(daemon)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=SCRIPT_SECONDS_MAX,
        check=True,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def cpu_seconds(daemon: PrivateDaemon) -> float:
    """A daemon's user and system time so far.

    From the process's own CPU clock (clock_getcpuclockid(3)): it counts nanoseconds, and threads that have
    ended too, of which /proc/PID/task shows nothing any more.
    """
    scheduler_clock = 2
    return time.clock_gettime((~_pid(daemon) << 3) | scheduler_clock)


def wait_until_quiet(daemon: PrivateDaemon) -> None:
    """Until a daemon has done next to nothing for a second: its work in the background is in no figure."""
    deadline = time.monotonic() + QUIET_SECONDS_MAX
    before = cpu_seconds(daemon)
    while time.monotonic() < deadline:
        time.sleep(QUIET_SECONDS)
        after = cpu_seconds(daemon)
        if after - before < QUIET_SHARE * QUIET_SECONDS:
            return
        before = after
    raise RuntimeError(f"the daemon was busy for {QUIET_SECONDS_MAX:g} s")


def children_cpu_seconds() -> float:
    """User and system time of all processes that this one has waited for, and of those that they have."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def private_rss_mib(daemon: PrivateDaemon) -> float:
    """A daemon's resident memory without the blocks of the RAM tier and other shared memory."""
    status = Path(f"/proc/{_pid(daemon)}/status").read_text()
    total, shared = (
        int(kibi) for name in ("VmRSS", "RssShmem") for kibi in re.findall(rf"{name}:\s+(\d+) kB", status)
    )
    return (total - shared) / KIBI_PER_MEBI


def _pid(daemon: PrivateDaemon) -> int:
    if daemon.process is None:
        raise RuntimeError("the daemon was not started")
    return daemon.process.pid
