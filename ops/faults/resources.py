"""Faults of what a process is given: memory, descriptors, threads."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import tracer
from daemon import FaultDaemon
from disks import call_fails
from fault import Fault

#: What the daemon may have beyond what it has when the fault begins.
MORE_BYTES = 4 << 20
MORE_DESCRIPTORS = 1


@contextlib.contextmanager
def limited(which: int, most: int, daemon: FaultDaemon) -> Iterator[None]:
    """A soft limit, taken back after."""
    before = resource.prlimit(daemon.pid, which)
    resource.prlimit(daemon.pid, which, (most, before[1]))
    try:
        yield
    finally:
        if daemon.is_alive():
            resource.prlimit(daemon.pid, which, before)


@contextlib.contextmanager
def few_descriptors(daemon: FaultDaemon) -> Iterator[None]:
    """There is one descriptor left."""
    taken = max(int(name) for name in os.listdir(f"/proc/{daemon.pid}/fd")) + 1
    with limited(resource.RLIMIT_NOFILE, taken + MORE_DESCRIPTORS, daemon):
        yield


@contextlib.contextmanager
def little_memory(daemon: FaultDaemon) -> Iterator[None]:
    """Some megabytes of address space are left."""
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    size = re.search(r"VmSize:\s+(\d+) kB", status)
    assert size is not None, "Linux says so"
    with limited(resource.RLIMIT_AS, int(size[1]) * 1024 + MORE_BYTES, daemon):
        yield


@contextlib.contextmanager
def small_files(daemon: FaultDaemon) -> Iterator[None]:
    """No file may be larger than a megabyte; memory that has descriptors counts as files."""
    with limited(resource.RLIMIT_FSIZE, 1 << 20, daemon):
        yield


@contextlib.contextmanager
def no_processor(daemon: FaultDaemon) -> Iterator[None]:
    """The daemon is stopped: it answers nobody, and its sockets take connections all the same."""
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(daemon.pid, signal.SIGCONT)


def _calls(name: str, calls: str, what: str, **options: bool) -> Fault:
    return Fault(name, functools.partial(call_fails, calls, what), missing=tracer.is_here, **options)


def faults() -> list[Fault]:
    """All of them."""
    return [
        Fault("EMFILE, by limit", few_descriptors),
        Fault("EMFILE, by limit, cold", few_descriptors, cold=True),
        _calls("EMFILE of open and memfd_create", "openat,memfd_create,accept4", "error=EMFILE:when=1+"),
        _calls("ENFILE of accept", "accept4,accept", "error=ENFILE:when=1+"),
        _calls("ENOMEM of memfd_create", "memfd_create,ftruncate,fallocate", "error=ENOMEM:when=1+"),
        _calls("ENOMEM of mmap", "mmap,mremap", "error=ENOMEM:when=1+"),
        _calls("ENOMEM of mmap, cold", "mmap,mremap", "error=ENOMEM:when=1+", cold=True),
        _calls("ENOMEM of open", "openat", "error=ENOMEM:when=1+"),
        _calls("ENOMEM of write and sync", "pwrite64,fdatasync", "error=ENOMEM:when=1+", restart=True),
        Fault("ENOMEM, by limit of address space", little_memory),
        # Threads that are there do the work of those that cannot be had: there is nothing to say.
        _calls("EAGAIN of clone", "clone,clone3", "error=EAGAIN:when=1+", cold=True, silent=True),
        Fault("EFBIG, by limit", small_files),
        Fault("no processor", no_processor, silent=True),
    ]
