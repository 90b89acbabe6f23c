"""`python -m prebake.demo`: four jobs over the same JPEGs, without and with a cache between them.

Each pipeline runs without a cache (each job alone, then all at once), with an empty cache, and again with the
filled one. What every job got is compared with its own uncached run under the same seeds. Reports a table and
`--out` (JSON).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from prebake.demo import images as demo_images
from prebake.demo import job as demo_job
from prebake.demo.daemon import PrivateDaemon
from prebake.demo.pipeline import COUNT_FILE
from prebake.demo.run import Result, Stage, Task
from prebake.demo.table import table

#: Images of a run, found or made: enough to tell, few enough that every output is kept for comparison.
IMAGES = 300
PIPELINES = ("eval", "train")


class Pipeline:
    """The runs of one pipeline in a folder of its own. Times in seconds, sizes in bytes."""

    def __init__(self, name: str, data: Path, images: int, jobs: int, same_order: bool) -> None:
        self.name = name
        self.images = images
        self.tasks = [
            Task(name, str(data), images, seed=job, order_seed=0 if same_order else job)
            for job in range(jobs)
        ]
        self.editor = Task(name, str(data), images, seed=0, order_seed=0, edit=True)

    def run(self, folder: Path) -> dict[str, Any]:
        """All runs, then the figures."""
        off = {"PREBAKE": "off", COUNT_FILE: str(folder / "uncached-decodes")}
        alone = [self._stage("alone, no cache", [task], off)[0][0] for task in self.tasks]
        together, _ = self._stage("together, no cache", self.tasks, off)
        edited, _ = self._stage("editing, no cache", [self.editor], off)
        count = folder / "decodes"
        on = {
            "PREBAKE": "on",
            "PREBAKE_DIR": str(folder / "cache"),
            "PREBAKE_AUTOSTART": "0",
            COUNT_FILE: str(count),
        }
        with PrivateDaemon(folder) as daemon:
            cold, cold_daemon = self._stage("cold", self.tasks, on, daemon)
            decodes = count.stat().st_size
            warm, warm_daemon = self._stage("warm", self.tasks, on, daemon)
            warm_alone = [self._stage("warm, alone", [task], on, daemon)[0][0] for task in self.tasks]
            edited_warm, _ = self._stage("warm, editing arrays", [self.editor], on, daemon)
            metrics, peak = daemon.metrics(), daemon.peak_rss_bytes()
        cached, references = (*cold, *warm, *warm_alone, *edited_warm), (*alone, *alone, *alone, *edited)
        return {
            "jobs": len(self.tasks),
            "items_total": self.images,
            "decodes": decodes,
            **self._cpu_figures(alone, together, _cpu(cold) + cold_daemon, _cpu(warm) + warm_daemon),
            # Both alone; then the same uncached runs against warm jobs that share the processors.
            "warm_speedup": _speedup(alone, warm_alone),
            "warm_speedup_together": _speedup(alone, warm),
            "outputs_identical": all(c.digests == r.digests for c, r in zip(cached, references, strict=True)),
            "stored_bytes_per_item": daemon.stored_bytes() / self.images,
            "daemon_peak_rss_bytes": peak,
            "bytes_from_ram": metrics.get('prebake_read_bytes_total{tier="ram"}', 0.0),
            "bytes_from_ssd": metrics.get('prebake_read_bytes_total{tier="ssd"}', 0.0),
            "per_job": [
                {"alone": vars(a), "cold": vars(c), "warm": vars(w), "warm_alone": vars(v)}
                for a, c, w, v in zip(alone, cold, warm, warm_alone, strict=True)
            ],
        }

    @staticmethod
    def _cpu_figures(
        alone: list[Result], together: list[Result], cold: float, warm: float
    ) -> dict[str, float]:
        """What the runs cost; `cold` and `warm` include the daemon."""
        one = _cpu(alone) / len(alone)
        # The least that the jobs together must cost: what is shared once, and every job's random part.
        randoms = sum(result.random_cpu_s for result in alone)
        least = (_cpu(alone) - randoms) / len(alone) + randoms
        return {
            "cpu_s_one_job_no_cache": one,
            "cpu_s_k_jobs_no_cache": _cpu(together),
            "cpu_s_k_jobs_cold": cold,
            "cpu_s_k_jobs_warm": warm,
            "cpu_s_least": least,
            "duplication_factor": cold / one,
            "cold_over_least": cold / least,
            "cpu_s_saved_cold": _cpu(together) - cold,
            "cpu_s_saved_warm": _cpu(together) - warm,
        }

    def _stage(
        self, title: str, tasks: list[Task], environment: dict[str, str], daemon: PrivateDaemon | None = None
    ) -> tuple[list[Result], float]:
        stage = Stage(f"{self.name}: {title}", tasks, environment)
        return stage.run(daemon.cpu_seconds) if daemon is not None else stage.run()


def _speedup(before: list[Result], after: list[Result]) -> float:
    return statistics.median(b.wall_s / a.wall_s for b, a in zip(before, after, strict=True))


def _cpu(results: list[Result]) -> float:
    return sum(result.cpu_s for result in results)


def run(data: Path, jobs: int, images: int, same_order: bool, made: bool) -> dict[str, Any]:
    """The demonstration over a folder of JPEGs: figures by pipeline."""
    found = len(demo_job.images(str(data), images))
    if not found:
        raise FileNotFoundError(f"no JPEG under {data}")
    report = {}
    for name in PIPELINES:
        # A daemon and a folder for each pipeline, so that the figures are its own.
        with tempfile.TemporaryDirectory(prefix="prebake-demo-") as folder:
            figures = Pipeline(name, data, found, jobs, same_order).run(Path(folder))
        report[name] = {"images_made": made, "same_order": same_order, **figures}
    return report


def main() -> int:
    """The command line; fails if an output differs from its uncached run."""
    parser = argparse.ArgumentParser(prog="python -m prebake.demo", description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder of JPEGs; without it, images are made")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--images", type=int, default=IMAGES, help="the first so many images")
    parser.add_argument("--same-order", action="store_true", help="every job in the same order")
    parser.add_argument("--out", type=Path, default=Path("target/demo.json"))
    args = parser.parse_args()
    if args.data is not None:
        report = run(args.data, args.jobs, args.images, args.same_order, made=False)
    else:
        with tempfile.TemporaryDirectory(prefix="prebake-demo-images-") as folder:
            print(f"making {args.images} images", file=sys.stderr)
            demo_images.make(Path(folder), args.images)
            report = run(Path(folder), args.jobs, args.images, args.same_order, made=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=2))
    print(table(report))
    print(f"\nThe same figures are in {args.out}.")
    return 0 if all(each["outputs_identical"] for each in report.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
