"""Jobs that do all at once what other tests do one by one: read, write, hold, edit, run out of memory."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import settle
from soak_job import FILES, text

from prebake.demo.daemon import PrivateDaemon

JOBS = 3
ROUNDS = 5

#: Room for all, or for a part in memory only: blocks are then evicted under the arrays that jobs hold.
BUDGETS = {"roomy": 256 << 20, "least": 40 << 20}


@pytest.mark.parametrize("budget", BUDGETS)
def test_every_byte_is_right_whatever_jobs_do(tmp_path: Path, budget: str) -> None:
    for i in range(FILES):
        path = tmp_path / f"{i:03}"
        path.write_bytes(text(i))
        settle(path)
    script = Path(__file__).with_name("soak_job.py")
    with (
        tempfile.TemporaryDirectory(prefix="prebake-") as folder,
        PrivateDaemon(Path(folder), "--ram-bytes", str(BUDGETS[budget])),
    ):
        environment = {
            **os.environ,
            "PREBAKE": "on",
            "PREBAKE_DIR": f"{folder}/cache",
            "PREBAKE_AUTOSTART": "0",
        }
        started = [
            subprocess.Popen(
                [sys.executable, str(script), str(job), str(tmp_path), str(ROUNDS)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for job in range(JOBS)
        ]
        try:
            for job in started:
                out, said = job.communicate(timeout=120)
                assert job.returncode == 0, said
                assert int(out) > 0, "nothing was shared"
        finally:
            for job in started:
                job.kill()
                job.wait()
