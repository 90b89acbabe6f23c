"""Kills the daemon under its jobs, again and again: `python soak.py --seconds N --out FILE`.

Each cycle starts the daemon over the folder that the last one left, lets some jobs read and add to it, and
kills it, at times while it still recovers. What had become durable is written to a ledger in this process,
outside the daemon; after the next start all of that must be served, as it was. No job may fail, whatever
happens to the daemon, nor be given another value than it computes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from prebake.demo.daemon import PrivateDaemon

JOB = Path(__file__).with_name("soak_job.py")
ITEMS = 12
#: Jobs at once.
JOBS = 2
JOB_SECONDS_MAX = 120.0
#: What is durable is waited for so long: closing a segment is one sync.
DURABLE_SECONDS_MAX = 20.0
LOOK_SECONDS = 0.02
#: Pipelines before an emptied folder is begun: each is some megabytes.
PIPELINES_MAX = 60
#: RAM tiers in turn: the least that the daemon takes, and one that holds all.
RAM_BYTES = (64 << 20, 1 << 30)
SEGMENT_IDLE_MS = 100


class Soak:
    """One folder's history."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.inputs = folder / "inputs"
        self.inputs.mkdir()
        for i in range(ITEMS):
            (self.inputs / f"{i:03}.txt").write_text(str(i))
        (folder / "prebaked.toml").write_text(f"segment_idle_ms = {SEGMENT_IDLE_MS}\n")
        #: Pipelines of which all became durable: to be served from then on.
        self.ledger: list[int] = []
        self.next = 0
        self.counts = dict.fromkeys(
            (
                "cycles",
                "kills",
                "early_kills",
                "jobs",
                "failed",
                "wrong",
                "checked",
                "lost",
                "refused_starts",
                "indexes_changed",
            ),
            0,
        )
        self.findings: list[str] = []

    def cycle(self) -> None:
        """From one kill to the next."""
        self.counts["cycles"] += 1
        self._change_index()
        daemon = self._started()
        if daemon is None:
            return
        if self.random.random() < 0.2:
            # While it still recovers, or serves its first.
            time.sleep(self.random.random() * 0.03)
            self._kill(daemon)
            self.counts["early_kills"] += 1
            return
        known = self.random.sample(self.ledger, min(2, len(self.ledger)))
        self._check(known)
        new = [self.next + i for i in range(JOBS)]
        self.next += JOBS
        jobs = [self._begin(number) for number in new]
        if self.random.random() < 0.5:
            time.sleep(self.random.random() * 1.5)
            self._kill(daemon)
            for number, job in zip(new, jobs, strict=True):
                self._end(number, job)
            return
        for number, job in zip(new, jobs, strict=True):
            self._end(number, job)
        if self._is_durable():
            self.ledger += new
        self._kill(daemon)

    def _change_index(self) -> None:
        """The index is disposable: it may be lost, or one of earlier be back, as after a power loss."""
        found = [*(self.folder / "cache").glob("index-v*")]
        kept = self.folder / "index-of-earlier"
        chance = self.random.random()
        if not found or chance > 0.3:
            return
        if chance < 0.1:
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(found[0], kept)
            return
        self.counts["indexes_changed"] += 1
        shutil.rmtree(found[0])
        if chance < 0.2 and kept.exists():
            shutil.copytree(kept, found[0])

    def _started(self) -> PrivateDaemon | None:
        ram = str(self.random.choice(RAM_BYTES))
        daemon = PrivateDaemon(
            self.folder,
            "--ram-bytes",
            ram,
            "--config",
            str(self.folder / "prebaked.toml"),
        )
        try:
            daemon.start()
        except RuntimeError as error:
            self.counts["refused_starts"] += 1
            self.findings.append(f"the daemon does not start: {error}")
            return None
        return daemon

    def _kill(self, daemon: PrivateDaemon) -> None:
        if daemon.process is None:
            return
        daemon.process.kill()
        daemon.process.wait()
        self.counts["kills"] += 1

    def _begin(self, number: int) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "PREBAKE": "on",
            "PREBAKE_AUTOSTART": "0",
            "PREBAKE_DIR": str(self.folder / "cache"),
        }
        pipe = subprocess.PIPE
        command = [sys.executable, str(JOB), str(self.inputs)]
        job = subprocess.Popen(
            command,
            env=environment,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            cwd=self.folder,
        )
        assert job.stdin is not None, "it was asked for"
        job.stdin.write(f"{number}\n")
        job.stdin.flush()
        return job

    def _end(self, number: int, job: subprocess.Popen[str]) -> dict[str, Any]:
        self.counts["jobs"] += 1
        try:
            out, err = job.communicate(timeout=JOB_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            job.kill()
            out, err = job.communicate()
            err += "it hangs"
        if job.returncode == 0:
            found: dict[str, Any] = json.loads(out.splitlines()[-1])
            return found
        self.counts["wrong" if "WRONG" in err else "failed"] += 1
        self.findings.append(f"cycle {self.counts['cycles']}, pipeline {number}: {err[-500:]}")
        return {}

    def _check(self, known: list[int]) -> None:
        """What the ledger says is durable is served."""
        for number in known:
            stats = self._end(number, self._begin(number))
            self.counts["checked"] += ITEMS
            # In one process at a time nothing waits.
            lost = stats.get("computed", ITEMS) + stats.get("bypassed", 0)
            if lost:
                self.counts["lost"] += lost
                self.findings.append(f"cycle {self.counts['cycles']}, pipeline {number}: {stats}")

    def _is_durable(self) -> bool:
        segments = self.folder / "cache" / "segments"
        deadline = time.monotonic() + DURABLE_SECONDS_MAX
        while [*segments.glob("*.tmp")]:
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_SECONDS)
        return True


def main() -> int:
    """The command line; 1 if anything was wrong, lost or failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    until = time.monotonic() + arguments.seconds
    total: dict[str, int] = {}
    findings: list[str] = []
    seed = arguments.seed
    while time.monotonic() < until:
        with tempfile.TemporaryDirectory(prefix="prebake-soak-") as name:
            soak = Soak(Path(name), seed)
            while soak.next < PIPELINES_MAX and time.monotonic() < until:
                soak.cycle()
        for key, count in soak.counts.items():
            total[key] = total.get(key, 0) + count
        findings += [f"seed {seed}, {finding}" for finding in soak.findings]
        seed += 1
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({**total, "findings": findings}, indent=1) + "\n")
    print(json.dumps(total))
    for finding in findings:
        print(finding, file=sys.stderr)
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
