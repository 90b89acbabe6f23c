"""CPU time of jobs that start with an empty cache, against the same jobs without one.

Each run has a daemon and processes of its own. The clocks run from the first request after the imports and
Pillow's warm-up to the last batch; the daemon's is read at the same moments.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from processes import cache_environment, cpu_seconds
from rows import Row

from prebake._demo_daemon import PrivateDaemon
from prebake._demo_pipeline import COUNT_FILE
from prebake._demo_run import Result, Stage, Task

JOBS = 4


class Cold:
    """Runs of the demonstration's pipelines over the first `images` of a folder."""

    def __init__(self, data: Path, images: int) -> None:
        self.data = data
        self.images = images

    def rows(self, rounds: int) -> list[Row]:
        """In each round every kind of run once, one after the other, so that slow spells hit all alike."""
        one = Row("cold_1job_cpu", "eval, 1 job and daemon / 1 job without cache", "lower", 1.10)
        four = Row("cold_4jobs_cpu", f"eval, {JOBS} jobs and daemon / 1 job without cache", "lower", 1.25)
        contended = Row(
            "cold_4jobs_vs_4_uncached",
            f"the same / a quarter of {JOBS} jobs without cache, together",
            "lower",
        )
        train = Row(
            "train_4jobs_cpu", f"train, {JOBS} jobs and daemon / 1 decode and {JOBS} suffixes", "lower", 1.25
        )
        evals, trains = self._tasks("eval"), self._tasks("train")
        for number in range(1, rounds + 1):
            named = f"round {number}/{rounds}:"
            alone = self._uncached(f"{named} eval, 1 uncached", evals[:1])
            one.add([self._cold(f"{named} eval, 1 cold", evals[:1], alone) / _cpu(alone)])
            together = self._uncached(f"{named} eval, {JOBS} uncached", evals)
            cold = self._cold(f"{named} eval, {JOBS} cold", evals, together)
            four.add([cold / _cpu(alone)])
            contended.add([cold / (_cpu(together) / JOBS)])
            apart = [self._uncached(f"{named} train, 1 uncached", [task])[0] for task in trains]
            train.add([self._cold(f"{named} train, {JOBS} cold", trains, apart) / _least(apart)])
        return [one, four, contended, train]

    def _tasks(self, pipeline: str) -> list[Task]:
        return [Task(pipeline, str(self.data), self.images, seed=job, order_seed=job) for job in range(JOBS)]

    def _uncached(self, title: str, tasks: list[Task]) -> list[Result]:
        with tempfile.TemporaryDirectory(prefix="prebake-bench-") as folder:
            off = {"PREBAKE": "off", COUNT_FILE: str(Path(folder) / "decodes")}
            return Stage(title, tasks, off).run()[0]

    def _cold(self, title: str, tasks: list[Task], uncached: list[Result]) -> float:
        """CPU seconds of jobs and daemon. Raises if a job got other bytes than its uncached run."""
        with (
            tempfile.TemporaryDirectory(prefix="prebake-bench-") as folder,
            PrivateDaemon(Path(folder)) as daemon,
        ):
            on = {**cache_environment(daemon), COUNT_FILE: str(Path(folder) / "decodes")}
            results, daemon_cpu = Stage(title, tasks, on).run(lambda: cpu_seconds(daemon))
        if [result.digests for result in results] != [result.digests for result in uncached]:
            raise RuntimeError(f"{title}: the outputs differ from those without a cache")
        said = [result.said for result in results if result.said]
        if said:
            raise RuntimeError(f"{title}: a job did without the cache: {said[0]}")
        return _cpu(results) + daemon_cpu


def _cpu(results: list[Result]) -> float:
    return sum(result.cpu_s for result in results)


def _least(apart: list[Result]) -> float:
    """What the jobs together must cost: what they share once, and the random part of each."""
    randoms = sum(result.random_cpu_s for result in apart)
    return (_cpu(apart) - randoms) / len(apart) + randoms
