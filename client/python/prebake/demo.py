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

from prebake import _demo_images, _demo_job
from prebake._demo_daemon import PrivateDaemon
from prebake._demo_pipeline import COUNT_FILE
from prebake._demo_run import Result, Stage, Task
from prebake._demo_table import table

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
        with PrivateDaemon(folder) as daemon:
            on = {"PREBAKE_DIR": str(folder / "cache"), "PREBAKE_AUTOSTART": "0", COUNT_FILE: str(count)}
            on["PREBAKE"] = "on"
            cold, cold_daemon = self._stage("cold", self.tasks, on, daemon)
            decodes = count.stat().st_size
            warm, warm_daemon = self._stage("warm", self.tasks, on, daemon)
            edited_warm, _ = self._stage("warm, editing arrays", [self.editor], on, daemon)
            metrics, peak = daemon.metrics(), daemon.peak_rss_bytes()
        uncached = self._cpu(alone)
        one = statistics.mean(result.cpu_s for result in alone)
        randoms = sum(result.random_cpu_s for result in alone)
        least = (uncached - randoms) / len(alone) + randoms
        cold_cpu, warm_cpu = self._cpu(cold) + cold_daemon, self._cpu(warm) + warm_daemon
        pairs = [*zip(cold, alone, strict=True), *zip(warm, alone, strict=True), (edited_warm[0], edited[0])]
        return {
            "pipeline": self.name,
            "jobs": len(self.tasks),
            "items_total": self.images,
            "decodes": decodes,
            "cpu_s_one_job_no_cache": one,
            "cpu_s_k_jobs_no_cache": self._cpu(together),
            "cpu_s_k_jobs_cold": cold_cpu,
            "cpu_s_k_jobs_warm": warm_cpu,
            "cpu_s_least": least,
            "duplication_factor": cold_cpu / one,
            "cold_over_least": cold_cpu / least,
            "cpu_s_saved_cold": self._cpu(together) - cold_cpu,
            "cpu_s_saved_warm": self._cpu(together) - warm_cpu,
            "warm_speedup": statistics.median(a.wall_s / w.wall_s for a, w in zip(alone, warm, strict=True)),
            "outputs_identical": all(mine.digests == reference.digests for mine, reference in pairs),
            "stored_bytes_per_item": daemon.stored_bytes() / self.images,
            "daemon_peak_rss_bytes": peak,
            "bytes_from_ram": metrics.get('prebake_read_bytes_total{tier="ram"}', 0.0),
            "bytes_from_ssd": metrics.get('prebake_read_bytes_total{tier="ssd"}', 0.0),
            "per_job": [
                {"alone": vars(a), "cold": vars(c), "warm": vars(w)}
                for a, c, w in zip(alone, cold, warm, strict=True)
            ],
        }

    def _stage(
        self, title: str, tasks: list[Task], environment: dict[str, str], daemon: PrivateDaemon | None = None
    ) -> tuple[list[Result], float]:
        stage = Stage(f"{self.name}: {title}", tasks, environment)
        return stage.run(daemon.cpu_seconds) if daemon is not None else stage.run()

    @staticmethod
    def _cpu(results: list[Result]) -> float:
        return sum(result.cpu_s for result in results)


def run(data: Path, jobs: int, images: int, same_order: bool, made: bool) -> dict[str, Any]:
    """The demonstration over a folder of JPEGs."""
    found = len(_demo_job.images(str(data), images))
    if not found:
        raise FileNotFoundError(f"no JPEG under {data}")
    report: dict[str, Any] = {"images_made": made, "images": found, "same_order": same_order, "pipelines": []}
    for name in PIPELINES:
        # A daemon and a folder for each pipeline, so that the figures are its own.
        with tempfile.TemporaryDirectory(prefix="prebake-demo-") as folder:
            report["pipelines"].append(Pipeline(name, data, found, jobs, same_order).run(Path(folder)))
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
            _demo_images.make(Path(folder), args.images)
            report = run(Path(folder), args.jobs, args.images, args.same_order, made=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=2))
    print(table(report))
    print(f"\nThe same figures are in {args.out}.")
    return 0 if all(each["outputs_identical"] for each in report["pipelines"]) else 1


if __name__ == "__main__":
    sys.exit(main())
