"""A real Prometheus that scrapes a real daemon."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prebake.demo.daemon import PrivateDaemon

#: A server that takes longer to answer is broken.
READY_SECONDS_MAX = 30.0
CONFIG = Path(__file__).parents[1] / "prometheus" / "prometheus.yml"


def free_address() -> str:
    """A loopback address that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def until(ready: Callable[[], Any], what: str, seconds: float = READY_SECONDS_MAX) -> Any:
    """Waits for a true value."""
    deadline = time.monotonic() + seconds
    while not (value := ready()):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.1)
    return value


@contextlib.contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Prometheus:
    """A Prometheus with the project's configuration, pointed at one daemon and scraping each second."""

    def __init__(self, folder: Path, daemon: PrivateDaemon, target: str) -> None:
        self.folder = folder
        self.token_file = daemon.folder / "cache" / "metrics.token"
        self.target = target
        self.address = free_address()
        self.log = folder / "prometheus.log"

    @contextlib.contextmanager
    def start(self) -> Iterator[Prometheus]:
        program = os.environ.get("PROMETHEUS") or shutil.which("prometheus")
        assert program, "install Prometheus (Debian: apt-get install prometheus) or run `make test-ops`"
        self.folder.mkdir()
        command = [
            *[program, f"--config.file={self._config()}", f"--storage.tsdb.path={self.folder / 'data'}"],
            *[f"--web.listen-address={self.address}"],
        ]
        with running(command, self.log) as process:
            until(lambda: process.poll() is not None or self._answers(), f"Prometheus, see {self.log}")
            assert process.poll() is None, self.log.read_text()
            yield self

    def get(self, path: str, **parameters: str) -> Any:
        """`data` of an API call. Raises with Prometheus' own words if the query is wrong."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def value(self, query: str) -> float:
        """The one value of a query; 0 if there is none yet."""
        found = self.get("query", query=query)["result"]
        return float(found[0]["value"][1]) if found else 0.0

    def _answers(self) -> bool:
        try:
            return bool(self.get("status/buildinfo"))
        except (OSError, AssertionError):
            return False

    def _config(self) -> Path:
        text = CONFIG.read_text()
        for ours, tests in {
            "scrape_interval: 15s": "scrape_interval: 1s",
            "credentials_file: /var/lib/prebake/metrics.token": f"credentials_file: {self.token_file}",
            '127.0.0.1:9464"]': f'{self.target}"]',
        }.items():
            assert text.count(ours) == 1, f"{CONFIG} has no {ours!r}"
            text = text.replace(ours, tests)
        config = self.folder / "prometheus.yml"
        config.write_text(text)
        return config
