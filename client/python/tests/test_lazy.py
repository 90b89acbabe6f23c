"""What a data set opens at its first item, and keeps, is no part of what it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from prebake.demo.daemon import PrivateDaemon

SCRIPT = """
import json, sys
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
"""


def run(daemon: PrivateDaemon, folder: Path, script: str = SCRIPT) -> tuple[Any, int]:
    (folder / "main.py").write_text(script)
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


COPIES = """
import json, sys
import prebake

class Rows:
    def __init__(self):
        self.table, self.loaded = None, 0

    def __len__(self):
        return 4

    def __getitem__(self, i):
        if self.table is None:
            sys.stderr.write("called\\n")
            with open("rows.txt") as file:
                self.table = file.read()
        return self.table[2 * i : 2 * i + 2]

rows = Rows()
dataset = prebake.wrap(rows, inputs=lambda i: "rows.txt")
first = [dataset[i] for i in range(4)]
with open("rows.txt", "w") as file:
    file.write("z9b1c2d3")
print(json.dumps([first, [dataset[i] for i in range(4)]]))
"""


def test_what_was_kept_of_a_file_ends_with_the_file(daemon: PrivateDaemon, tmp_path: Path) -> None:
    rows = tmp_path / "rows.txt"
    rows.write_text("a0b1c2d3")
    os.utime(rows, (1e9, 1e9))
    printed, calls = run(daemon, tmp_path, COPIES)
    # Nobody is served what was made of the file as it was.
    assert printed == [["a0", "b1", "c2", "d3"], ["z9", "b1", "c2", "d3"]] and calls >= 2
