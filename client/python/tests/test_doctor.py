"""`prebake doctor`: what is wrong here, and which part of an identity is another in each process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prebake.demo.daemon import PrivateDaemon
from prebake.runtime import programs

Findings = list[dict[str, Any]]


def doctor(
    daemon: PrivateDaemon, *arguments: str, cwd: Path | None = None
) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and findings."""
    done = subprocess.run(
        [str(programs.path("prebake")), "doctor", "--json", *arguments],
        cwd=cwd,
        env={
            **os.environ,
            "PREBAKE": "on",
            "PREBAKE_AUTOSTART": "0",
            "PREBAKE_DIR": str(daemon.folder / "cache"),
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1])["findings"]


def level(found: Findings, check: str) -> list[str]:
    return [each["level"] for each in found if each["check"] == check]


def test_all_is_well(daemon: PrivateDaemon) -> None:
    code, found = doctor(daemon)
    assert code == 0
    for check in ("daemon", "fingerprints", "folder", "memfd", "clock", "leftovers"):
        assert level(found, check) == ["ok"], found
    for each in found:
        assert each["level"] == "ok" or each["fix"]
    checks = {each["check"] for each in found}
    assert {"file system", "space", "ulimit -n", "ulimit -l", "userfaultfd", "inotify"} <= checks


def test_what_is_wrong_is_told_with_what_to_do(daemon: PrivateDaemon) -> None:
    cache = daemon.folder / "cache"
    cache.chmod(0o755)
    _, found = doctor(daemon)
    (folder,) = [each for each in found if each["check"] == "folder"]
    assert (folder["level"], folder["fix"]) == ("warn", f"chmod 700 {cache}")
    daemon.kill()
    (cache / "segments" / "00000000-00000001.arrow.tmp").write_bytes(b"")
    code, found = doctor(daemon)
    assert code == 0
    assert level(found, "daemon") == ["warn"]
    assert level(found, "leftovers") == ["warn"]


def test_a_folder_on_tmpfs(daemon: PrivateDaemon) -> None:
    done = subprocess.run(
        [str(programs.path("prebake")), "--dir", "/dev/shm/prebake-none", "doctor"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "warn  file system  tmpfs" in done.stdout


UNSTABLE = """
import sys
import prebake

NAMES = list({"apple", "pear", "cherry", "fig", "plum", "quince", "lime", "date"})

def first(path):
    return NAMES[0]

@prebake.cached
def steady(n):
    return n + 1

@prebake.cached
def second(n):
    return NAMES[1] + str(n)

steady(1)
second(1)
dataset = prebake.wrap(sys.argv[1:], [first])
dataset[0]
"""


def test_a_script_whose_identity_differs(daemon: PrivateDaemon, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(UNSTABLE)
    (tmp_path / "input").write_text("x")
    code, found = doctor(daemon, "--unstable", "--", sys.executable, "job.py", "input", cwd=tmp_path)
    assert code == 1
    assert {each["level"] for each in found} == {"fail"}
    assert all("-> NAMES" in each["found"] for each in found), found
    # Of a data set's step, and of a function.
    assert ["first" in each["found"] or "second" in each["found"] for each in found] == [True, True]
    (tmp_path / "job.py").write_text(UNSTABLE.replace("list({", "sorted({"))
    code, found = doctor(daemon, "--unstable", "--", sys.executable, "-u", "job.py", "input", cwd=tmp_path)
    assert (code, level(found, "unstable")) == (0, ["ok"])


WORKERS = """
import multiprocessing, sys
import prebake

NAMES = list({"apple", "pear", "cherry", "fig", "plum", "quince", "lime", "date"})

def first(path):
    return NAMES[0]

class Reader:
    def __init__(self, dataset):
        self.dataset = dataset
    def __call__(self, i):
        return self.dataset[i]

if __name__ == "__main__":
    dataset = prebake.wrap(sys.argv[2:], [first])
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        pool.map(Reader(dataset), [0, 1])
"""


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_what_workers_identify_is_compared(daemon: PrivateDaemon, tmp_path: Path, method: str) -> None:
    for name in "ab":
        (tmp_path / name).write_text(name)
    run = ("--unstable", "--", sys.executable, "job.py", method, "a", "b")
    (tmp_path / "job.py").write_text(WORKERS)
    code, found = doctor(daemon, *run, cwd=tmp_path)
    assert code == 1 and {each["level"] for each in found} == {"fail"}
    assert all("-> NAMES" in each["found"] for each in found), found
    (tmp_path / "job.py").write_text(WORKERS.replace("list({", "sorted({"))
    code, found = doctor(daemon, *run, cwd=tmp_path)
    assert (code, level(found, "unstable")) == (0, ["ok"])
    assert not found[0]["found"].startswith("0 "), found


def test_an_object_whose_identity_differs(tmp_path: Path) -> None:
    (tmp_path / "things.py").write_text(UNSTABLE.split("@prebake")[0])

    def look(target: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "prebake.doctor", target]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    done = look("things:first")
    assert done.returncode == 1
    assert "global -> NAMES differs: ['" in done.stdout
    assert look("things:len").returncode == 2
    (tmp_path / "things.py").write_text("def second(path):\n    return path\n")
    done = look("things:second")
    assert (done.returncode, done.stdout) == (0, "things:second has the same identity in both processes\n")
