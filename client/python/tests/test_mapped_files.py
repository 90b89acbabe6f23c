"""A file that somebody writes to through a mapping changes while its time stays as it was."""

from pathlib import Path

import pytest
from scripts import run_main

from prebake.demo.daemon import PrivateDaemon

WRITER = """
import sys
import numpy as np
there = np.memmap("a.bin", "f4", "r+")
for line in sys.stdin:
    there[10] = float(line)
    print("ok", flush=True)
"""
WRITERS = {
    "another process": """
import subprocess, sys
writer = subprocess.Popen(
    [sys.executable, "writer.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def write(what):
    writer.stdin.write(f"{what}\\n")
    writer.stdin.flush()
    writer.stdout.readline()
""",
    "this process": """
there = np.memmap("a.bin", "f4", "r+")
def write(what): there[10] = what
""",
}
FRONTS = {
    "function": "read = prebake.cached(load)",
    "function of a file": "read = prebake.cached(inputs=['path'])(load)",
    "steps": "ds = prebake.wrap(['a.bin'], [load])\nread = lambda path: ds[0]",
    "data set": "class D:\n    def __len__(self): return 1\n"
    "    def __getitem__(self, i): return load('a.bin')\n"
    "ds = prebake.wrap(D())\nread = lambda path: ds[0]",
}


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("writer", WRITERS)
def test_it_is_read_again_each_time(daemon: PrivateDaemon, tmp_path: Path, writer: str, front: str) -> None:
    (tmp_path / "writer.py").write_text(WRITER)
    (tmp_path / "main.py").write_text(
        "import time\nimport numpy as np, prebake\nnp.zeros(100, 'f4').tofile('a.bin')\n"
        f"def load(path): return float(np.fromfile(path, 'f4')[10])\n{FRONTS[front]}\n{WRITERS[writer]}\n"
        # Its time is old enough to be believed after two seconds.
        "write(1)\ntime.sleep(2.5)\nfound = []\n"
        "for each in (1, 2, 3, 1, 2, 3):\n    write(each)\n    found.append(read('a.bin'))\nprint(found)\n"
    )
    assert run_main(daemon, tmp_path) == "[1.0, 2.0, 3.0, 1.0, 2.0, 3.0]\n"
