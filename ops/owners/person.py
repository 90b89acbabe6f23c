"""A user of the machine: a number, a home, and programs that run as nobody else."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

#: No program may take longer.
HANG_SECONDS = 10.0
#: A file that never ends must not take the machine's memory.
BYTES_MAX = 4 << 30


class Done(NamedTuple):
    """What came of a program."""

    code: int
    out: str
    err: str
    hung: bool
    seconds: float


class Person:
    """One of the users."""

    def __init__(self, uid: int, home: Path) -> None:
        self.uid = uid
        self.home = home

    def settle(self) -> None:
        """Makes the home. Others may go through it, and not write to it."""
        self.home.mkdir(mode=0o755)
        os.chown(self.home, self.uid, self.uid)

    def start(self, *command: str | Path, **variables: str) -> subprocess.Popen[str]:
        """Starts a program in the home."""
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.home),
            "PYTHONDONTWRITEBYTECODE": "1",
            **variables,
        }
        return subprocess.Popen(
            [str(word) for word in command],
            env=environment,
            cwd=self.home,
            user=self.uid,
            group=self.uid,
            extra_groups=[],
            umask=0o022,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # By whoever starts it, since there are no threads here.
            preexec_fn=_bounded,
        )

    def run(self, *command: str | Path, **variables: str) -> Done:
        """Runs a program to its end, or for as long as nothing may hang."""
        begun = time.monotonic()
        process = self.start(*command, **variables)
        hung = False
        try:
            out, err = process.communicate(timeout=HANG_SECONDS)
        except subprocess.TimeoutExpired:
            hung = True
            self.end_all(process.pid)
            process.kill()
            try:
                out, err = process.communicate(timeout=HANG_SECONDS)
            except subprocess.TimeoutExpired:
                # A child of its own holds the pipe, and cannot be ended.
                out, err = "", ""
        return Done(process.returncode or 0, out, err, hung, time.monotonic() - begun)

    def processes(self) -> list[int]:
        """This user's, that work in the home's folder: no other program of this user runs on the machine."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes()
                if entry.stat().st_uid == self.uid and str(self.home.parent).encode() in words:
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def end_all(self, but: int = 0) -> None:
        """Ends those, and waits until they have."""
        deadline = time.monotonic() + HANG_SECONDS
        while (found := [pid for pid in self.processes() if pid != but]) and time.monotonic() < deadline:
            for pid in found:
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    continue
            time.sleep(0.01)
            if but:
                return


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (BYTES_MAX, BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
