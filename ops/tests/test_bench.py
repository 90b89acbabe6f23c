"""The benchmark runs to its end; what it tells is for people to judge, on a quiet machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[1] / "bench"
#: Ten times what it takes.
BENCH_SECONDS_MAX = 1_000
#: One of each script that it runs.
ROWS = {
    "plan_p50_us",
    "warm_seq_vs_memmap",
    "warm_scattered_vs_memmap",
    "first_batch_ms",
    "ssd_vs_odirect",
    "probe_cpu_s",
    "validate_us_per_item",
    "hit_us",
    "many_check_s",
    "cold_4jobs_cpu",
}


def test_every_row_is_measured(tmp_path: Path) -> None:
    report = tmp_path / "bench.json"
    done = subprocess.run(
        [sys.executable, str(BENCH / "bench.py"), "--size", "small", "--out", str(report)],
        capture_output=True,
        text=True,
        timeout=BENCH_SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr
    rows = {row["id"]: row for row in json.loads(report.read_text())["rows"]}
    assert rows.keys() >= ROWS
    assert all(row["min"] > 0 or row["id"].endswith("extra_us") for row in rows.values()), rows
    assert all(name in done.stdout for name in rows)
