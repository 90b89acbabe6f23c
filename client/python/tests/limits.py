"""What the tests of limits see of a daemon from outside: its descriptors, its memory, what it said."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from spread import SpreadJob

from prebake.demo.daemon import PrivateDaemon, find_daemon

SECONDS_MAX = 30.0


def links(daemon: PrivateDaemon) -> dict[str, str]:
    """What each of its descriptors is of, by number."""
    assert daemon.process is not None
    folder = f"/proc/{daemon.process.pid}/fd"
    found = {}
    for name in os.listdir(folder):
        try:
            found[name] = os.readlink(f"{folder}/{name}")
        except FileNotFoundError:
            continue
    return found


def descriptors(daemon: PrivateDaemon) -> int:
    return len(links(daemon))


def shared_bytes(daemon: PrivateDaemon, *jobs: SpreadJob) -> int:
    """Shared memory that the daemon has descriptors of, and what of its these jobs have mapped."""
    assert daemon.process is not None
    files = {}
    for name, link in links(daemon).items():
        if link.startswith("/memfd:"):
            try:
                status = os.stat(f"/proc/{daemon.process.pid}/fd/{name}")
            except FileNotFoundError:
                continue
            files[status.st_ino] = status.st_blocks * 512
    for job in jobs:
        for line in Path(f"/proc/{job.process.pid}/maps").read_text().splitlines():
            if "/memfd:prebake-block" in line:
                files.setdefault(int(line.split()[4]), 4 << 20)
    return sum(files.values())


def counted_bytes(daemon: PrivateDaemon) -> float:
    """What it counts as in use: blocks, staging, rings, its own buffers, rows."""
    return daemon.metrics()['prebake_tier_bytes{tier="ram"}']


def log(daemon: PrivateDaemon) -> list[str]:
    return (daemon.folder / "prebaked.log").read_text().splitlines()


def wait_until(what: str, condition: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)


@contextmanager
def started_by(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, *options: str
) -> Iterator[PrivateDaemon]:
    """A daemon that this shell script becomes, of which `"$@"` is the command."""
    wrapper = tmp_path / "prebaked"
    wrapper.write_text(f'#!/bin/sh\nset -e\nset -- "{find_daemon()}" "$@"\n{script}\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PREBAKE_DAEMON", str(wrapper))
    with (
        tempfile.TemporaryDirectory(prefix="prebake-") as folder,
        PrivateDaemon(Path(folder), *options) as running,
    ):
        yield running
