"""Runs jobs side by side, each a process, and shows how far they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

BAR_WIDTH = 32

#: The pipelines use no linear algebra, but the threads for it spin for a while after NumPy is imported, and
#: would be counted as the job's own CPU time. The same for runs with and without a cache.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass
class Task:
    """What one job is to do."""

    pipeline: str
    folder: str
    images: int
    #: Of the random transforms, and of the order.
    seed: int
    order_seed: int
    #: Edit the arrays in place after the first epoch, and run a second.
    edit: bool = False


@dataclass
class Result:
    """How one job went; times in seconds."""

    wall_s: float
    cpu_s: float
    random_cpu_s: float
    digests: list[str]
    computed: int = 0
    reused: int = 0
    followed: int = 0
    bypassed: int = 0
    #: What it wrote to stderr.
    said: str = ""


@dataclass
class Job:
    """A job's process and what it said last."""

    task: Task
    process: subprocess.Popen[str]
    progress: tuple[int, int] = (0, 1)
    done: dict[str, Any] | None = None
    said: list[str] = field(default_factory=list)

    def line(self, expected: str) -> Any:
        """Reads up to a message of a kind, taking note of progress on the way."""
        for line in self.process.stdout or ():
            message = json.loads(line)
            if "progress" in message:
                self.progress = (message["progress"], message["of"])
            if expected in message:
                return message[expected]
        raise RuntimeError(f"a job ended without saying {expected!r}: {''.join(self.said)[-2000:]}")

    def go(self) -> None:
        """Lets it take its next step."""
        if self.process.stdin is not None:
            self.process.stdin.write("\n")
            self.process.stdin.flush()


class Stage:
    """Some jobs at once. `environment` says which cache they use."""

    def __init__(self, title: str, tasks: list[Task], environment: dict[str, str]) -> None:
        self._title = title
        self._jobs = [_spawn(task, environment) for task in tasks]
        self._live = sys.stderr.isatty()

    def run(self, between: Callable[[], float] = lambda: 0.0) -> tuple[list[Result], float]:
        """Runs the jobs; returns their results, and by how much `between` grew while they ran.

        `between` is read when all jobs are ready and when the last has made its last batch.
        """
        try:
            for job in self._jobs:
                job.line("ready")
            before = between()
            self._step("stopped", show=True)
            grown = between() - before
            self._step("done", show=False)
            return [self._result(job) for job in self._jobs], grown
        finally:
            for job in self._jobs:
                job.process.kill()
                job.process.wait()

    def _step(self, until: str, *, show: bool) -> None:
        threads = [
            threading.Thread(target=self._follow, args=(job, until), daemon=True) for job in self._jobs
        ]
        for job, thread in zip(self._jobs, threads, strict=True):
            job.go()
            thread.start()
        drawn = False
        while any(thread.is_alive() for thread in threads):
            if show and self._live:
                self._draw(over=drawn)
                drawn = True
            for thread in threads:
                thread.join(0.1 / len(threads))
        if show:
            self._draw(over=drawn)

    def _follow(self, job: Job, until: str) -> None:
        job.done = job.line(until)

    def _draw(self, *, over: bool) -> None:
        if over:
            sys.stderr.write(f"\x1b[{len(self._jobs)}F")
        for place, job in enumerate(self._jobs):
            done, of = job.progress
            bar = ("#" * round(BAR_WIDTH * done / of)).ljust(BAR_WIDTH, ".")
            sys.stderr.write(f"  {self._title:<28} job {place}  [{bar}] {done:>5} / {of}\n")
        sys.stderr.flush()

    def _result(self, job: Job) -> Result:
        if not isinstance(job.done, dict):
            raise RuntimeError(f"a job failed: {''.join(job.said)[-2000:]}")
        known = {name: job.done[name] for name in Result.__dataclass_fields__ if name in job.done}
        return Result(**known, said="".join(job.said))


def _spawn(task: Task, environment: dict[str, str]) -> Job:
    process = subprocess.Popen(
        [sys.executable, "-m", "prebake.demo.job"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Jobs of one world: other arguments would have each compare a few images before it is served any.
        env={**os.environ, **ONE_THREAD, **environment, "PREBAKE_DEMO_TASK": json.dumps(vars(task))},
    )
    job = Job(task, process)
    threading.Thread(target=lambda: job.said.extend(process.stderr or ()), daemon=True).start()
    return job
