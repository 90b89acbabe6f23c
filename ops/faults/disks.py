"""Faults of a disk: calls that fail or take long, space that runs out, a file system made read-only."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import tracer
from daemon import FaultDaemon
from fault import Around, Fault

SMALL_DISK_BYTES = 24 << 20
OPENS = "open,openat,creat"
READS = "pread64,read,preadv,readv"
SYNCS = "fdatasync,fsync,sync_file_range"
RENAMES = "rename,renameat,renameat2"
STATS = "stat,lstat,fstat,newfstatat,statx"


@contextlib.contextmanager
def call_fails(calls: str, what: str, daemon: FaultDaemon) -> Iterator[None]:
    """These calls of the daemon, whatever they are of."""
    with tracer.injected(daemon.pid, calls, what):
        yield


@contextlib.contextmanager
def file_fails(calls: str, what: str, daemon: FaultDaemon) -> Iterator[None]:
    """These calls, on segments that are there when the fault begins."""
    with tracer.injected(daemon.pid, calls, what, [daemon.segments, *daemon.files()]):
        yield


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Around]:
    """Segments lie on a file system of their own."""
    place = folder / "cache" / "segments"
    place.mkdir(parents=True, mode=0o700)
    (folder / "cache").chmod(0o700)
    options = f"size={SMALL_DISK_BYTES},mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "prebake-faults", str(place)], check=True)
    try:
        yield Around()
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@functools.cache
def no_mount() -> str:
    """Why nothing can be mounted here; empty if it can."""
    if os.geteuid() or not shutil.which("mount"):
        return "mounting needs root"
    with tempfile.TemporaryDirectory() as name:
        tried = subprocess.run(["mount", "-t", "tmpfs", "none", name], capture_output=True, text=True)
        if tried.returncode:
            return f"mounting is not permitted: {tried.stderr.strip()}"
        subprocess.run(["umount", name], check=True)
    return ""


@contextlib.contextmanager
def disk_full(daemon: FaultDaemon) -> Iterator[None]:
    """Somebody else's file takes what is left but for some megabytes, until it is removed."""
    free = os.statvfs(daemon.segments)
    hog = daemon.segments / "hog"
    with hog.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(free.f_bavail * free.f_frsize - (2 << 20), 1))
    try:
        yield
    finally:
        hog.unlink()


@contextlib.contextmanager
def read_only(daemon: FaultDaemon) -> Iterator[None]:
    """The file system is made read-only, as the kernel does it with one that has errors."""
    # The kernel allows it where nothing is open for writing: all segments are closed by now.
    for change in ("ro", "rw"):
        subprocess.run(["mount", "-o", f"remount,{change}", str(daemon.segments)], check=True)
        if change == "ro":
            yield


def _calls(name: str, calls: str, what: str, **options: bool) -> Fault:
    return Fault(name, functools.partial(call_fails, calls, what), missing=tracer.is_here, **options)


def _files(name: str, calls: str, what: str, **options: bool) -> Fault:
    return Fault(name, functools.partial(file_fails, calls, what), missing=tracer.is_here, **options)


def faults() -> list[Fault]:
    """All of them. After EIO of a write or a sync the daemon writes no more before a restart, by design."""
    mounted = {"around": small_disk, "missing": no_mount}
    always = "error=EIO:when=1+"
    return [
        _calls("EIO of open", OPENS, always),
        _files("EIO of read", READS, always, cold=True),
        _calls("EIO of every read", "pread64", always, cold=True, restart=True),
        _calls("EIO of write", "pwrite64", always, restart=True),
        _calls("EIO of every third write", "pwrite64", "error=EIO:when=3+3", restart=True),
        _calls("EIO of sync", SYNCS, always, restart=True, quick=True),
        _calls("EIO of rename", RENAMES, always, restart=True),
        _calls("EIO of stat", STATS, always, cold=True),
        _calls("ENOSPC of write", "pwrite64,fallocate", "error=ENOSPC:when=1+"),
        _calls("ENOSPC of sync", SYNCS, "error=ENOSPC:when=1+"),
        _calls("ENOSPC of open", OPENS, "error=ENOSPC:when=1+"),
        _calls("slow disk", "pwrite64,pread64", "delay_exit=50000:when=1+", silent=True, cold=True),
        _calls("slow syncs", SYNCS, "delay_exit=1500000:when=1+", silent=True),
        Fault("disk full", disk_full, **mounted, quick=True, more=2),
        Fault("disk read-only", read_only, **mounted),
    ]
