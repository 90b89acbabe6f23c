"""The daemon under a fault: the real one, and what can be told of it while it cannot be asked."""

from __future__ import annotations

import datetime
import os
import re
import socket
import time
from collections import Counter
from pathlib import Path

from prebake.demo.daemon import PrivateDaemon, find_daemon

#: Segments are closed after so long without a commit. The daemon's default, five seconds, would be most of a
#: trial's time.
SEGMENT_IDLE_MS = 300
#: The daemon looks for idle segments this often.
TICK_SECONDS = 0.5
#: Idle CPU time is measured for so long; more than this share of it is a loop.
IDLE_SECONDS = 1.0
IDLE_SHARE_MAX = 0.3
#: Of the log of a daemon that ended so much is shown.
END_CHARS = 600
#: A line of log takes no time.
CLOCK_SECONDS_MAX = 5.0

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_QUIET = re.compile(r" (INFO|DEBUG) ")
_STAMP = re.compile(r"(?m)^\S+Z(?= +DEBUG )")
_VARIES = re.compile(r"/\S+|[0-9a-f]{6,}\S*|\d+")


class FaultDaemon(PrivateDaemon):
    """A daemon in a folder, started by a wrapper so that it may have a library or a namespace of its own."""

    def __init__(self, folder: Path, prefix: str = "") -> None:
        options = folder / "prebaked.toml"
        options.write_text(f"segment_idle_ms = {SEGMENT_IDLE_MS}\nram_bytes = {128 << 20}\n")
        super().__init__(folder, "--config", str(options))
        self.prefix = prefix
        self.log = folder / "prebaked.log"
        self.cache = folder / "cache"
        self.segments = self.cache / "segments"
        self._program = find_daemon()

    @property
    def pid(self) -> int:
        """Its process."""
        assert self.process is not None, "it was started"
        return self.process.pid

    def start(self) -> None:
        """Starts it and waits until it listens."""
        wrapper = self.folder / "prebaked.sh"
        wrapper.write_text(f'#!/bin/sh\nexec {self.prefix} "{self._program}" "$@"\n')
        wrapper.chmod(0o755)
        before = os.environ.get("PREBAKE_DAEMON")
        os.environ["PREBAKE_DAEMON"] = str(wrapper)
        try:
            super().start()
        finally:
            if before is None:
                del os.environ["PREBAKE_DAEMON"]
            else:
                os.environ["PREBAKE_DAEMON"] = before

    def restart(self) -> None:
        """Ends it as a service manager would, and starts it over the same folder."""
        self.stop()
        self.start()

    def is_alive(self) -> bool:
        """Whether the process that was started still runs."""
        return self.process is not None and self.process.poll() is None

    def end(self) -> str:
        """How it ended, and what it said last."""
        assert self.process is not None, "it was started"
        told = _COLOUR.sub("", self.log.read_text(errors="replace"))[-END_CHARS:]
        return f"exit {self.process.poll()}: {told}"

    def files(self) -> list[Path]:
        """Segments, finished and not."""
        return sorted(self.segments.glob("*.arrow*"))

    def is_settled(self, seconds: float) -> bool:
        """Waits until no segment is being written, nor about to be; False if one still is."""
        deadline = time.monotonic() + seconds
        time.sleep(SEGMENT_IDLE_MS / 1000 + 2 * TICK_SECONDS)
        while [*self.segments.glob("*.tmp")]:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def spins(self) -> bool:
        """Whether it uses the processor with nothing to do."""
        before = self.cpu_seconds()
        time.sleep(IDLE_SECONDS)
        return self.cpu_seconds() - before > IDLE_SHARE_MAX * IDLE_SECONDS

    def said_bytes(self) -> int:
        """How long its log is."""
        return self.log.stat().st_size if self.log.exists() else 0

    def said(self, since: int) -> dict[str, int]:
        """Its warnings and errors after so many bytes of log, without numbers, names and paths."""
        text = _COLOUR.sub("", self._logged(since))
        lines = [line for line in text.splitlines() if line and not _QUIET.search(line)]
        bare = (line.partition("Z ")[2] or line for line in lines)
        return dict(Counter(_VARIES.sub("*", line).strip() for line in bare))

    def clock(self) -> float:
        """The daemon's own wall clock: it stamps the line that it logs of a client which says nothing."""
        since = self.said_bytes()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(str(self.cache / "data.sock"))
        deadline = time.monotonic() + CLOCK_SECONDS_MAX
        while not (stamp := _STAMP.search(_COLOUR.sub("", self._logged(since)))):
            assert time.monotonic() < deadline, "the daemon logs no line"
            time.sleep(0.02)
        return datetime.datetime.fromisoformat(stamp[0]).timestamp()

    def _logged(self, since: int) -> str:
        with self.log.open("rb") as log:
            log.seek(since)
            return log.read().decode(errors="replace")

    def errors(self) -> dict[str, float]:
        """Its count of errors by code; empty if it cannot be asked now."""
        try:
            metrics = self.metrics()
        except OSError:
            return {}
        found = (re.fullmatch(r'prebake_errors_total\{code="(.*)"\}', name) for name in metrics)
        return {match[1]: metrics[match[0]] for match in found if match}
