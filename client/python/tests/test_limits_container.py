"""What a container forbids or bounds: memory of its control group, /dev/shm, memfd_create, fallocate."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from limits import counted_bytes, log, started_by
from spread import SpreadJob, texts

MIB = 1 << 20
LIMIT_BYTES = 160 * MIB
SIZE = MIB
#: Blocks, staging memory and rings are larger, the doorbell is smaller.
BLOCK_BYTES_MIN = MIB
#: Numbers of system calls on x86_64.
MEMFD_CREATE, FALLOCATE = 319, 285
#: linux/filter.h, linux/seccomp.h, linux/prctl.h.
LOAD, JUMP_IF_EQUAL, JUMP_IF_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
NUMBER_AT, FOURTH_AT = 0, 40
ERRNO, ALLOW = 0x00050000, 0x7FFF0000
SET_SECCOMP, FILTER, SET_NO_NEW_PRIVILEGES = 22, 2, 38


class Program(ctypes.Structure):
    """sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def forbid(call: int, error: int, least: int) -> None:
    """Has a system call whose fourth argument is so large fail from now on."""
    instructions = [
        (LOAD, 0, 0, NUMBER_AT),
        (JUMP_IF_EQUAL, 0, 3, call),
        (LOAD, 0, 0, FOURTH_AT),
        (JUMP_IF_AT_LEAST, 0, 1, least),
        (RETURN, 0, 0, ERRNO | error),
        (RETURN, 0, 0, ALLOW),
    ]
    text = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    program = Program(len(instructions), text)
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in [(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0), (SET_SECCOMP, FILTER, ctypes.byref(program))]:
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group within this process's own that limits memory."""
    made = None
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        root = {"memory": "/sys/fs/cgroup/memory", "": "/sys/fs/cgroup"}.get(controllers)
        parent = Path(f"{root}{path}")
        limit = "memory.limit_in_bytes" if controllers else "memory.max"
        if root and (parent / "cgroup.procs").exists() and os.access(parent, os.W_OK):
            made = parent / f"prebake-test-{os.getpid()}"
            made.mkdir()
            if (made / limit).exists():
                (made / limit).write_text(str(LIMIT_BYTES))
                break
            made.rmdir()
            made = None
    if made is None:
        pytest.skip("no control group can be made here")
    yield made
    until = time.monotonic() + 10
    while True:
        try:
            made.rmdir()
            return
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.1)


# `daemon` is asked for in name only: these tests need what it needs, and start one of their own.
@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("options", [(), ("--ram-bytes", str(1 << 30))])
def test_a_group_with_less_memory_than_the_tier(
    group: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: tuple[str, ...]
) -> None:
    files = texts(tmp_path / "texts", 320)
    enter = f'echo $$ > "{group}/cgroup.procs"\nexec "$@"'
    with started_by(monkeypatch, tmp_path, enter, *options) as daemon:
        cache = daemon.folder / "cache"
        for epoch in range(2):
            jobs = [SpreadJob(cache, files, SIZE, batch=4, shuffle=10 * epoch + seed) for seed in range(2)]
            for job in jobs:
                assert not job.result()["said"]
            assert counted_bytes(daemon) < LIMIT_BYTES
        assert daemon.process is not None and daemon.process.poll() is None, log(daemon)
        budget = daemon.metrics()['prebake_tier_budget_bytes{tier="ram"}']
        assert budget <= LIMIT_BYTES * 3 // 4
        said = [line for line in log(daemon) if "WARN" in line]
        # Of what was not asked for there is nothing to say.
        assert len(said) == (1 if options else 0), said
        assert all("cgroup" in line and "--ram-bytes" in line for line in said)


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("mount", [f"-o size={MIB}", "-o ro"])
def test_no_room_in_dev_shm(mount: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    files = texts(tmp_path / "texts", 40)
    inside = f'exec unshare --mount sh -c \'mount -t tmpfs {mount} none /dev/shm && exec "$@"\' sh "$@"'
    with started_by(monkeypatch, tmp_path, inside) as daemon:
        for computed in (len(files), 0):
            job = SpreadJob(daemon.folder / "cache", files, SIZE).result()
            assert job["computed"] == computed and not job["said"]


def without(call: int, error: int, least: int = 0) -> str:
    """Becomes this file as a program, which forbids a system call and becomes the daemon."""
    return f'exec "{sys.executable}" "{__file__}" {call} {error} {least} "$@"'


x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of its system calls")


@x86_64
@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("error", [errno.ENOMEM, errno.ENOSPC])
def test_no_shared_memory_is_left(error: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = texts(tmp_path / "texts", 40)
    with started_by(monkeypatch, tmp_path, without(FALLOCATE, error, BLOCK_BYTES_MIN)) as daemon:
        job = SpreadJob(daemon.folder / "cache", files, SIZE).result()
        said = job["said"].splitlines()
        assert len(said) == 1 and "no-memory" in said[0] and "--ram-bytes" in said[0], said
        assert daemon.process is not None and daemon.process.poll() is None
        assert not daemon.metrics().get('prebake_errors_total{code="io"}')
        assert sum("WARN" in line for line in log(daemon)) == 1, log(daemon)
        assert counted_bytes(daemon) < SIZE * len(files) // 4


@x86_64
@pytest.mark.usefixtures("daemon")
def test_no_memfd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = texts(tmp_path / "texts", 10)
    with tempfile.TemporaryDirectory(prefix="prebake-") as folder:
        with (
            pytest.raises(RuntimeError, match="memfd_create.*a container must allow"),
            started_by(monkeypatch, tmp_path, without(MEMFD_CREATE, errno.ENOSYS)),
        ):
            pass
        job = SpreadJob(Path(folder), files, SIZE).result()
        assert len(job["said"].splitlines()) == 1 and "computing locally" in job["said"]


if __name__ == "__main__":
    forbid(*map(int, sys.argv[1:4]))
    os.execv(sys.argv[4], sys.argv[4:])
