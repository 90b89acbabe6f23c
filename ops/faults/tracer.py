"""strace, as the one who makes system calls of a running daemon fail or take long."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Attaching stops each thread once.
ATTACH_SECONDS_MAX = 10.0
DETACH_SECONDS_MAX = 20.0


def is_here() -> str:
    """Why it cannot be used; empty if it can."""
    return "" if shutil.which("strace") else "strace is not here"


@contextlib.contextmanager
def injected(pid: int, calls: str, what: str, paths: Iterable[Path] = ()) -> Iterator[None]:
    """`what` happens to these calls of a process as long as the block runs: see `--inject` in strace(1).

    With paths only calls count that name one of them, or a descriptor of one: the daemon's memory is made of
    descriptors too, and a disk that fails does not fail memory.
    """
    only = [option for path in paths for option in ("-P", str(path))]
    command = ["strace", "-f", "-qq", "-o", "/dev/null", *only]
    # Of calls that are not named, a kernel or an architecture may have none: `?` leaves these out.
    names = ",".join(f"?{call}" for call in calls.split(","))
    command += ["-e", f"trace={names}", "-e", f"inject={names}:{what}", "-p", str(pid)]
    tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _attached(tracer, pid)
        yield
    finally:
        tracer.send_signal(signal.SIGTERM)
        try:
            tracer.wait(DETACH_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            tracer.kill()
            tracer.wait()


def _attached(tracer: subprocess.Popen[str], pid: int) -> None:
    deadline = time.monotonic() + ATTACH_SECONDS_MAX
    while not all(_is_traced(task) for task in Path(f"/proc/{pid}/task").iterdir()):
        if tracer.poll() is not None:
            assert tracer.stderr is not None, "it was asked for"
            raise RuntimeError(f"strace does not attach: {tracer.stderr.read()}")
        if time.monotonic() > deadline:
            raise RuntimeError("strace does not attach in time")
        time.sleep(0.01)


def _is_traced(task: Path) -> bool:
    try:
        return "TracerPid:\t0\n" not in (task / "status").read_text()
    except FileNotFoundError:
        return True
