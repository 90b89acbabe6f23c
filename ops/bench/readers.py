"""Jobs that read in the ways they are told to (`reader_job.py`), and pairs of what they take."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from processes import cache_environment, wait_until_quiet
from rows import Row

from prebake.demo.daemon import PrivateDaemon
from prebake.demo.run import ONE_THREAD

#: Passes before any is measured: the second finds all that the first one mapped, and looks at no file anew;
#: copies go to memory that was used often by then.
PASSES_BEFORE = 9


class Readers:
    """Jobs of one daemon that read side by side."""

    def __init__(self, daemon: PrivateDaemon, folder: Path, python: str, jobs: int = 1) -> None:
        self._processes = [
            subprocess.Popen(
                [python, str(Path(__file__).with_name("reader_job.py")), str(folder)],
                env={**os.environ, **ONE_THREAD, **cache_environment(daemon)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(jobs)
        ]
        try:
            self.versions: dict[str, str] = [self._answer(each)["versions"] for each in self._processes][0]
        except BaseException:
            self.stop()
            raise
        self._number, self._sums, self._daemon = 0, set[int](), daemon

    def __enter__(self) -> Readers:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the jobs."""
        for process in self._processes:
            process.kill()
            process.wait()

    def ready(self, *ways: str) -> Readers:
        """These jobs, after they have read in these ways, and the daemon has done what it does about that."""
        for way in ways:
            for _ in range(PASSES_BEFORE):
                self.seconds(way)
        wait_until_quiet(self._daemon)
        return self

    def pairs(self, way: str, other: str, count: int) -> list[float]:
        """The speed of one way over another's, by turns."""
        return [
            slow / fast for slow, fast in ((self.seconds(other), self.seconds(way)) for _ in range(count))
        ]

    def seconds(self, way: str) -> float:
        """How long all jobs take to read everything, together. Raises if they read different bytes."""
        self._number += 1
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{way} {self._number}\n")
            process.stdin.flush()
        answers = [self._answer(process) for process in self._processes]
        self._sums |= {answer["sum"] for answer in answers}
        if len(self._sums) != 1:
            raise RuntimeError(f"{way} reads other bytes than the ways before")
        return max(float(answer["seconds"]) for answer in answers)

    @staticmethod
    def _answer(process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("a job that reads ended")
        return dict(json.loads(line))


def compare(rows: Sequence[tuple[Row, str, str]], readers: Readers, pairs: int) -> None:
    """Adds pairs of two ways to each row, row after row."""
    for row, way, other in rows:
        readers.ready(way, other)
        row.versions = readers.versions
        row.add(readers.pairs(way, other, pairs))
