"""A daemon of one's own in a temporary folder, and what can be seen of it from outside."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from prebake.runtime import programs

#: A daemon over an empty folder listens within some milliseconds; on a machine under load it may take
#: seconds.
START_SECONDS = 20.0
#: It closes its segments when asked to end: one fsync each.
STOP_SECONDS = 30.0


def find_daemon() -> str:
    """The daemon's program: named by the environment, packaged, or on the path."""
    packaged = programs.path("prebaked")
    found = os.environ.get("PREBAKE_DAEMON") or (
        str(packaged) if packaged.exists() else shutil.which("prebaked")
    )
    if found is None:
        raise FileNotFoundError("prebaked is not installed here: install the wheel, or set PREBAKE_DAEMON")
    return found


class PrivateDaemon:
    """A running daemon; leaving the context ends it. Times in seconds, sizes in bytes."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PrivateDaemon:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts it and waits until it listens."""
        log = (self.folder / "prebaked.log").open("ab")
        command = [find_daemon(), "--dir", str(self.folder / "cache"), *self.options]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        log.close()
        deadline = time.monotonic() + START_SECONDS
        while not self._listens():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(
                    f"prebaked does not start: {(self.folder / 'prebaked.log').read_text()[-2000:]}"
                )
            time.sleep(0.005)

    def _listens(self) -> bool:
        for name in ("data.sock", "prebake.sock", "metrics.sock"):
            kind = socket.SOCK_SEQPACKET if name == "data.sock" else socket.SOCK_STREAM
            with socket.socket(socket.AF_UNIX, kind) as probe:
                try:
                    probe.connect(str(self.folder / "cache" / name))
                except OSError:
                    return False
        return True

    def stop(self) -> None:
        """Ends it as a service manager would; its segments are closed."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """Ends it as a power failure would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_rss_bytes(self) -> int:
        """The most memory it had mapped and resident, blocks of the RAM tier included."""
        found = re.search(r"VmHWM:\s+(\d+) kB", self._proc("status"))
        return int(found[1]) * 1024 if found else 0

    def stored_bytes(self) -> int:
        """Bytes its segments take on disk."""
        return sum(path.stat().st_blocks * 512 for path in (self.folder / "cache").rglob("*.arrow"))

    def metrics(self) -> dict[str, float]:
        """Its counters, by name and labels as Prometheus writes them."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(STOP_SECONDS)
            client.connect(str(self.folder / "cache" / "metrics.sock"))
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = b"".join(iter(lambda: client.recv(65536), b"")).decode()
        lines = (line.rpartition(" ") for line in answer.splitlines() if line.startswith("prebake_"))
        return {name: float(value) for name, _, value in lines}

    def _proc(self, name: str) -> str:
        if self.process is None:
            raise RuntimeError("the daemon was not started")
        return Path(f"/proc/{self.process.pid}/{name}").read_text()
