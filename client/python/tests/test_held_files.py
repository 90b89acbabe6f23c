"""A file that a step's code names is looked at before each request, not only where an epoch begins."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from conftest import Run, settle

from prebake.demo.daemon import PrivateDaemon
from prebake.watched.held_files import FILES_MAX, HeldFiles

MAIN = """
import json, os, pathlib, time
import prebake

def step(path):
    return open(path).read() + pathlib.Path("table.txt").read_text()

def edited(turn):
    # Of one length; some look old at once, others were written just now.
    table = pathlib.Path("table.txt")
    table.write_text(f"{turn:03}")
    if turn % 3:
        os.utime(table, ns=(turn * 10**9 + 1, turn * 10**9 + 1))

files = [f"{i}.txt" for i in range(8)]
for i, file in enumerate(files):
    pathlib.Path(file).write_text(str(i))
    os.utime(file, ns=(1, 1))
seen = prebake.wrap(files, [step])
right, shared = [], 0
for turn in range(6):
    edited(turn)
    if not turn % 3:
        time.sleep(0.1)
    right += [seen[i] == step(files[i]) for i in (turn, turn, 0)]
    shared += sum(seen.stats()[how] for how in ("computed", "reused"))
# Changed at each request, it is left alone, and right.
for turn in range(6, 24):
    edited(turn)
    right.append(seen[0] == step(files[0]))
print(json.dumps(right))
print(shared)
"""


def test_an_edit_between_two_requests_is_seen(script: Run, daemon: PrivateDaemon) -> None:
    environment = {"PREBAKE": "on", "PREBAKE_DIR": str(daemon.folder / "cache"), "PREBAKE_AUTOSTART": "0"}
    for _ in range(2):
        right, shared = script(MAIN, environment=environment).splitlines()
        assert "false" not in right
    assert int(shared) > 0


PARTS = """
import os, pathlib, pickle
import prebake

def step(path):
    with open(path, "rb") as file:
        return pickle.load(file).value()

files = [f"{i}.pickle" for i in range(8)]
for i, file in enumerate(files):
    # Each is of a class in a module of its own, which nothing but the data names.
    pathlib.Path(f"part{i}.py").write_text(f"class Part:\\n    def value(self):\\n        return {i}\\n")
    pathlib.Path(file).write_bytes(f"cpart{i}\\nPart\\n(tR.".encode())
    for path in (f"part{i}.py", file):
        os.utime(path, ns=(1, 1))
seen = prebake.wrap(files, [step])
for i in range(8):
    assert seen[i] == i
    print(seen._pipeline._findings._changed)
"""


def test_code_that_each_request_finds_more_of_is_no_change(script: Run, daemon: PrivateDaemon) -> None:
    environment = {"PREBAKE": "on", "PREBAKE_DIR": str(daemon.folder / "cache"), "PREBAKE_AUTOSTART": "0"}
    assert set(script(PARTS, environment=environment).split()) == {"0"}


def test_a_file_tells_once_it_is_settled(tmp_path: Path) -> None:
    file = tmp_path / "table.txt"
    file.write_text("1")
    # Written so shortly before that another write may leave the same stat.
    assert not HeldFiles([str(file)], time.time_ns()).hold()
    settle(file)
    later = time.time_ns() + 10**9
    held = HeldFiles([str(file), str(tmp_path / "absent")], later)
    assert held.hold()
    (tmp_path / "absent").write_text("")
    assert not held.hold()
    os.unlink(tmp_path / "absent")
    file.write_text("2")
    assert not held.hold()


@pytest.mark.parametrize("count", [FILES_MAX, FILES_MAX + 1])
def test_more_than_a_few_are_looked_at_where_an_epoch_begins(tmp_path: Path, count: int) -> None:
    files = [tmp_path / f"{i}.txt" for i in range(count)]
    for file in files:
        file.write_text("1")
    held = HeldFiles(map(str, files), time.time_ns() + 10**9)
    files[-1].unlink()
    assert held.hold() == (count > FILES_MAX)
