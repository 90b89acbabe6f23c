"""Puts faults of the operating system under the real daemon: `python faults.py [--only WORD] [--out FILE]`.

Each fault gets a daemon of its own, used by real jobs before, under and after the fault. One line a fault
tells what became of the jobs. No job may fail, hang, or be given another value than it computes without the
cache. The daemon must live, say what is wrong without filling its log, and work again after the fault.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import clocks
import disks
import folders
import resources
from fault import Fault
from outcome import Outcome
from trial import JOB_SECONDS_MAX, Trial

JOB = Path(__file__).with_name("fault_job.py")
COLUMNS = "{:36} {:>4} {:>6} {:>4} {:>5} {:>7} {:>5}  {:9} {}"


def tried(fault: Fault, script: Path, seconds: float) -> Outcome:
    """One fault in a folder of its own. Sockets want short paths."""
    with tempfile.TemporaryDirectory(prefix="pbf-", dir="/tmp", ignore_cleanup_errors=True) as name:
        trial = Trial(fault, Path(name), script, seconds)
        try:
            out = trial.run()
        except Exception as error:
            out = trial.out
            out.find(f"the trial itself failed: {type(error).__name__}: {error}")
    out.judge(fault)
    return out


def show(out: Outcome) -> None:
    """One line, and what was found."""
    counted = ", ".join(f"{code} {int(count)}" for code, count in sorted(out.counted.items()) if count)
    lines = sum(out.said.values())
    row = (
        out.fault,
        out.jobs,
        out.failed,
        out.hung,
        out.wrong,
        f"{out.seconds:.1f}",
        lines,
        out.works,
        counted,
    )
    print(COLUMNS.format(*row).rstrip(), flush=True)
    for finding in out.findings:
        print(f"    FOUND: {finding}", flush=True)


def main() -> int:
    """The command line; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="faults whose name has this in it")
    parser.add_argument("--quick", action="store_true", help="one fault of each sort")
    parser.add_argument("--job", type=Path, default=JOB, help="the job that is run")
    parser.add_argument(
        "--seconds", type=float, default=JOB_SECONDS_MAX, help="a job that takes longer hangs"
    )
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    # Ended by `timeout`, it still unmounts disks and ends daemons.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # A folder that the caller uses is none of ours.
    os.environ.pop("PREBAKE_DIR", None)

    chosen = [*disks.faults(), *folders.faults(), *resources.faults(), *clocks.faults()]
    chosen = [f for f in chosen if arguments.only in f.name and (f.quick or not arguments.quick)]
    print(COLUMNS.format("fault", "jobs", "failed", "hung", "wrong", "seconds", "lines", "works", "counted"))
    outs = []
    for fault in chosen:
        if why := fault.missing():
            print(f"{fault.name:36} not run: {why}", flush=True)
            continue
        outs.append(tried(fault, arguments.job, arguments.seconds))
        show(outs[-1])
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps([dataclasses.asdict(out) for out in outs], indent=1) + "\n")
    jobs, failed, hung, wrong = (
        sum(getattr(out, name) for out in outs) for name in ("jobs", "failed", "hung", "wrong")
    )
    print(f"{len(outs)} faults, {jobs} jobs: {failed} failed, {hung} hung, {wrong} wrong")
    return int(not chosen or any(out.findings for out in outs))


if __name__ == "__main__":
    sys.exit(main())
