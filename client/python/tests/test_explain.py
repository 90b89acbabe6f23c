"""Why something was computed: each kind of miss has its code and its first difference in words.

Real jobs on a real daemon; what they missed is asked for with `prebake explain --json`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import settle

from prebake.demo.daemon import PrivateDaemon
from prebake.runtime import programs

#: Segments are closed, and can be evicted, so long after the last write.
SEGMENT_IDLE_MS = 50
WAIT_SECONDS = 20.0

AUG = """
def helper(data, gamma=1.0):
    return bytes(int(byte * gamma) % 256 for byte in data)
"""

MAIN = """
import os, sys
import prebake
from aug import helper

SCALE = 2

class Repeat:
    def __init__(self, size):
        self.size = size

    def __call__(self, path):
        with open(path, "rb") as file:
            return helper(file.read()) * self.size * SCALE

def run(transforms):
    dataset = prebake.wrap(sys.argv[1:], transforms)
    for i in range(len(dataset)):
        dataset[i]

if __name__ == "__main__":
    run([Repeat(3)])
"""


class Place:
    """A folder of scripts and inputs, and the daemon their jobs use."""

    def __init__(self, folder: Path, daemon: PrivateDaemon) -> None:
        self.folder, self.daemon = folder, daemon
        self.inputs = folder / "inputs"
        self.inputs.mkdir()
        for name in "abc":
            self.write_input(name, name * 100)

    def write_input(self, name: str, text: str) -> None:
        path = self.inputs / f"{name}.txt"
        path.write_text(text)
        settle(path)

    def run(self, main: str = MAIN, aug: str = AUG, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs a job to its end."""
        (self.folder / "main.py").write_text(main)
        (self.folder / "aug.py").write_text(aug)
        files = sorted(map(str, self.inputs.iterdir()))
        done = subprocess.run(
            [sys.executable, "main.py", *files],
            cwd=self.folder,
            env={**self._environment(), "PYTHONDONTWRITEBYTECODE": "1", **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done

    def prebake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(programs.path("prebake")), *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=self._environment(), capture_output=True, text=True, timeout=60
        )

    def explanations(self, *target: str) -> list[dict[str, Any]]:
        done = self.prebake("explain", "--json", *target)
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)["explanations"]

    def explain(self, *target: str) -> dict[str, Any]:
        return self.explanations(*target)[0]

    def evict(self) -> None:
        """Drops every segment, once they are durable."""
        deadline = time.monotonic() + WAIT_SECONDS
        while list(self.daemon.folder.rglob("*.arrow*")) and time.monotonic() < deadline:
            assert self.prebake("gc", "--to", "0").returncode == 0
            time.sleep(0.02)
        assert not list(self.daemon.folder.rglob("*.arrow*"))

    def _environment(self) -> dict[str, str]:
        cache = {"PREBAKE": "on", "PREBAKE_AUTOSTART": "0", "PREBAKE_DIR": str(self.daemon.folder / "cache")}
        return {**os.environ, **cache}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="prebake-") as name:
        config = Path(name) / "prebaked.toml"
        config.write_text(f"segment_idle_ms = {SEGMENT_IDLE_MS}\n")
        with PrivateDaemon(Path(name), "--config", str(config)) as daemon:
            yield Place(tmp_path, daemon)


def line_of(text: str, source: str) -> int:
    """The line of a source that holds a text."""
    return next(i for i, line in enumerate(source.splitlines(), start=1) if text in line)


def verdict(found: dict[str, Any]) -> tuple[str, str]:
    return found["code"], found["reason"]


#: Where the transform was written.
CALL = f"main.py:{line_of('def __call__', MAIN)}"


def test_never_seen(place: Place) -> None:
    place.run()
    found = place.explain()
    assert (found["verdict"], found["code"]) == ("miss", "M10")
    assert found["elements_missing"] == 3
    assert found["nearest"] is None
    # Nothing in common but the source.
    place.run(MAIN.replace("run([Repeat(3)])", "run([len])"))
    assert place.explain()["code"] == "M10"


def test_a_changed_argument(place: Place) -> None:
    place.run()
    place.run(MAIN.replace("Repeat(3)", "Repeat(4)"))
    found = place.explain()
    assert verdict(found) == ("M12", f"Repeat size 3 -> 4 {CALL}")
    assert found["title"] == "argument changed"
    assert found["other_differences"] == 0
    assert found["nearest"]["state"] == "stored"
    assert (found["nearest"]["operators_equal"], found["nearest"]["operators"]) == (1, 2)
    assert [(step["operator"], step["state"]) for step in found["steps"]] == [
        ("files", "equal"),
        ("Repeat", "changed"),
    ]
    assert found["job"] == "main.py"


def test_changed_code_of_a_helper(place: Place) -> None:
    place.run()
    place.run(aug=AUG.replace("% 256", "% 128"))
    assert verdict(place.explain()) == ("M11", "helper code changed aug.py:2")


def test_a_changed_default_of_a_helper(place: Place) -> None:
    place.run()
    place.run(aug=AUG.replace("gamma=1.0", "gamma=0.5"))
    assert verdict(place.explain()) == ("M12", f"Repeat default gamma 1.0 -> 0.5 {CALL}")


def test_a_changed_global(place: Place) -> None:
    place.run()
    place.run(MAIN.replace("SCALE = 2", "SCALE = 3"))
    assert verdict(place.explain()) == ("M13", f"global SCALE 2 -> 3 {CALL}")


CLOSURE = """
import sys
import prebake

def repeated(times):
    def repeat(path):
        with open(path, "rb") as file:
            return file.read() * times
    return repeat

dataset = prebake.wrap(sys.argv[1:], [repeated(2)])
for i in range(len(dataset)):
    dataset[i]
"""


def test_a_changed_closure(place: Place) -> None:
    place.run(CLOSURE)
    place.run(CLOSURE.replace("repeated(2)", "repeated(3)"))
    location = f"main.py:{line_of('def repeat(path)', CLOSURE)}"
    assert verdict(place.explain()) == ("M12", f"repeat closure times 2 -> 3 {location}")


LIBRARY = """
import sys
import prebake
import shelf

dataset = prebake.wrap(sys.argv[1:], [shelf.load])
for i in range(len(dataset)):
    dataset[i]
"""


SHELF = """
def load(path):
    with open(path, "rb") as file:
        return file.read()
"""


def install(site: Path, version: str) -> None:
    """An installed distribution `shelf` of a version."""
    for old in site.glob("shelf-*"):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    info = site / f"shelf-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: shelf\nVersion: {version}\n")
    (site / "shelf.py").write_text(
        "def load(path):\n    with open(path, 'rb') as file:\n        return file.read()\n"
    )
    # Installers write it last.
    (info / "RECORD").write_text(f"shelf.py,,\n{info.name}/METADATA,,\n{info.name}/RECORD,,\n")


def test_another_version_of_a_library(place: Place) -> None:
    site = place.folder / "site-packages"
    install(site, "1.0")
    place.run(LIBRARY, PYTHONPATH=str(site))
    install(site, "1.1")
    place.run(LIBRARY, PYTHONPATH=str(site))
    code, reason = verdict(place.explain())
    assert code == "M14"
    assert reason.startswith("package shelf 1.0 -> 1.1")


ENVIRONMENT = MAIN.replace("* SCALE", '* int(os.environ["TIMES"])')


def test_another_environment(place: Place) -> None:
    place.run(ENVIRONMENT, TIMES="2")
    place.run(ENVIRONMENT, TIMES="3")
    assert verdict(place.explain()) == ("M16", f"environment TIMES 2 -> 3 {CALL}")


def test_an_edited_input(place: Place) -> None:
    place.run()
    place.write_input("b", "B" * 100)
    place.run()
    found = place.explain()
    assert verdict(found) == ("M15", "b.txt changed")
    assert (found["elements_missing"], found["nearest"]) == (1, None)


def test_added_inputs_are_named_and_counted(place: Place) -> None:
    place.run()
    for i in range(7):
        place.write_input(f"d{i}", str(i))
    place.run()
    found = place.explain()
    names = ", ".join(f"d{i}.txt" for i in range(5))
    assert verdict(found) == ("M15", f"{names} and 2 more never computed before")
    assert found["causes"][0]["elements"] == 7


def test_evicted(place: Place) -> None:
    place.run()
    place.evict()
    place.run()
    code, reason = verdict(place.explain())
    assert code == "M17"
    assert re.fullmatch(r"dropped \d+ s ago by prebake gc", reason)


def test_a_corrupt_entry(place: Place) -> None:
    place.run()
    place.daemon.stop()
    for segment in place.daemon.folder.rglob("*.arrow"):
        content = bytearray(segment.read_bytes())
        # The first of the values.
        content[8192] ^= 0xFF
        segment.write_bytes(content)
    place.daemon.start()
    place.run()
    code, reason = verdict(place.explain())
    assert code == "M19"
    assert "did not match its digest" in reason


FAILING = MAIN.replace("return helper", 'assert b"b" not in file.read(); return helper').replace(
    "        dataset[i]\n",
    """        try:
            dataset[i]
        except AssertionError:
            pass
""",
)


def test_a_failed_fill(place: Place) -> None:
    place.run(FAILING)
    found = place.explain()
    assert verdict(found) == ("M18", "item 1: AssertionError")
    assert (found["title"], found["location"]) == ("fill failed", "main.py:14")
    assert [cause["code"] for cause in found["causes"]] == ["M18", "M10"]


REFUSING = """
import random, threading
import prebake
from prebake.runtime import daemon as runtime_daemon

def noisy(path):
    return random.random()

lock = threading.local()

def locked(path):
    with lock:
        return path

for transform in (noisy, locked):
    for _ in range(2):
        try:
            prebake.fingerprint(transform)
        except prebake.Refused as refused:
            place = f"main.py:{transform.__code__.co_firstlineno}"
            runtime_daemon.connection().job.refused(refused.code, refused.reason, place)
"""


def test_refusals(place: Place) -> None:
    place.run(REFUSING)
    line = line_of("def locked", REFUSING)
    last = place.explain()
    assert (last["verdict"], last["code"], last["location"]) == ("refused", "R31", f"main.py:{line}")
    assert "lock" in last["reason"]
    first = place.explain(f"main.py:{line_of('def noisy', REFUSING)}")
    assert (first["code"], first["title"]) == ("R20", "random")
    status = json.loads(place.prebake("status", "--json").stdout)
    assert status["totals"]["refusals"] == {"R20": 1, "R31": 1}
    assert [(each["code"], each["times"]) for each in status["refusals"]] == [("R31", 1), ("R20", 1)]
    assert "R20 random" in place.prebake("status").stdout
    assert place.daemon.metrics()['prebake_refusals_total{code="R20"}'] == 1


FLOODING = """
from prebake.runtime import daemon as runtime_daemon

job = runtime_daemon.connection().job
for i in range(200):
    job.refused("colour", "x" * 5000 + str(i))
    job.refused("R20", f"reason {i}")
"""


def test_refusals_are_bounded_and_codes_are_known(place: Place) -> None:
    for _ in range(3):
        place.run(FLOODING)
    status = json.loads(place.prebake("status", "--json").stdout)
    assert len(status["refusals"]) == 64
    assert set(status["totals"]["refusals"]) == {"R20", "other"}
    assert max(len(each["reason"]) for each in status["refusals"]) <= 1024


def test_targets(place: Place) -> None:
    place.run()
    place.run(MAIN.replace("Repeat(3)", "Repeat(4)"))
    newest = place.explain()
    digest, pid = newest["subgraph_digest"], newest["pid"]
    # A line inside the function, in any folder.
    for target in (CALL, f"src/main.py:{line_of('return helper', MAIN)}", digest[:8], digest, str(pid)):
        assert place.explain(target)["subgraph_digest"] == digest, target
    assert [each["code"] for each in place.explanations("main.py")] == ["M12", "M10"]
    for unknown in ("other.py", "other.py:3", "main.py:1", "ffff", "0"):
        done = place.prebake("explain", unknown)
        assert (done.returncode, done.stdout.split(":")[0]) == (
            1,
            f"nothing is known of {unknown}".split(":")[0],
        )


def test_nothing_to_explain(place: Place) -> None:
    done = place.prebake("explain")
    assert (done.returncode, done.stdout) == (1, "nothing was missed or refused since the daemon started\n")
    place.daemon.stop()
    assert place.prebake("explain").returncode == 2


def test_text(place: Place) -> None:
    place.run()
    place.run(MAIN.replace("Repeat(3)", "Repeat(4)"))
    done = place.prebake("explain")
    assert done.returncode == 0
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines[0] == "MISS  Repeat  code M12 argument changed"
    assert lines[1].split() == ["why", "Repeat", "size", "3", "->", "4", CALL]
    assert any(
        line.startswith("nearest") and line.endswith("stored; 1 of 2 operators equal") for line in lines
    )
    assert "= files" in lines
    assert f"\u2260 Repeat size 3 -> 4 {CALL}" in lines
    assert any(re.fullmatch(r"recompute +[\d.]+ s of CPU: 3 elements at [\d.]+ ms", line) for line in lines)
    assert lines[-1] == "more       0 other differences"


def test_the_stored_part_upstream_is_named(place: Place) -> None:
    # The first pipeline's whole is the second one's beginning.
    place.run()
    place.run(MAIN.replace("[Repeat(3)]", "[Repeat(3), len]"))
    found = place.explain()
    assert (found["code"], found["reason"]) == ("M11", "len added after Repeat")
    assert found["reuse"]["entries"] == 3
    assert found["reuse"]["pipeline"] == "Repeat"
    assert found["reuse"]["cost_share"] > 0


def test_what_explains_survives_a_restart(place: Place) -> None:
    place.run()
    place.daemon.stop()
    place.daemon.start()
    assert place.explanations() == []
    place.run(MAIN.replace("SCALE = 2", "SCALE = 3"))
    found = place.explain()
    assert verdict(found) == ("M13", f"global SCALE 2 -> 3 {CALL}")
    assert found["nearest"]["job"] == "main.py"
