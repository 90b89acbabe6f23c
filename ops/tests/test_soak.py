"""The soak in small: some kills, none of which may cost anything."""

import json
import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).parent.parent / "soak" / "soak.py"
SECONDS = 15


def test_a_daemon_that_is_killed_under_its_jobs_loses_nothing_durable(
    tmp_path: Path,
) -> None:
    out = tmp_path / "soak.json"
    command = [sys.executable, str(SOAK), "--seconds", str(SECONDS), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    counts = json.loads(out.read_text())
    assert counts["kills"] and counts["jobs"] and counts["checked"]
    assert not (counts["failed"] or counts["wrong"] or counts["lost"] or counts["findings"])
