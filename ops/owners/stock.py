"""What all cases begin with: two users, what the one has stored, and what the other has to plant."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import owner_job
from person import HANG_SECONDS, Person
from plants import World

import prebake
from prebake.demo.daemon import find_daemon
from prebake.runtime import programs

#: Nobody, on every Linux, and one beside.
ME, OTHER = 65_533, 65_534
HERE = Path(__file__).parent
#: Files that are as old as that are believed not to change.
OLD = 1_600_000_000
ITEMS = 3
CONFIG = 'ram_bytes = 134217728\nsegment_idle_ms = 200\nmetrics_address = "127.0.0.1:0"\n'
SETTLE_SECONDS = 20.0
#: For so long a stat does not tell a later write of the file; a little more than the daemon's own window.
RACY_SECONDS = 2.1


class Stock:
    """All of it, below one folder that root has."""

    def __init__(self, base: Path) -> None:
        self.base = base
        base.chmod(0o755)
        self.me = Person(ME, base / "me")
        self.other = Person(OTHER, base / "other")
        for person in (self.me, self.other):
            person.settle()
        self.jobs = base / "jobs"
        self.jobs.mkdir()
        for name in ("owner_job.py", "poison.py"):
            shutil.copy(HERE / name, self.jobs)
        self.inputs = base / "inputs"
        self.inputs.mkdir()
        for i in range(ITEMS):
            path = self.inputs / f"{i}.txt"
            path.write_text(f"right {i}.")
            os.utime(path, (OLD, OLD))
        # What was written just now each job reads for itself, and stores nothing of it.
        time.sleep(RACY_SECONDS)
        #: What a command reads and does not say: others read something else at other times.
        self.hidden = base / "hidden"
        #: Made by a stream that is run.
        self.mark = base / "other" / "mark"
        #: The tests' own may lie where others may not look.
        self.python, self.packages = sys.executable, ""
        self.daemon, self.client = Path(find_daemon()), programs.path("prebake")
        self.cache, self.config = self.me.home / "c", self.me.home / "prebaked.toml"

    def missing(self) -> str:
        """Why no case can be tried here; empty if they can."""
        site = str(Path(prebake.__file__).parents[1])
        version = f"python3.{sys.version_info.minor}"
        why = ""
        for python, packages in (
            (sys.executable, ""),
            (f"/usr/bin/{version}", site),
            (f"/usr/local/bin/{version}", site),
        ):
            try:
                done = self.me.run(python, "-c", "import prebake._native, numpy", PYTHONPATH=packages)
            except OSError as error:
                why = why or str(error)
                continue
            if not done.code:
                self.python, self.packages = python, packages
                return ""
            why = why or done.err[-200:]
        return f"another user cannot run this Python: {why}"

    def job(
        self, script: str = "owner_job", folder: Path | None = None, autostart: bool = False
    ) -> tuple[list[str | Path], dict[str, str]]:
        """The command of a job, and its variables."""
        command = [self.python, "-c", f"import {script}; {script}.main()", self.inputs, self.mark]
        return [*map(str, command)], {
            "PYTHONPATH": f"{self.jobs}:{self.packages}",
            "PREBAKE_DIR": str(folder or self.cache),
            "PREBAKE_AUTOSTART": str(int(autostart)),
            "PREBAKE_DAEMON": str(self.daemon),
        }

    def command(self, *words: str, folder: Path | None = None) -> tuple[list[str | Path], dict[str, str]]:
        """A command of the client, and its variables."""
        command = [self.client, "--dir", folder or self.cache, *words]
        return command, {"PREBAKE_DAEMON": str(self.daemon)}

    def kept(self) -> tuple[list[str | Path], dict[str, str]]:
        """A command that is run once for all, and prints what it does not say that it reads."""
        return self.command(
            "run", "--declared-only", "--", "/bin/sh", "-c", f"cat <{self.hidden}; cat <{self.hidden} >&2"
        )

    def serve(self, person: Person, folder: Path, *options: str | Path) -> subprocess.Popen[str]:
        """Starts a daemon."""
        return person.start(self.daemon, "--dir", folder, *options)

    def fill(self, name: str, hidden: str) -> Path:
        """The user's home after jobs and a command, and a daemon that ended: a copy. What is to be planted is
        stored as the user's own, so that nothing but its owner and mode tells it."""
        _emptied(self.me.home)
        self.config.write_text(CONFIG)
        os.chown(self.config, ME, ME)
        self.hidden.write_text(hidden)
        daemon = self.serve(self.me, self.cache, "--config", self.config)
        try:
            wait(lambda: listens(self.cache), "the daemon listens")
            command, variables = self.job()
            if name == "planted":
                limit = f"--msgqueue={owner_job.PLANTING}"
                # Of a process of its own, since what another makes is compared before it is believed.
                for _ in range(2):
                    self.ran("prlimit", limit, *command, **variables)
                command, variables = self.job("poison")
            self.ran(*command, **variables)
            command, variables = self.kept()
            self.ran(*command, **variables)
            segments = self.cache / "segments"
            wait(lambda: any(segments.glob("*.arrow")), "something is durable")
            time.sleep(1.0)
            wait(lambda: not any(segments.glob("*.tmp")), "all is durable")
        finally:
            daemon.terminate()
            daemon.wait(HANG_SECONDS)
        (self.cache / "quarantine.json").write_text("[]")
        (self.cache / "daemon.log").touch()
        for path in (self.cache / "quarantine.json", self.cache / "daemon.log"):
            os.chown(path, ME, ME)
            path.chmod(0o600)
        made = self.base / name
        subprocess.run(["cp", "-a", self.me.home, made], check=True)
        made.chmod(0o700)
        return made

    def world(self) -> World:
        """What cases are made of. The other's daemon is started by whoever calls."""
        self.honest = self.fill("honest", "right")
        poison = self.fill("planted", "planted!")
        self.hidden.write_text("right")
        planted, rogue = self.other.home / "planted", self.other.home / "rogue"
        for home in (planted, rogue):
            subprocess.run(["cp", "-a", poison, home], check=True)
            for each in (home, *home.rglob("*")):
                os.chown(each, OTHER, OTHER)
                # A daemon would not use what others may write to.
                bits = 0 if home == rogue else 0o077
                each.chmod(0o700 | bits if each.is_dir() else 0o600 | bits & 0o066)
        rogue.chmod(0o711)
        precious = self.base / "precious"
        (precious / "folder").mkdir(parents=True)
        (precious / "file").write_text("precious\n")
        (precious / "folder" / "file").write_text("precious\n")
        for each in (precious, *precious.rglob("*")):
            os.chown(each, ME, ME)
        self.poison = poison
        return World(self.me.home, ME, OTHER, planted, precious, rogue)

    def ran(self, *command: str | Path, **variables: str) -> None:
        """Runs what must go well for the rest to mean anything."""
        done = self.me.run(*command, **variables)
        if done.code or done.hung:
            raise RuntimeError(f"{command[:3]} failed: {done.err[-600:]}")

    def begin(self, home: Path) -> None:
        """The user's home as it was then."""
        self.me.end_all()
        _emptied(self.me.home)
        subprocess.run(["cp", "-a", f"{home}/.", self.me.home], check=True)
        self.me.home.chmod(0o755)
        self.mark.unlink(missing_ok=True)


def _emptied(folder: Path) -> None:
    for each in folder.iterdir():
        shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()


def listens(folder: Path) -> bool:
    """Whether all sockets of a daemon are there."""
    return all((folder / name).exists() for name in ("prebake.sock", "data.sock", "metrics.sock"))


def wait(until: object, what: str) -> None:
    """Waits for something. Raises `RuntimeError` if it does not come."""
    assert callable(until)
    deadline = time.monotonic() + SETTLE_SECONDS
    while not until():
        if time.monotonic() > deadline:
            raise RuntimeError(f"in vain waited until {what}")
        time.sleep(0.02)
