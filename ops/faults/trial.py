"""One fault, put under a daemon that jobs use: what became of the jobs, and of the daemon."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from daemon import FaultDaemon
from fault import Around, Fault
from fault_job import expected
from job import Failed, Hung, Job
from outcome import Outcome

ITEMS = 8
#: A client waits for a commit for 30 s at most, and for other answers for 5: a job that takes longer hangs.
JOB_SECONDS_MAX = 60.0
SETTLE_SECONDS_MAX = 30.0


class Trial:
    """A daemon, its jobs and a fault, in a folder of their own."""

    def __init__(self, fault: Fault, folder: Path, script: Path, job_seconds: float) -> None:
        self.fault = fault
        self.folder = folder
        self.script = script
        self.job_seconds = job_seconds
        self.out = Outcome(fault.name)
        self.inputs = folder / "inputs"
        self.inputs.mkdir()
        for i in range(ITEMS):
            (self.inputs / f"{i:03}.txt").write_text(str(i))
        self.paths = sorted(str(path) for path in self.inputs.glob("*.txt"))
        self.jobs: list[Job] = []
        #: The job that lives through the fault.
        self.resident: Job
        self.variables: dict[str, str] = {}
        self._next = 0

    def run(self) -> Outcome:
        """The whole of it."""
        begun = time.monotonic()
        around = self.fault.around(self.folder) if self.fault.around else contextlib.nullcontext(Around())
        with around as found:
            self.variables = found.variables
            daemon = FaultDaemon(self.folder, found.prefix)
            try:
                with daemon:
                    self._phases(daemon)
            finally:
                for job in self.jobs:
                    job.kill()
        self.out.seconds = time.monotonic() - begun
        return self.out

    def _phases(self, daemon: FaultDaemon) -> None:
        known = self._new()
        self.resident = self._begin(daemon)
        self._ask([self.resident, self._begin(daemon)], known)
        if not daemon.is_settled(SETTLE_SECONDS_MAX):
            self.out.find("nothing became durable before the fault")
        if self.fault.cold:
            self._end(self.resident, "before the restart")
            daemon.restart()
            # It is connected when the fault begins, and has not read what is known.
            self.resident = self._begin(daemon)
            self._ask([self.resident], self._new())
        said = daemon.said_bytes()
        with self.fault.put(daemon):
            self._during(daemon, known)
        self.out.said = daemon.said(said)
        self.out.counted = daemon.errors()
        self._after(daemon, known)

    def _during(self, daemon: FaultDaemon, known: int) -> None:
        """Old values and new ones, by a job that was connected before and by jobs that come now."""
        fresh = self._new()
        self._ask([self.resident, self._begin(daemon)], known)
        self._ask([self.resident, self._begin(daemon)], fresh)
        for _ in range(self.fault.more):
            self._ask([self.resident], self._new())
        # Segments of these are closed meanwhile, and that fails.
        daemon.is_settled(0)
        # Asked for again and again, what cannot be read must not be told each time.
        self._ask([self._begin(daemon)], fresh, known, known, self._new())
        self._ask([self.resident], self._new())
        daemon.is_settled(0)
        if not daemon.is_alive():
            self.out.find(f"the daemon ended under the fault, {daemon.end()}")
        elif daemon.spins():
            self.out.find("the daemon keeps a processor busy under the fault")

    def _after(self, daemon: FaultDaemon, known: int) -> None:
        """Whether it works again: at once, or after a restart."""
        self._ask([self.resident], known)
        for when in ("at once", "restarted"):
            if when == "restarted":
                try:
                    daemon.restart()
                except RuntimeError as error:
                    self.out.find(f"the daemon does not start after the fault: {error}")
                    return
            elif not daemon.is_alive():
                continue
            # Where a segment found no room, its collection rests; this one is new.
            number = self._new()
            self._ask([self._begin(daemon)], number)
            stored = daemon.is_settled(SETTLE_SECONDS_MAX)
            again = self._ask([self._begin(daemon)], number, known)
            if stored and again and again[0].get("reused") == ITEMS:
                self.out.works = when
                break
        self._end(self.resident, "at its end")

    def _new(self) -> int:
        self._next += 1
        return self._next

    def _begin(self, daemon: FaultDaemon) -> Job:
        job = Job(self.script, self.inputs, daemon.cache, **self.variables)
        self.jobs.append(job)
        return job

    def _ask(self, jobs: list[Job], *numbers: int) -> list[dict[str, Any]]:
        """Asks jobs for pipelines, all jobs at the same time. All but the resident then end."""
        answers: list[dict[str, Any]] = []
        for number in numbers:
            asked = [job for job in jobs if not job.lost]
            self.out.jobs += len(asked)
            for job in asked:
                job.ask(number)
            for job in asked:
                with self._judged(f"pipeline {number}"):
                    answers.append(self._compared(job.answer(self.job_seconds), number))
        for job in jobs:
            if job is not self.resident:
                self._end(job, f"after pipelines {numbers}")
        return answers

    def _end(self, job: Job, what: str) -> None:
        if not job.lost:
            with self._judged(what):
                job.end()

    def _compared(self, answer: dict[str, Any], number: int) -> dict[str, Any]:
        if answer["digests"] != expected(self.paths, number):
            self.out.wrong += 1
            self.out.find(f"pipeline {number}: other values than without the cache")
        return answer

    @contextlib.contextmanager
    def _judged(self, what: str) -> Iterator[None]:
        try:
            yield
        except Hung as hung:
            self.out.hung += 1
            self.out.find(f"{what}: a job hung, {hung}")
        except Failed as failed:
            self.out.failed += 1
            self.out.find(f"{what}: a job failed, {failed}")
