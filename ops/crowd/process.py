"""A process of the crowd: it is started, says that it is ready, answers lines, and is always ended."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
#: Of what a process says on standard error so much is shown.
SHOWN_CHARS = 400


class Process:
    """One of the scripts beside this one."""

    def __init__(self, script: str, *arguments: object, cache: Path) -> None:
        environment = {
            **os.environ,
            "PREBAKE": "on",
            # A daemon of its own would hide what became of the one that is looked at.
            "PREBAKE_AUTOSTART": "0",
            "PREBAKE_DIR": str(cache),
            # Threads of numerical libraries are none of what is measured.
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        pipe = subprocess.PIPE
        self.name = " ".join([script, *(str(each) for each in arguments if not isinstance(each, Path))])
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / f"{script}.py"), *map(str, arguments)],
            env=environment,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            cwd=cache.parent,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._errors: list[str] = []
        # Threads, since a read of a pipe has no time limit, and a full pipe would stop the process.
        for target in (self._read, self._read_errors):
            threading.Thread(target=target, daemon=True).start()

    def be_idle(self) -> None:
        """Has it run where nobody else would: what its own work takes from others is none of the daemon's."""
        os.sched_setscheduler(self.process.pid, os.SCHED_IDLE, os.sched_param(0))

    def ask(self, line: object) -> None:
        """Gives it a line of input."""
        assert self.process.stdin is not None, "it was asked for"
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def line(self, seconds: float) -> str:
        """Its next line of output, which must come in this time."""
        try:
            found = self._lines.get(timeout=max(seconds, 0))
        except queue.Empty:
            raise RuntimeError(f"{self.name} says nothing in {seconds:.0f} s: {self.said()}") from None
        if not found:
            raise RuntimeError(f"{self.name} ended with {self.process.wait()}: {self.said()}")
        return found

    def told(self) -> bool:
        """Whether there is a line, or its end."""
        return not self._lines.empty()

    def answer(self, seconds: float) -> dict[str, Any]:
        """The same as JSON."""
        found: dict[str, Any] = json.loads(self.line(seconds))
        return found

    def is_done(self) -> bool:
        """Whether it ended."""
        return self.process.poll() is not None

    def end(self, seconds: float) -> int:
        """Closes its input, and waits for its end; its exit status."""
        assert self.process.stdin is not None, "it was asked for"
        if not self.process.stdin.closed:
            self.process.stdin.close()
        return self.process.wait(seconds)

    def kill(self) -> None:
        """Ends it whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def said(self) -> str:
        """What it said on standard error, from its end."""
        return "".join(self._errors)[-SHOWN_CHARS:]

    def cpu_seconds(self) -> float:
        """User and system time so far; none of one that ended."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _read(self) -> None:
        assert self.process.stdout is not None, "it was asked for"
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _read_errors(self) -> None:
        assert self.process.stderr is not None, "it was asked for"
        self._errors.extend(self.process.stderr)
