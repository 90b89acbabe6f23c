"""Faults of the operating system in small, and that the harness finds what is wrong with a job."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

FAULTS = Path(__file__).parent.parent / "faults"
#: A fault that needs no other program and no privilege.
PLAIN = "segments cut to nothing"
#: Long enough for a job that starts; a job that sleeps is found in so much time.
PATIENCE_SECONDS = 20

#: A job of which one pipeline is wrong, one is the last that the resident job answers, and one fails.
BAD_JOB = """
import sys, time
import numpy as np
sys.path.insert(0, {folder!r})
import fault_job
real = fault_job.called

def called(path, number):
    if number == {hangs}:
        time.sleep(10**6)
    return real(path, number) + np.uint8(number == {wrong}) + np.uint8(1 // (number != {fails}) - 1)

fault_job.called = called
if __name__ == "__main__":
    fault_job.main()
"""


def run(out: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """The harness, and what it wrote."""
    command = [sys.executable, str(FAULTS / "faults.py"), "--out", str(out), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return done, json.loads(out.read_text()) if out.exists() else []


def test_no_fault_of_the_system_costs_a_job_more_than_time(tmp_path: Path) -> None:
    done, outs = run(tmp_path / "faults.json", "--quick")
    assert outs, done.stdout + done.stderr
    for out in outs:
        assert out["jobs"] > 10, out
        assert not (out["failed"] or out["hung"] or out["wrong"]), out
        assert out["works"] != "never", out
    # What is wrong with the daemon's log alone is for who reads the lines.
    assert done.returncode == int(any(out["findings"] for out in outs)), done.stdout


def test_a_job_that_is_not_well_is_found(tmp_path: Path) -> None:
    script = tmp_path / "bad_job.py"
    # In a trial 1 and 2 come before the fault, 3 to 5 under it (5 is the resident's), 6 after it.
    script.write_text(BAD_JOB.format(folder=str(FAULTS), wrong=4, hangs=5, fails=6))
    options = ["--only", PLAIN, "--job", str(script), "--seconds", str(PATIENCE_SECONDS)]
    done, (out,) = run(tmp_path / "faults.json", *options)
    assert done.returncode == 1, done.stdout
    assert out["wrong"] == 1 and out["hung"] == 1 and out["failed"] >= 1, done.stdout


def test_a_fault_that_cannot_be_put_here_is_named(tmp_path: Path) -> None:
    # Without a path there is no strace; Python is called by its own.
    command = [sys.executable, str(FAULTS / "faults.py"), "--only", "EIO of sync"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={"PATH": str(tmp_path)})
    assert "EIO of sync" in done.stdout and "not run: strace is not here" in done.stdout, done.stderr
