"""What programs run on: a daemon over an empty folder, and processes that fork one child a run.

The hash seed of a process is fixed when it starts, so there are three, which take turns: what a value owes to
the order of a set shows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from builder import Program

from prebake.demo.daemon import PrivateDaemon

HASH_SEEDS = ("1", "22", "333")
#: A run takes some ten milliseconds; one that was probed, seconds on a busy machine.
RUN_SECONDS_MAX = 60.0
#: What a value that is drawn anew each time is printed as.
VARYING = re.compile(r"~\d+~")
#: What programs write, and what stays of it.
LEFT = "out-*.txt"


@dataclasses.dataclass
class Run:
    """How a run ended, what it printed, and which files it wrote."""

    code: Any
    out: str
    said: str
    left: dict[str, str]
    reused: int = 0
    computed: int = 0
    seconds: float = 0.0
    cpu: float = 0.0

    def shown(self) -> tuple[Any, str, dict[str, str]]:
        """All that a cache must not change, without what is another each time."""
        return self.code, VARYING.sub("~", self.out), self.left

    def drawn(self) -> set[str]:
        return set(VARYING.findall(self.out))


class Zygote:
    """A process that forks runs."""

    def __init__(self, python: str, hash_seed: str) -> None:
        self.process = subprocess.Popen(
            [python, str(Path(__file__).with_name("zygote.py"))],
            env={**_environment(), "PYTHONHASHSEED": hash_seed},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("FUZZ_SAID") else subprocess.DEVNULL,
            text=True,
        )

    def ready(self) -> None:
        if self._line(120.0) != "ready\n":
            raise RuntimeError("the process that forks programs does not start")

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._line(request["seconds"] + 30))
        return answer

    def _line(self, seconds: float) -> str:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise RuntimeError("the process that forks programs does not answer")
        return self.process.stdout.readline()

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.process.communicate(timeout=5)
        self.process.kill()
        self.process.wait()


def _environment() -> dict[str, str]:
    """As little as a program needs: what else there is in it differs between machines."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "PREBAKE_DAEMON", "PYTHONPATH", "TMPDIR")
        if name in os.environ
    }
    return {
        **kept,
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "PREBAKE_AUTOSTART": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


class Machine:
    """Runs programs, cached and not. `python` is the interpreter; `before` are lines that each cached run
    begins with, by which tests show that what is wrong is found."""

    def __init__(self, python: str = sys.executable, before: list[str] | None = None) -> None:
        self.python = python
        told = subprocess.run([python, "--version"], capture_output=True, text=True, check=True)
        self.version = told.stdout.strip()
        self.before = before or []
        self.root = Path(tempfile.mkdtemp(prefix="prebake-programs-"))
        self.zygotes = [Zygote(python, seed) for seed in HASH_SEEDS]
        for each in self.zygotes:
            each.ready()
        self.daemon: PrivateDaemon | None = None
        self.made = 0

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.empty()
        for each in self.zygotes:
            each.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def empty(self) -> None:
        """Ends the daemon and removes all that it stored."""
        if self.daemon is not None:
            # What it holds goes with it: there is nothing to be closed.
            self.daemon.kill()
            shutil.rmtree(self.daemon.folder, ignore_errors=True)
            self.daemon = None

    def cache(self) -> Path:
        if self.daemon is None:
            self.made += 1
            folder = self.root / f"daemon{self.made}"
            folder.mkdir()
            self.daemon = PrivateDaemon(folder)
            self.daemon.start()
        return self.daemon.folder / "cache"

    def folder(self) -> Path:
        """A new one, for one program."""
        self.made += 1
        folder = self.root / f"p{self.made}"
        folder.mkdir()
        return folder

    def run(
        self, folder: Path, program: Program, cached: bool, turn: int, trials: bool, real: bool = False
    ) -> Run:
        """One run; `real` in a new interpreter. `trials` says whether functions are tried beside it."""
        for path in folder.glob(LEFT):
            path.unlink()
        env = _environment() | program.env
        if cached:
            env["PREBAKE_DIR"] = str(self.cache())
        else:
            env["PREBAKE"] = "off"
        if real:
            made = self._real(folder, program, env)
        else:
            request = {
                "folder": str(folder),
                "argv": program.argv,
                "env": env,
                "trials": trials,
                "before": self.before if cached else [],
                "seconds": RUN_SECONDS_MAX,
            }
            found = self.zygotes[turn % len(self.zygotes)].ask(request)
            counts = found.pop("counts")
            made = Run(left={}, reused=counts.get("reused", 0), computed=counts.get("computed", 0), **found)
        made.left = {path.name: path.read_text() for path in sorted(folder.glob(LEFT))}
        return made

    def _real(self, folder: Path, program: Program, env: dict[str, str]) -> Run:
        try:
            done = subprocess.run(
                [self.python, "main.py", *program.argv],
                cwd=folder,
                env=env,
                capture_output=True,
                text=True,
                timeout=RUN_SECONDS_MAX,
            )
        except subprocess.TimeoutExpired:
            return Run("timeout", "", "", {})
        return Run(done.returncode, done.stdout, done.stderr, {})


def write(folder: Path, before: Program | None, program: Program, touched: str = "") -> None:
    """Brings the files of a folder to what a program's are; those that did not change are left alone."""
    known = before.files if before is not None else {}
    for name in known.keys() - program.files.keys():
        (folder / name).unlink(missing_ok=True)
    for name, text in program.files.items():
        if known.get(name) != text or name == touched:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
