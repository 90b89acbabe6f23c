"""The demonstration, small: what it reports is what it promises."""

import json
import subprocess
import sys
from pathlib import Path

from prebake.demo.daemon import PrivateDaemon


def test_a_small_demonstration(daemon: PrivateDaemon, tmp_path: Path) -> None:
    out = tmp_path / "demo.json"
    command = [sys.executable, "-m", "prebake.demo", "--images", "12", "--jobs", "2", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    assert list(report) == ["eval", "train"] and "images made for this run" in done.stdout
    for each in report.values():
        assert each["images_made"]
        assert each["outputs_identical"]
        assert each["decodes"] == each["items_total"] == 12
        assert each["stored_bytes_per_item"] > 0 and each["daemon_peak_rss_bytes"] > 0
        for job in each["per_job"]:
            assert job["cold"]["computed"] + job["cold"]["reused"] + job["cold"]["followed"] == 12
            assert job["warm"]["reused"] == 12 and not job["warm"]["said"]
