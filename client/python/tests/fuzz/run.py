"""Looks for stale and false hits: the same random job uncached and cached, compared line by line.

    run.py [--first SEED] [--seeds COUNT] [--runs COUNT]

A seed is a data set, a pipeline and edits (see `job.py`). It is run several times, each time in fresh
processes under other hash seeds: without a cache, then with the daemon that all seeds share. The files are
made anew before each, at the same place, so that a later run finds what an earlier one stored. Ends with 1 if
a line differs or a job fails.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import images

from prebake.demo.daemon import PrivateDaemon

#: A job takes a second or two; one that takes longer hangs.
JOB_SECONDS_MAX = 200
#: What was written a moment ago is not trusted. Half of the seeds wait that long before their jobs.
SETTLED_SECONDS = 0.1
#: What is shown of a line, and of what a failed job said.
LINE_CHARACTERS = 300
SAID_CHARACTERS = 1500
#: The lines before a difference that tell what led to it.
CONTEXT = ("KIND", "EPOCH", "EDIT")
STATS = "STATS "
REFUSALS = re.compile(r"\bR[2-4]\d\b")


@dataclasses.dataclass
class Output:
    """What a job printed and said; how many elements it computed and reused, if it ran cached."""

    lines: list[str]
    said: str
    failed: bool
    computed: int = 0
    reused: int = 0


def run_job(seed: int, run: int, data: Path, cache: Path | None) -> Output:
    """One run in a process of its own, uncached if there is no cache."""
    images.make(data)
    if random.Random(seed).random() < 0.5:
        time.sleep(SETTLED_SECONDS)
    environment = {
        **os.environ,
        "PREBAKE": "off" if cache is None else "on",
        "PREBAKE_DIR": str(cache),
        "PREBAKE_AUTOSTART": "0",
        "PYTHONHASHSEED": str(random.Random(f"{seed} {run} {cache is None}").randrange(1000)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, str(Path(__file__).with_name("job.py")), str(seed), str(data), str(run)]
    try:
        done = subprocess.run(
            command, env=environment, cwd=data.parent, capture_output=True, text=True, timeout=JOB_SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return Output([], f"no end within {JOB_SECONDS_MAX} s", True)
    output = Output(done.stdout.splitlines(), done.stderr, done.returncode != 0)
    if output.lines and output.lines[-1].startswith(STATS):
        stats = json.loads(output.lines.pop().removeprefix(STATS))
        output.computed, output.reused = stats.get("computed", 0), stats.get("reused", 0)
    return output


def difference(uncached: Output, cached: Output) -> str | None:
    """The first line that differs, and what led to it; or what a job failed with."""
    for mode, output in (("uncached", uncached), ("cached", cached)):
        if output.failed:
            return f"the {mode} job failed: {output.said[-SAID_CHARACTERS:]}"
    lines = itertools.zip_longest(uncached.lines, cached.lines, fillvalue="nothing")
    for number, (expected, got) in enumerate(lines):
        if expected != got:
            before = [line for line in uncached.lines[:number] if line.startswith(CONTEXT)]
            texts = (f"uncached: {expected}", f"cached:   {got}")
            return "\n".join([*before, f"line {number + 1}", *(text[:LINE_CHARACTERS] for text in texts)])
    return None


def check(seed: int, runs: int, data: Path, cache: Path) -> tuple[str, list[str]]:
    """A line about a seed, and its differences."""
    differences, counts = [], []
    for run in range(runs):
        uncached = run_job(seed, run, data, None)
        cached = run_job(seed, run, data, cache)
        found = difference(uncached, cached)
        if found is not None:
            differences.append(f"seed {seed}, run {run}\n{found}")
        counts.append(f"{cached.computed}+{cached.reused}")
    verdict = "DIFFERENT" if differences else "same"
    kind = "".join(uncached.lines[:1]).removeprefix("KIND ")
    refused = " ".join(sorted(set(REFUSALS.findall(cached.said)))) or "nothing"
    line = f"seed {seed}: {verdict}; computed+reused {', '.join(counts)}; refused {refused}; {kind}"
    return line, differences


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--first", type=int, default=0)
    arguments.add_argument("--seeds", type=int, default=30)
    arguments.add_argument("--runs", type=int, default=3)
    asked = arguments.parse_args()
    different = 0
    with tempfile.TemporaryDirectory(prefix="prebake-") as folder, PrivateDaemon(Path(folder)):
        for seed in range(asked.first, asked.first + asked.seeds):
            line, differences = check(seed, asked.runs, Path(folder, "data"), Path(folder, "cache"))
            print(line, *differences, sep="\n", flush=True)
            different += bool(differences)
    print(f"{asked.seeds - different} of {asked.seeds} seeds the same")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
