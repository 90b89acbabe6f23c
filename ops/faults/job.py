"""A job's process, asked for one pipeline after the other and waited for no longer than is allowed."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

#: Of what a failed job printed, so much is shown.
SHOWN_CHARS = 600
#: A job whose input has ended has nothing left to do but end.
END_SECONDS_MAX = 30.0


class Failed(Exception):
    """The job ended with an error, or ended early."""


class Hung(Exception):
    """The job gave no answer in time."""


class Job:
    """One process over a folder of inputs, connected to the daemon of `cache`."""

    def __init__(self, script: Path, inputs: Path, cache: Path, **variables: str) -> None:
        environment = {
            **os.environ,
            "PREBAKE": "on",
            # A daemon of the job's own would hide what became of the one under the fault.
            "PREBAKE_AUTOSTART": "0",
            "PREBAKE_DIR": str(cache),
            **variables,
        }
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(inputs)],
            env=environment,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            cwd=inputs.parent,
        )
        #: It hung or failed, which is known: nothing more is asked of it.
        self.lost = False
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._errors: list[str] = []
        # Threads, since a read of a pipe has no time limit, and a full pipe of errors would stop the job.
        for target in (self._read, self._read_errors):
            threading.Thread(target=target, daemon=True).start()

    def ask(self, number: int) -> None:
        """Has it run a pipeline. If it ended before, its answer says so."""
        assert self.process.stdin is not None, "it was asked for"
        with contextlib.suppress(OSError):
            self.process.stdin.write(f"{number}\n")
            self.process.stdin.flush()

    def answer(self, seconds: float) -> dict[str, Any]:
        """What came of it. Raises `Hung` after so many seconds, `Failed` if the job ended."""
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise self._lost(Hung(f"no answer in {seconds} s; {self._told()}")) from None
        if line is None:
            self.process.wait()
            raise self._lost(Failed(self._told()))
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self) -> None:
        """Lets it end, and sees that it does so well."""
        assert self.process.stdin is not None, "it was asked for"
        self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise self._lost(Hung(f"it does not end; {self._told()}")) from None
        if self.process.returncode:
            raise self._lost(Failed(self._told()))

    def kill(self) -> None:
        """Ends it whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def _lost(self, error: Exception) -> Exception:
        self.lost = True
        self.kill()
        return error

    def _read(self) -> None:
        assert self.process.stdout is not None, "it was asked for"
        for line in self.process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None, "it was asked for"
        self._errors.extend(self.process.stderr)

    def _told(self) -> str:
        return f"exit {self.process.poll()}: {''.join(self._errors)[-SHOWN_CHARS:]}"
