"""The real daemon on the real disk: bytes are durable before they have their name, and names become so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "faults"))

import calls
import tracer
from daemon import FaultDaemon
from job import Job

FAULTS = Path(__file__).parent.parent / "faults"
JOB_SECONDS_MAX = 60.0
SETTLE_SECONDS_MAX = 30.0


@pytest.mark.skipif(bool(tracer.is_here()), reason=tracer.is_here())
def test_nothing_has_its_name_before_it_is_durable(tmp_path: Path) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    for i in range(8):
        (inputs / f"{i:03}.txt").write_text(str(i))
    out = tmp_path / "calls"
    daemon = FaultDaemon(tmp_path, calls.prefix(out))
    with daemon:
        job = Job(FAULTS / "fault_job.py", inputs, daemon.cache)
        try:
            for number in (1, 2):
                job.ask(number)
                job.answer(JOB_SECONDS_MAX)
                assert daemon.is_settled(SETTLE_SECONDS_MAX)
        finally:
            job.kill()
        done = calls.read(out)
    assert calls.too_early(done, daemon.segments) == []
    assert len(calls.renames(done, daemon.segments)) >= 2, "it stored two pipelines"


def call(name: str, began: int, ended: int, *files: str) -> calls.Call:
    return calls.Call(name, tuple(Path(file) for file in files), began, ended)


RENAMED = [
    call("pwrite64", 0, 1, "/f/a.tmp"),
    call("fdatasync", 2, 3, "/f/a.tmp"),
    call("rename", 4, 4, "/f/a.tmp", "/f/a"),
    call("fsync", 5, 5, "/f"),
]


def test_an_order_that_is_wrong_is_found() -> None:
    folder = Path("/f")
    assert calls.too_early(RENAMED, folder) == []
    for left_out in (1, 3):
        assert len(calls.too_early([each for each in RENAMED if each is not RENAMED[left_out]], folder)) == 1
    late = call("pwrite64", 0, 3, "/f/a.tmp")
    assert calls.too_early([late, *RENAMED], folder) == ["a has its name before its bytes are durable"]
