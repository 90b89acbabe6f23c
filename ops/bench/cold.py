"""CPU time of jobs that start with an empty cache, against the same jobs without one.

Each run has a daemon and processes of its own. The clocks run from the first request after the imports and
Pillow's warm-up to the last batch; the daemon's is read at the same moments. Before, another job has made two
other images, so that what its probe found out of the pipeline is known: that is a row of its own.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from processes import cache_environment, children_cpu_seconds, cpu_seconds
from rows import Row

from prebake.demo import job as demo_job
from prebake.demo.daemon import PrivateDaemon
from prebake.demo.pipeline import COUNT_FILE
from prebake.demo.run import Result, Stage, Task

JOBS = 4
#: Images that are made before.
BEFORE = 2
#: Rounds in which the probe is measured too, which no bar is set for.
PROBES = 10
#: A file's `stat` is trusted once the file has been left alone for two seconds.
SETTLE_SECONDS = 2.5


class Run(NamedTuple):
    """Jobs with a cache: seconds of CPU of them and the daemon together, and until the last was done."""

    cpu_s: float
    wall_s: float


class Cold:
    """Runs of the demonstration's pipelines over the first `images` of a folder."""

    def __init__(self, data: Path, images: int) -> None:
        self.data = data
        self.images = images

    def rows(self, rounds: int) -> list[Row]:
        """In each round every kind of run once, one after the other, so that slow spells hit all alike."""
        same = Row("uncached_vs_uncached", "A/A: CPU of 1 job without cache / the same", "lower", same=True)
        probe = Row("probe_cpu_s", "CPU seconds, the probe of a pipeline's first job", "lower")
        one = Row("cold_1job_cpu", "eval, 1 job and daemon / 1 job without cache", "lower", 1.06)
        four = Row("cold_4jobs_cpu", f"eval, {JOBS} jobs and daemon / 1 job without cache", "lower", 1.12)
        contended = Row(
            "cold_4jobs_vs_4_uncached",
            f"the same / a quarter of {JOBS} jobs without cache, together",
            "lower",
        )
        two = Row("cold_2jobs_wall", "eval, seconds of 2 jobs / of 1 job without cache", "lower", 0.60)
        train = Row(
            "train_4jobs_cpu", f"train, {JOBS} jobs and daemon / 1 decode and {JOBS} suffixes", "lower", 1.12
        )
        evals, trains = self._tasks("eval"), self._tasks("train")
        with tempfile.TemporaryDirectory(prefix="prebake-bench-before-") as folder:
            before = self._others(Path(folder))
            for number in range(1, rounds + 1):
                named = f"round {number}/{rounds}:"
                alone = self._uncached(f"{named} eval, 1 uncached", evals[:1])
                cold = self._cold(f"{named} eval, 1 cold", evals[:1], alone, before)
                one.add([cold.cpu_s / _cpu(alone)])
                if number <= PROBES:
                    probe.add([self._probe(before)])
                same.add([_cpu(self._uncached(f"{named} eval, 1 uncached", evals[:1])) / _cpu(alone)])
                together = self._uncached(f"{named} eval, {JOBS} uncached", evals)
                cold = self._cold(f"{named} eval, {JOBS} cold", evals, together, before)
                four.add([cold.cpu_s / _cpu(alone)])
                contended.add([cold.cpu_s / (_cpu(together) / JOBS)])
                cold = self._cold(f"{named} eval, 2 cold", evals[:2], together[:2], before)
                two.add([cold.wall_s / alone[0].wall_s])
                apart = [self._uncached(f"{named} train, 1 uncached", [task])[0] for task in trains]
                train.add(
                    [self._cold(f"{named} train, {JOBS} cold", trains, apart, before).cpu_s / _least(apart)]
                )
        return [same, one, four, contended, two, train, probe]

    def _others(self, folder: Path) -> Path:
        """A folder of other images, whose pipelines are the same."""
        for path in demo_job.images(str(self.data), BEFORE):
            shutil.copy(path, folder)
        time.sleep(SETTLE_SECONDS)
        return folder

    def _tasks(self, pipeline: str) -> list[Task]:
        return [Task(pipeline, str(self.data), self.images, seed=job, order_seed=job) for job in range(JOBS)]

    def _uncached(self, title: str, tasks: list[Task]) -> list[Result]:
        with tempfile.TemporaryDirectory(prefix="prebake-bench-") as folder:
            off = {"PREBAKE": "off", COUNT_FILE: str(Path(folder) / "decodes")}
            return Stage(title, tasks, off).run()[0]

    def _cold(self, title: str, tasks: list[Task], uncached: list[Result], before: Path) -> Run:
        """Raises if a job got other bytes than its uncached run."""
        with (
            tempfile.TemporaryDirectory(prefix="prebake-bench-") as folder,
            PrivateDaemon(Path(folder)) as daemon,
        ):
            on = {**cache_environment(daemon), COUNT_FILE: str(Path(folder) / "decodes")}
            Stage("another job", [self._first(tasks[0].pipeline, before)], on).run()
            results, daemon_cpu = Stage(title, tasks, on).run(lambda: cpu_seconds(daemon))
        if [result.digests for result in results] != [result.digests for result in uncached]:
            raise RuntimeError(f"{title}: the outputs differ from those without a cache")
        said = [result.said for result in results if result.said]
        if said:
            raise RuntimeError(f"{title}: a job did without the cache: {said[0]}")
        return Run(_cpu(results) + daemon_cpu, max(result.wall_s for result in results))

    def _probe(self, before: Path) -> float:
        """What a pipeline's first job takes more than its second, both with all their processes."""
        with (
            tempfile.TemporaryDirectory(prefix="prebake-bench-") as folder,
            PrivateDaemon(Path(folder)) as daemon,
        ):
            on = {**cache_environment(daemon), COUNT_FILE: str(Path(folder) / "decodes")}
            spent = [children_cpu_seconds()]
            for _ in range(2):
                Stage("another job", [self._first("eval", before)], on).run()
                spent.append(children_cpu_seconds())
        return spent[1] - spent[0] - (spent[2] - spent[1])

    def _first(self, pipeline: str, before: Path) -> Task:
        return Task(pipeline, str(before), BEFORE, seed=0, order_seed=0)


def _cpu(results: list[Result]) -> float:
    return sum(result.cpu_s for result in results)


def _least(apart: list[Result]) -> float:
    """What the jobs together must cost: what they share once, and the random part of each."""
    randoms = sum(result.random_cpu_s for result in apart)
    return (_cpu(apart) - randoms) / len(apart) + randoms
