"""The daemon seen from outside: its memory, descriptors and threads, as the kernel counts them."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

from prebake.demo.daemon import PrivateDaemon, find_daemon

#: What lets a process have more descriptors on their way in sockets than the limit says (unix(7),
#: ETOOMANYREFS). A user's daemon has neither, so one that root starts here must not.
UNLIMITED = "-sys_resource,-sys_admin"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
Sample = dict[str, float]


class WatchedDaemon(PrivateDaemon):
    """A daemon that may do what a user's may."""

    def start(self) -> None:
        """Starts it and waits until it listens."""
        wrapper = self.folder / "prebaked.sh"
        drop = f"setpriv --bounding-set {UNLIMITED} --inh-caps {UNLIMITED}"
        able = os.geteuid() == 0 and shutil.which("setpriv")
        wrapper.write_text(f'#!/bin/sh\nexec {drop if able else ""} "{find_daemon()}" "$@"\n')
        wrapper.chmod(0o700)
        before = os.environ.get("PREBAKE_DAEMON")
        os.environ["PREBAKE_DAEMON"] = str(wrapper)
        try:
            super().start()
        finally:
            del os.environ["PREBAKE_DAEMON"]
            if before is not None:
                os.environ["PREBAKE_DAEMON"] = before

    def is_alive(self) -> bool:
        """Whether the process that was started still runs."""
        return self.process is not None and self.process.poll() is None

    def descriptors_max(self) -> int:
        """What the kernel lets it have open."""
        found = re.search(r"Max open files\s+(\d+)", self._proc("limits"))
        assert found, "every process has the limit"
        return int(found[1])

    def log_lines(self) -> list[str]:
        """What it said, without colours."""
        return _COLOUR.sub("", (self.folder / "prebaked.log").read_text(errors="replace")).splitlines()

    def sample(self) -> Sample:
        """All of it now. Sizes in bytes."""
        status = dict(re.findall(r"(\w+):\s+(\d+)", self._proc("status")))
        links, shared = self._descriptors()
        metrics = self.metrics()
        return {
            "at": time.monotonic(),
            "rss": int(status["VmRSS"]) << 10,
            "anonymous": int(status["RssAnon"]) << 10,
            "shared": shared,
            "counted": metrics['prebake_tier_bytes{tier="ram"}'],
            "counted_max": metrics['prebake_tier_budget_bytes{tier="ram"}'],
            "descriptors": len(links),
            "sockets": sum(link.startswith("socket:") for link in links),
            "threads": int(status["Threads"]),
            "jobs": metrics["prebake_jobs"],
            "cpu_seconds": self.cpu_seconds(),
        }

    def _descriptors(self) -> tuple[list[str], int]:
        """What each descriptor is of, and the shared memory among them."""
        assert self.process is not None, "it was started"
        folder = Path(f"/proc/{self.process.pid}/fd")
        links: list[str] = []
        memory: dict[int, int] = {}
        for name in os.listdir(folder):
            try:
                links.append(os.readlink(folder / name))
                if links[-1].startswith("/memfd:"):
                    status = os.stat(folder / name)
                    memory[status.st_ino] = status.st_blocks * 512
            except FileNotFoundError:
                continue
        return links, sum(memory.values())
