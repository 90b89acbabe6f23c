"""RLIMIT_NOFILE of 256, for the daemon and for a job: nothing fails, spins or is lost for good."""

from __future__ import annotations

import resource
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from limits import descriptors, log, started_by, wait_until
from spread import SpreadJob, texts

from prebake.demo.daemon import PrivateDaemon

LIMIT = 256
#: More blocks than the limit has descriptors, were there no other bound.
RAM_BYTES = 2 << 30
#: Elements of 1 MiB, in blocks of 4.
SIZE = 1 << 20
#: Long enough to tell a daemon that is idle from one that tries again and again.
IDLE_SECONDS = 2.0
CONNECT_SECONDS = 0.05
#: All below this are open.
NONE_LEFT = 4
KINDS = [(socket.SOCK_STREAM, "prebake.sock"), (socket.SOCK_SEQPACKET, "data.sock")]


@contextmanager
def limited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *options: str) -> Iterator[PrivateDaemon]:
    """A daemon that may have so many descriptors, from its start on."""
    with started_by(monkeypatch, tmp_path, f'ulimit -n {LIMIT}\nexec "$@"', *options) as running:
        yield running


# `daemon` is asked for in name only: these tests need what it needs, and start one of their own.
@pytest.mark.usefixtures("daemon")
def test_a_daemon_of_more_blocks_than_descriptors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = texts(tmp_path / "texts", 700)
    with limited(monkeypatch, tmp_path, "--ram-bytes", str(RAM_BYTES)) as daemon:
        jobs = [SpreadJob(daemon.folder / "cache", files, SIZE, shuffle=seed) for seed in range(3)]
        done = [job.result() for job in jobs]
        assert not any(job["said"] for job in done)
        # What finds no room just when it is made is not stored; most is.
        again = SpreadJob(daemon.folder / "cache", files, SIZE, shuffle=5).result()
        assert again["computed"] < len(files) // 2 and not again["said"]
        assert descriptors(daemon) < LIMIT - LIMIT // 16
        # It was said once, at the start, what the limit comes to.
        said = [line for line in log(daemon) if "WARN" in line]
        assert len(said) == 1 and "raise RLIMIT_NOFILE" in said[0], said


@pytest.mark.usefixtures("daemon")
def test_a_daemon_of_more_connections_than_descriptors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = texts(tmp_path / "texts", 20)
    with limited(monkeypatch, tmp_path) as daemon, ExitStack() as idle:
        cache = daemon.folder / "cache"
        assert SpreadJob(cache, files, 1000).result()["computed"] == len(files)
        before = descriptors(daemon)
        for _ in range(LIMIT):
            for kind, name in KINDS:
                connection = idle.enter_context(socket.socket(socket.AF_UNIX, kind))
                # It fails where nobody is let in any more, or the queue of those who wait is full.
                connection.settimeout(CONNECT_SECONDS)
                with suppress(OSError):
                    connection.connect(str(cache / name))
        cpu = daemon.cpu_seconds()
        refused = SpreadJob(cache, files, 1000).result()
        assert len(refused["said"].splitlines()) == 1 and "computing locally" in refused["said"], refused
        time.sleep(IDLE_SECONDS)
        assert daemon.cpu_seconds() - cpu < IDLE_SECONDS / 4
        assert descriptors(daemon) < LIMIT
        warned = [line for line in log(daemon) if "WARN" in line and "RLIMIT_NOFILE" in line]
        # At the start, and once for each socket.
        assert 2 <= len(warned) <= 3 and len(log(daemon)) < 10, log(daemon)
        idle.close()
        wait_until("the descriptors come back", lambda: descriptors(daemon) <= before)
        assert SpreadJob(cache, files, 1000).result()["computed"] == 0


@pytest.mark.usefixtures("daemon")
def test_a_daemon_that_opens_nothing_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = texts(tmp_path / "texts", 120)
    with tempfile.TemporaryDirectory(prefix="prebake-") as folder, PrivateDaemon(Path(folder)) as daemon:
        assert daemon.process is not None
        cache = daemon.folder / "cache"
        warm = texts(tmp_path / "warm", 20)
        assert SpreadJob(cache, warm, SIZE).result()["computed"] == len(warm)
        job = SpreadJob(cache, files, SIZE, batch=5, pause_after_batch=1)
        job.wait_for_pause()
        # It keeps what it has and gets no other, as where others on the machine took all there are.
        before = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (NONE_LEFT, before[1]))
        assert job.result()["computed"] == len(files)
        wait_until(
            "it gives up what it cannot write", lambda: any("no-descr" in line for line in log(daemon))
        )
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, before)
        # After a rest it stores again what it could not then.
        wait_until("all is cached", lambda: SpreadJob(cache, files, SIZE).result()["computed"] == 0)
        assert len(log(daemon)) < 10, log(daemon)


@pytest.mark.parametrize("left", [1, 2, 5, 12])
def test_a_job_that_has_hardly_a_descriptor_left(daemon: PrivateDaemon, tmp_path: Path, left: int) -> None:
    files = texts(tmp_path / "texts", 120)
    cache = daemon.folder / "cache"
    assert SpreadJob(cache, files, SIZE).result()["computed"] == len(files)
    # Blocks are mapped one at a time then, and none is kept open.
    job = SpreadJob(cache, files, SIZE, descriptors=LIMIT, descriptors_left=left, batch=40).result()
    assert job["computed"] == 0 and not job["said"]


def test_a_job_of_more_blocks_than_descriptors(daemon: PrivateDaemon, tmp_path: Path) -> None:
    files = texts(tmp_path / "texts", 300)
    cache = daemon.folder / "cache"
    for _ in range(2):
        job = SpreadJob(cache, files, SIZE, descriptors=40, batch=50, shuffle=1).result()
        assert not job["said"]
    assert job["computed"] == 0


def test_a_job_without_descriptors_computes(daemon: PrivateDaemon, tmp_path: Path) -> None:
    files = texts(tmp_path / "texts", 20)
    # Enough to run by itself; the daemon's sockets do not fit.
    job = SpreadJob(daemon.folder / "cache", files, SIZE, descriptors_before=2).result()
    said = job["said"].splitlines()
    assert len(said) == 1 and "RLIMIT_NOFILE" in said[0], said
