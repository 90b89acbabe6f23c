"""One run: alone, in the crowd, alone."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import bounds
import kinds
import steps
from holder import round_now
from process import Process
from watch import Sample, WatchedDaemon

#: Alone is measured for this part of the time in the crowd, before and after.
ALONE_PART = 0.2
ALONE_SECONDS_MAX = 60.0
#: Before, hits are let become what they stay: the first segment is closed after five seconds of quiet.
SETTLE_SECONDS = 8.0
#: The daemon is looked at so often; in a short run oftener.
SAMPLE_SECONDS = 5.0
SAMPLES_MIN = 8
#: Time to start one process, which on a busy machine takes seconds, and for a process to end.
START_SECONDS_MAX = 120.0
END_SECONDS_MAX = 30.0
#: A visitor waits two seconds for leases and computes some dozens of values.
VISITOR_SECONDS_MAX = 90.0
#: Connections of those that went are closed at once; those that greeted nobody after ten seconds.
GONE_SECONDS_MAX = 15.0
LOOK_SECONDS = 0.1


class Run:
    """A daemon, a probe and a crowd in a folder."""

    def __init__(self, folder: Path, clients: dict[str, int], seconds: float) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.inputs = folder / "inputs"
        self.clients = clients
        self.seconds = seconds
        self.started: list[Process] = []
        self.findings: list[str] = []
        self.counts: dict[str, Counter[str]] = {}
        self.visitors: Counter[str] = Counter()
        self.visitor: Process | None = None
        self.visited = -1
        self.samples: dict[str, list[Sample]] = {}
        self.phases: dict[str, dict[str, Any]] = {}

    def run(self) -> dict[str, Any]:
        """The whole of it. Whatever happens, what was started is ended."""
        steps.write_inputs(self.inputs)
        daemon = WatchedDaemon(self.folder, "--ram-bytes", str(bounds.RAM_BYTES))
        try:
            with daemon:
                return self._phases(daemon)
        finally:
            for process in self.started:
                process.kill()

    def _phases(self, daemon: WatchedDaemon) -> dict[str, Any]:
        probe = self._start("probe_job", self.cache, self.inputs)
        self._await(probe)
        self._measure("settling", daemon, probe, SETTLE_SECONDS)
        alone = min(self.seconds * ALONE_PART, ALONE_SECONDS_MAX)
        self._measure("before", daemon, probe, alone)
        before = daemon.sample()
        crowd = self._gather()
        used = sum(process.cpu_seconds() for process in crowd), daemon.cpu_seconds(), time.monotonic()
        self._measure("crowd", daemon, probe, self.seconds, visited=True)
        now = sum(process.cpu_seconds() for process in crowd), daemon.cpu_seconds(), time.monotonic()
        self._disperse(crowd)
        after = self._gone(daemon, before)
        self._measure("after", daemon, probe, alone)
        lines = daemon.log_lines()
        limit, total = daemon.descriptors_max(), sum(self.clients.values())
        self.findings += bounds.of_samples(total, limit, before, self.samples["crowd"], after)
        self.findings += bounds.of_log(lines, self.seconds) + bounds.of_probe(self.phases.values())
        if not daemon.is_alive():
            self.findings.append(f"the daemon ended: {lines[-3:]}")
        return {
            "clients": self.clients,
            "seconds": self.seconds,
            "phases": self.phases,
            "samples": self.samples,
            "gone": after,
            "descriptors_max": limit,
            "cpu_share": {
                "crowd": round((now[0] - used[0]) / (now[2] - used[2]), 3),
                "daemon": round((now[1] - used[1]) / (now[2] - used[2]), 3),
                "there": os.cpu_count(),
            },
            "counts": self.counts,
            "visitors": self.visitors,
            "log_lines": len(lines),
            "findings": self.findings,
        }

    def _start(self, script: str, *arguments: object) -> Process:
        process = Process(script, *arguments, cache=self.cache)
        self.started.append(process)
        return process

    def _await(self, process: Process) -> None:
        if (line := process.line(START_SECONDS_MAX)) != "ready\n":
            raise RuntimeError(f"{process.name} says {line!r}")

    def _gather(self) -> list[Process]:
        """Starts the crowd, and waits until all are there. Each ends by itself after the run."""
        ends = self.seconds + START_SECONDS_MAX
        crowd = []
        for kind, first, count in kinds.processes(self.clients):
            if kind == kinds.READER:
                given = ("reader_clients", self.cache, self.inputs, ends, first, count)
            else:
                given = ("rude_clients", kind, self.cache, ends, first, count)
            process = self._start(*given)
            process.be_idle()
            crowd.append(process)
            # One after the other: interpreters that start all at once take memory and time from each other.
            self._await(process)
        return crowd

    def _measure(
        self, name: str, daemon: WatchedDaemon, probe: Process, seconds: float, visited: bool = False
    ) -> None:
        """Looks at the daemon while the probe takes its times."""
        probe.ask(seconds)
        samples = self.samples[name] = []
        due, every = 0.0, min(SAMPLE_SECONDS, seconds / SAMPLES_MIN)
        # What hangs is found: no hit waits for longer than the client does.
        deadline = time.monotonic() + 2 * seconds + START_SECONDS_MAX
        while not probe.told() and time.monotonic() < deadline and daemon.is_alive():
            if time.monotonic() >= due:
                samples.append(daemon.sample())
                due = time.monotonic() + every
            if visited:
                self._visit()
            time.sleep(LOOK_SECONDS)
        self.phases[name] = probe.answer(END_SECONDS_MAX)
        if visited:
            self._visit(last=True)

    def _visit(self, last: bool = False) -> None:
        """One job a round, while holders have what it wants."""
        job = self.visitor
        if job is not None and (last or job.is_done()):
            self.visitor = None
            try:
                told = job.answer(VISITOR_SECONDS_MAX)
                if job.end(END_SECONDS_MAX) or told["wrong"] or job.said():
                    raise RuntimeError(f"{told} {job.said()}")
                self.visitors.update(jobs=1, computed=told["computed"], bypassed=told["bypassed"])
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                self.visitors["failed"] += 1
                self.findings.append(f"a visitor failed: {error}")
                job.kill()
        elif job is None and not last and self.visited != round_now():
            self.visited = round_now()
            self.visitor = self._start("visitor_job", self.cache, self.inputs)
            self.visitor.be_idle()
            self.visitor.ask(self.visited)

    def _disperse(self, crowd: list[Process]) -> None:
        """Ends the crowd, and takes down what it counted."""
        for process in crowd:
            assert process.process.stdin is not None, "it was asked for"
            process.process.stdin.close()
        for process, (kind, _, _) in zip(crowd, kinds.processes(self.clients), strict=True):
            try:
                told = json.loads(process.line(END_SECONDS_MAX))
                if process.end(END_SECONDS_MAX) or process.said():
                    raise RuntimeError(process.said())
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                self.findings.append(f"{process.name}: {error}")
                continue
            self.counts.setdefault(kind, Counter()).update(told["counts"])
            self.findings += [f"{kind}, {finding}" for finding in told["findings"]]

    def _gone(self, daemon: WatchedDaemon, before: Sample) -> Sample:
        """Waits until those that went are gone for the daemon too."""
        deadline = time.monotonic() + GONE_SECONDS_MAX
        while True:
            sample = daemon.sample()
            left = sample["sockets"] - before["sockets"], sample["jobs"] - before["jobs"]
            if max(left) <= 0 or time.monotonic() > deadline:
                return sample
            time.sleep(LOOK_SECONDS)
