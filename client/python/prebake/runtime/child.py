"""A process that is given bytes and answers with bytes, within a time limit, whatever it does."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

#: Of the answer: a few items' digests and paths.
REPORT_BYTES_MAX = 1 << 26
#: Of what it says on stderr, its last words are kept.
STDERR_BYTES_KEPT = 4096
#: Of a pipe at a time.
_CHUNK = 1 << 16
#: Looked so often whether it ended after its answer.
_POLL_SECONDS = 0.005
#: And before that, whether it is to stop.
_STOP_SECONDS = 0.1


class Ended(NamedTuple):
    """How it ended. `report` is None if it gave no answer; `why` says so in words."""

    report: bytes | None
    why: str
    cpu_seconds: float
    late: bool
    #: The signal it died of; zero if of none.
    signal: int


def run_child(
    command: list[str],
    environment: dict[str, str],
    payload: Sequence[bytes],
    seconds: float,
    stop: threading.Event | None = None,
) -> Ended:
    """Runs a command in a session of its own, which is killed when the command has ended, runs over, or is
    told to stop."""
    deadline = time.monotonic() + seconds
    # All other descriptors are closed in it.
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    ) as child:
        cpu_seconds, status = 0.0, None
        try:
            report, said = _talk(child, payload, deadline, stop or threading.Event())
        finally:
            late = time.monotonic() >= deadline
            # Before it is waited for: until then its number is no other's.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            # If the job ignores its children's ends, there is nothing to be waited for.
            with contextlib.suppress(ChildProcessError):
                _, waited, usage = os.wait4(child.pid, 0)
                status = os.waitstatus_to_exitcode(waited)
                cpu_seconds = usage.ru_utime + usage.ru_stime
            child.returncode = 0 if status is None else status
    # A tracer passes on its command's signal as a shell does.
    died_of = 0 if status is None else max(0, -status if status < 0 else status - 128)
    return Ended(report or None, _words(died_of, said, late, seconds), cpu_seconds, late, died_of)


def _words(died_of: int, said: bytes, late: bool, seconds: float) -> str:
    last = said.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
    if late:
        return f"took longer than {seconds:g} s"
    how = f"was killed by signal {died_of}" if died_of else "ended without an answer"
    return f"{how}: {last[0][:500]}"


def _talk(
    child: subprocess.Popen[bytes], payload: Sequence[bytes], deadline: float, stop: threading.Event
) -> tuple[bytes, bytes]:
    """Gives it the payload and takes its answer and its last words, until it ended or time is over."""
    assert child.stdin is not None and child.stdout is not None and child.stderr is not None
    report, said, rest = bytearray(), bytearray(), [memoryview(part) for part in payload if part]
    with selectors.DefaultSelector() as open_pipes:
        for pipe in (child.stdin, child.stdout, child.stderr):
            os.set_blocking(pipe.fileno(), False)
        open_pipes.register(child.stdin, selectors.EVENT_WRITE)
        open_pipes.register(child.stdout, selectors.EVENT_READ)
        open_pipes.register(child.stderr, selectors.EVENT_READ)
        answered = False
        while (left := deadline - time.monotonic()) > 0 and not (answered and _has_ended(child)):
            if stop.is_set():
                return b"", bytes(said + b"\nit was stopped")
            for key, _ in open_pipes.select(min(left, _POLL_SECONDS if answered else _STOP_SECONDS)):
                if key.fileobj is child.stdin:
                    try:
                        rest[0] = rest[0][os.write(key.fd, rest[0][:_CHUNK]) :]
                        del rest[: not rest[0]]
                    except BrokenPipeError:
                        rest.clear()
                    if not rest:
                        open_pipes.unregister(child.stdin)
                        child.stdin.close()
                    continue
                data = os.read(key.fd, _CHUNK)
                if not data:
                    open_pipes.unregister(key.fileobj)
                    answered = answered or key.fileobj is child.stdout
                elif key.fileobj is child.stderr:
                    said = (said + data)[-STDERR_BYTES_KEPT:]
                elif len(report) + len(data) > REPORT_BYTES_MAX:
                    return b"", bytes(said + b"\nits answer is too long")
                else:
                    report += data
            if answered and len(open_pipes.get_map()) == 0:
                time.sleep(_POLL_SECONDS)
    return (bytes(report) if answered else b""), bytes(said)


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    try:
        return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
