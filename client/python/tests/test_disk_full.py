"""A full disk costs jobs nothing but the cache: right bytes, exit code 0, and a daemon that says why."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from conftest import Jobs, make_images

from prebake.demo.daemon import PrivateDaemon

DISK_BYTES = 24 << 20
#: What jobs made is written five seconds after the last of it, if not before.
WRITTEN_SECONDS_MAX = 30.0
#: Elements of 512x512x3 bytes; so many are twice the disk.
IMAGES, SIZE = 64, 512


@contextmanager
def small_file_system(folder: str) -> Iterator[Path]:
    """The folder as a process sees it that has mounted a file system of its own there, which ends with it."""
    mount = f'mount -t tmpfs -o size={DISK_BYTES} none "$0" && echo mounted && exec cat'
    holder = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", mount, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"mounted\n"
        yield Path(f"/proc/{holder.pid}/root{folder}")
    finally:
        holder.communicate()


@contextmanager
def full_file_system() -> Iterator[PrivateDaemon]:
    """A daemon whose file system is smaller than its budget, and has its log too."""
    with (
        tempfile.TemporaryDirectory(prefix="prebake-") as folder,
        small_file_system(folder) as inside,
        PrivateDaemon(inside) as running,
    ):
        yield running


@contextmanager
def file_size_limit() -> Iterator[PrivateDaemon]:
    """A daemon whose files may not grow as large as a segment (`ulimit -f`)."""
    with tempfile.TemporaryDirectory(prefix="prebake-") as folder, PrivateDaemon(Path(folder)) as running:
        assert running.process is not None
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (DISK_BYTES, DISK_BYTES))
        yield running


Full = Callable[[], AbstractContextManager[PrivateDaemon]]
# Only root may mount.
FULL: list[Full] = [file_size_limit] + ([full_file_system] if os.geteuid() == 0 else [])


# `daemon` is asked for in name only: these tests need what it needs, and start one of their own.
@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("full", FULL, ids=lambda full: full.__name__.replace("_", " "))
def test_jobs_go_on_when_the_disk_is_full(full: Full, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    images = make_images(tmp_path / "images", IMAGES)
    with full() as daemon:
        jobs = Jobs(daemon, tmp_path)
        request.addfinalizer(jobs.stop)
        plain = jobs.uncached(images, size=SIZE, epochs=2)
        started = [jobs.start(images, size=SIZE, epochs=2, shuffle=seed) for seed in range(2)]
        assert [job.result()["digests"] for job in started] == [plain["digests"]] * 2
        assert daemon.process is not None and daemon.process.poll() is None
        # It is written once they pause.
        until = time.monotonic() + WRITTEN_SECONDS_MAX
        while not daemon.metrics().get('prebake_errors_total{code="disk-full"}') and time.monotonic() < until:
            time.sleep(0.1)
        assert daemon.metrics()['prebake_errors_total{code="disk-full"}'] > 0
        assert daemon.stored_bytes() <= DISK_BYTES
        # It still caches what fits.
        few = images[:8]
        assert jobs.run(few, size=64)["computed"] == len(few)
        assert jobs.run(few, size=64)["reused"] == len(few)
