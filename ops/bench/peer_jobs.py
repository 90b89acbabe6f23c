"""Jobs that read by a peer (`peer_job.py`), and its servers, seen from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from peers import ADDRESS

from prebake.demo.run import ONE_THREAD

#: A request that takes longer hangs; the longest fills Ray's store, or optimizes for litdata, within 40 s.
ANSWER_SECONDS_MAX = 150.0
#: Ray's servers take some 10 s to listen.
SERVE_SECONDS_MAX = 60.0
#: Ray's end themselves within some seconds.
END_SECONDS_MAX = 15.0
#: Of what a process said before it failed.
SAID_CHARACTERS = 300
#: No peer may look for a GPU, or for updates.
QUIET = {
    "CUDA_VISIBLE_DEVICES": "",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "HF_HUB_OFFLINE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_DOCKER_CPU_WARNING": "1",
    "DO_NOT_TRACK": "1",
}


class PeerError(RuntimeError):
    """A peer does not run here; says why."""


class Side(NamedTuple):
    """One side of a comparison: a peer by the name of its file and variant, and what it runs by."""

    peer: str
    python: str
    #: The jobs' shared folder.
    place: Path
    environment: Mapping[str, str] = {}


class Read(NamedTuple):
    """What some jobs together took."""

    #: The slowest job's set-up and passes.
    parts: list[float]
    #: Elements of each pass, of all jobs.
    counts: list[int]
    size: int
    sums: set[int]

    @property
    def seconds(self) -> float:
        """Until the last was done."""
        return sum(self.parts)

    @property
    def speed(self) -> float:
        """Elements a second."""
        return sum(self.counts) / self.seconds

    def after_first(self) -> Read:
        """The same without the set-up and the first pass."""
        return self._replace(parts=self.parts[2:], counts=self.counts[1:])


class Process:
    """One process of a peer."""

    def __init__(self, side: Side, work: str, inputs: Path, *options: str) -> None:
        self._side = side
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        script = Path(__file__).with_name("peer_job.py")
        self._process = subprocess.Popen(
            [side.python, str(script), side.peer, work, str(inputs), str(side.place), *options],
            env={
                **os.environ,
                **QUIET,
                **ONE_THREAD,
                "HF_HOME": str(side.place / "home"),
                **side.environment,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            start_new_session=True,
        )

    def ask(self, **request: Any) -> None:
        """Sends a request."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The next answer. Raises PeerError if the process ended or hangs."""
        assert self._process.stdout is not None
        hung = threading.Timer(ANSWER_SECONDS_MAX, self._process.kill)
        hung.start()
        try:
            for line in self._process.stdout:
                # Packages print as well.
                if line.startswith("{"):
                    return dict(json.loads(line))
        finally:
            hung.cancel()
        raise PeerError(self.said())

    def said(self) -> str:
        """The end of what it wrote to stderr, in one line."""
        self._process.wait()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").split("\n")
        return " ".join(" ".join(lines).split())[-SAID_CHARACTERS:] or f"{self._side.peer} ended"

    def ended(self) -> bool:
        """Whether it is gone."""
        return self._process.poll() is not None

    def stop(self, seconds: float = 0.0) -> None:
        """Ends it and what it started, in no more than so long."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._said.close()


class Jobs:
    """Jobs of one peer, ready to read: their imports are done."""

    def __init__(self, side: Side, work: str, inputs: Path, count: int = 1) -> None:
        self._processes = [Process(side, work, inputs) for _ in range(count)]
        try:
            self.versions: dict[str, str] = [process.answer()["versions"] for process in self._processes][0]
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Jobs:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the jobs."""
        for process in self._processes:
            process.stop()

    def fill(self) -> None:
        """Lets the first job make everything."""
        self._processes[0].ask(fill=True)
        self._processes[0].answer()

    def read(self, epochs: int, seed: int | None = None, *, warm: bool = True) -> Read:
        """Passes of all jobs, together; shuffled for each by a seed of its own, or in order."""
        for number, process in enumerate(self._processes):
            process.ask(epochs=epochs, seed=None if seed is None else seed + number, warm=warm)
        answers = [process.answer() for process in self._processes]
        slowest = max(answers, key=lambda answer: sum(answer["seconds"]))
        return Read(
            slowest["seconds"],
            [sum(counts) for counts in zip(*(answer["counts"] for answer in answers), strict=True)],
            sum(answer["size"] for answer in answers),
            {total for answer in answers for total in answer["sums"]},
        )


class Servers:
    """A peer's servers, while this is entered."""

    def __init__(self, side: Side, work: str, inputs: Path) -> None:
        self._process = Process(side, work, inputs, "serve")
        self._address = side.place / ADDRESS

    def __enter__(self) -> Servers:
        deadline = time.monotonic() + SERVE_SECONDS_MAX
        while not self._address.exists():
            if self._process.ended() or time.monotonic() > deadline:
                said = self._process.said() if self._process.ended() else "its servers do not start"
                self._process.stop()
                raise PeerError(said)
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop(END_SECONDS_MAX)
