"""The plug-in that runs peers' tests tells right, refused and each kind of failure apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from prebake.demo.daemon import PrivateDaemon

PEERS = Path(__file__).parent.parent / "peer_tests"

#: A peer whose tests ask `identify`, and call what `keep` gives back, and which Prebake answers wrongly.
ADAPTER = """
import asked, fresh, prebake, threading

def prepare(): pass

def patch(module):
    sound = prebake.fingerprint
    def fingerprint(value):
        if value == "crash":
            raise ZeroDivisionError
        return sound("same" if value == "other" else value)
    prebake.fingerprint = fingerprint
    sound_cached = prebake.cached
    prebake.cached = lambda f: (lambda x: 3) if f.__name__ == "stale" else sound_cached(f)
    plain = module.identify
    module.identify = lambda v: asked.identity(v, lambda r: TypeError(r)) if asked.on else plain(v)
    module.keep = lambda f: fresh.cached(f) if asked.on else f
"""
TESTS = """
import os, threading
import pytest

def identify(value):
    if type(value).__name__ == "_local":
        raise TypeError
    return repr(list(value) if isinstance(value, tuple) else value)

def keep(function):
    return function

def stale(x):
    return x + 1

def plus(x):
    return x + 1

def test_right():
    assert identify([1]) == identify([1]) != identify([2])
    assert keep(plus)(1) == 2

def test_refused():
    with pytest.raises(TypeError):
        identify(threading.local())

def test_false_equality():
    assert identify("other") != identify("same")

def test_differs():
    assert identify((1, 2)) == identify([1, 2])

def test_crash():
    try:
        identify("crash")
    except ZeroDivisionError:
        pass

def test_stale():
    keep(stale)(1)

def test_not_ours():
    assert 1 + 1 == 2

def test_that_ends_the_process():
    identify(1)
    os._exit(3)
"""


def test_outcomes_are_told_apart(daemon: PrivateDaemon, tmp_path: Path) -> None:
    (tmp_path / "of_fake.py").write_text(ADAPTER)
    (tmp_path / "test_fake.py").write_text(TESTS)
    for name in ("out", "done", "alone"):
        (tmp_path / name).touch()
    environment = {
        **os.environ,
        "PREBAKE": "on",
        "PREBAKE_DIR": str(daemon.folder / "cache"),
        "PREBAKE_PEER": "of_fake",
        "PREBAKE_PEER_OUT": str(tmp_path / "out"),
        "PREBAKE_PEER_DONE": str(tmp_path / "done"),
        "PREBAKE_PEER_ALONE": str(tmp_path / "alone"),
        "PYTHONPATH": os.pathsep.join([str(PEERS), str(tmp_path)]),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "plugin", "-p", "no:cacheprovider", "test_fake.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done.stdout + done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    found = {
        line["test"].partition("::test_")[2]: line.get("kind", line["outcome"])
        for line in lines
        if "test" in line
    }
    assert found == {
        "right": "right",
        "refused": "refused",
        "false_equality": "false equality",
        "differs": "differs",
        "crash": "crash",
        "stale": "stale",
        "not_ours": "not ours",
    }
    assert lines[-1] == {"begun": "test_fake.py::test_that_ends_the_process"}
