"""What a data set opens at its first item, and keeps, is no part of what it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from prebake._demo_daemon import PrivateDaemon

SCRIPT = """
import json, sqlite3, sys
import prebake

class Rows:
    def __init__(self, path):
        self.path, self.rows = path, None

    def __len__(self):
        return 6

    def __getitem__(self, i):
        if self.rows is None:
            self.rows = open(self.path, "rb", buffering=0)
        sys.stderr.write("called\\n")
        self.rows.seek(2 * i)
        return self.rows.read(2).decode()

rows = Rows("rows.txt")
dataset = prebake.wrap(rows, inputs=lambda i: "rows.txt")
print(json.dumps([dataset[i] for i in range(6)]))
assert rows.rows is None or not prebake.fingerprint
"""


def run(daemon: PrivateDaemon, folder: Path) -> tuple[Any, int]:
    (folder / "main.py").write_text(SCRIPT)
    environment = {**os.environ, "PREBAKE": "on", "PREBAKE_DIR": str(daemon.folder / "cache")}
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=folder,
        env=environment | {"PREBAKE_AUTOSTART": "0"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout), done.stderr.count("called")


def test_a_file_that_is_opened_at_the_first_item_is_shared(daemon: PrivateDaemon, tmp_path: Path) -> None:
    rows = tmp_path / "rows.txt"
    rows.write_text("a0b1c2d3e4f5")
    os.utime(rows, (1e9, 1e9))
    expected = ["a0", "b1", "c2", "d3", "e4", "f5"]
    assert run(daemon, tmp_path) == (expected, 6)
    assert run(daemon, tmp_path) == (expected, 0)
    rows.write_text("a9b1c2d3e4f5")
    assert run(daemon, tmp_path)[0] == ["a9", *expected[1:]]
