"""Code that runs though nothing names it, and variables that are read: both are inputs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import installed

from prebake.demo.daemon import PrivateDaemon
from prebake.execution import executed, monitoring_watcher, profile_watcher
from prebake.execution.reached import Reached
from prebake.execution.scope import FIRST_ELEMENTS, Scope

Run = Callable[..., tuple[Any, int, str]]

RUNS_MAX = 5
ELEMENTS = 200

#: A class that only a pickle names, in a module that the job itself does not import.
THING = """
SCALE = 3

class Thing:
    def __init__(self, value):
        self.held = value

    def value(self):
        return self.held * SCALE
"""

MAKE = """
import pickle
import things
for i in range(6):
    with open(f"{i}.pkl", "wb") as file:
        pickle.dump(things.Thing(i), file)
"""

STEPS = """
import json, pickle, sys
import prebake

def load(path):
    with open(path, "rb") as file:
        return pickle.load(file)

def use(thing):
    sys.stderr.write("called\\n")
    return thing.value()

files = [f"{i}.pkl" for i in range(6)]
dataset = prebake.wrap(files, [load, use])
"""
FUNCTION = """
import json, pickle, sys
import prebake

@prebake.cached
def use(path):
    sys.stderr.write("called\\n")
    with open(path, "rb") as file:
        return pickle.load(file).value()

dataset = [use(f"{i}.pkl") for i in range(6)]
"""
STREAM = """
import json, pickle, sys
import prebake

class Things:
    def __init__(self, files):
        self.files = files

    def __iter__(self):
        for path in self.files:
            sys.stderr.write("called\\n")
            with open(path, "rb") as file:
                yield pickle.load(file).value()

dataset = prebake.wrap(Things([f"{i}.pkl" for i in range(6)]))
"""
DATASET = """
import json, pickle, sys
import prebake

class Things:
    def __len__(self):
        return 6

    def __getitem__(self, i):
        sys.stderr.write("called\\n")
        with open(f"{i}.pkl", "rb") as file:
            return pickle.load(file).value()

dataset = prebake.wrap(Things())
dataset = [dataset[i] for i in range(6)]
"""
PRINT = "print(json.dumps([each for each in dataset]))\n"
FRONTS = {"steps": STEPS, "function": FUNCTION, "stream": STREAM, "dataset": DATASET}


@pytest.fixture
def run(daemon: PrivateDaemon, tmp_path: Path) -> Run:
    """Runs a script in a fresh process: what it prints, how often it called, what it said."""

    def run(script: str, on: bool = True, **variables: str) -> tuple[Any, int, str]:
        (tmp_path / "main.py").write_text(script)
        environment = {
            **os.environ,
            "PREBAKE": "on" if on else "off",
            "PREBAKE_DIR": str(daemon.folder / "cache"),
            "PREBAKE_AUTOSTART": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            **variables,
        }
        command = [sys.executable, "main.py"]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=120
        )
        printed = json.loads(done.stdout) if done.stdout else None
        return printed, done.stderr.count("called"), done.stderr

    return run


def old(path: Path, text: str) -> None:
    """Writes a file that was there before any process that reads it."""
    path.write_text(text)
    os.utime(path, (1e9, 1e9))


def settled(once: Callable[[], tuple[Any, int, str]], expected: Any) -> None:
    """Runs a job until nothing is computed any more, which a function that was not tried yet is once more."""
    for _ in range(RUNS_MAX):
        printed, calls, _ = once()
        assert printed == expected
        if not calls:
            return
    raise AssertionError(f"still computed in run {RUNS_MAX}")


@pytest.mark.parametrize("front", FRONTS)
def test_a_class_that_only_data_names_is_an_input(run: Run, tmp_path: Path, front: str) -> None:
    old(tmp_path / "things.py", THING)
    run(MAKE)
    script = FRONTS[front] + PRINT
    first = run(script)
    assert first[0] == [0, 3, 6, 9, 12, 15]
    settled(lambda: run(script), first[0])
    old(tmp_path / "things.py", THING.replace("SCALE = 3", "SCALE = 4"))
    settled(lambda: run(script), [0, 4, 8, 12, 16, 20])
    old(tmp_path / "things.py", THING)
    assert run(script)[:2] == (first[0], 0)


RARE = """
import json, pickle, sys
import prebake
import shapes

BLOBS = [pickle.dumps(shapes.Usual()), pickle.dumps(shapes.Rare())]

def small(i):
    return i & 3

@prebake.cached
def area(k):
    sys.stderr.write("called\\n")
    # Too many calls for each to be watched at each element.
    return pickle.loads(BLOBS[k == 91]).area(k) + sum(map(small, range(2000)))

dataset = [area(k) for k in range(100)]
print(json.dumps(dataset[91] - dataset[90]))
"""
SHAPES = """
from helper import area_of

class Usual:
    def area(self, k):
        return k

class Rare:
    def area(self, k):
        return area_of(k)
"""


def test_what_a_class_goes_on_to_that_only_one_of_many_has_is_an_input(run: Run, tmp_path: Path) -> None:
    old(tmp_path / "shapes.py", SHAPES)
    for sign in (-1, -2):
        old(tmp_path / "helper.py", f"def area_of(k):\n    return {sign} * k\n")
        settled(lambda: run(RARE), sign * 91 - 90)


VARIABLE = """
import json, sys
import prebake
import envlib

@prebake.cached
def scaled(x):
    sys.stderr.write("called\\n")
    return envlib.scaled(x)

def text(path):
    sys.stderr.write("called\\n")
    with open(path) as file:
        return envlib.scaled(len(file.read()))

dataset = [scaled(1), scaled(2), prebake.wrap(["data.txt"], [text])[0]]
"""
ENVLIB = """
import os

def scaled(x):
    return x * int(os.environ["ENVLIB_SCALE"])
"""


def test_a_variable_that_installed_code_reads_is_an_input(run: Run, tmp_path: Path) -> None:
    path = installed(tmp_path, "envlib", ENVLIB)
    (tmp_path / "data.txt").write_text("four")
    script = VARIABLE + PRINT
    first = run(script, ENVLIB_SCALE="3", PYTHONPATH=path)
    assert first[0] == [3, 6, 12]
    settled(lambda: run(script, ENVLIB_SCALE="3", PYTHONPATH=path), first[0])
    assert run(script, ENVLIB_SCALE="4", PYTHONPATH=path)[0] == [4, 8, 16]
    assert run(script, ENVLIB_SCALE="3", PYTHONPATH=path)[:2] == (first[0], 0)


PROFILED = """
import json, sys
import prebake

@prebake.cached
def double(x):
    sys.stderr.write("called\\n")
    return 2 * x

sys.setprofile(lambda *_: None)
print(json.dumps([double(1), double(2)]))
"""


def test_what_runs_as_the_interpreter_ends_is_left_alone(run: Run) -> None:
    # When these go, modules have lost what they named; each then calls a function of `logging`.
    script = (
        "import logging, sys\nimport prebake\n@prebake.cached\ndef f(i):\n    return i\nf(1)\n"
        "logging.kept, sys.kept = logging.StreamHandler(), logging.StreamHandler()\n"
    )
    assert run(script)[2] == run(script, on=False)[2] == ""


def test_an_error_of_the_watching_is_not_raised_in_the_code_it_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # So modules are as an interpreter ends: what they named is None.
    watching = monitoring_watcher if sys.version_info >= (3, 12) else profile_watcher
    for name in ("see", "failed"):
        monkeypatch.setattr(watching, name, None)

    def seven() -> int:
        return 7

    begun = executed.begin(scope := Scope())
    assert seven() == 7
    executed.end(scope, begun)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="a profiler takes nothing from sys.monitoring")
def test_another_profiler_is_left_alone_and_nothing_is_stored(run: Run) -> None:
    for _ in range(2):
        printed, calls, said = run(PROFILED)
        assert (printed, calls) == ([2, 4], 2)
        assert said.count("another profiler is at work") == 1


MONITORED = """
import json, sys
import prebake

@prebake.cached
def double(x):
    sys.stderr.write("called\\n")
    for tool in range(6):
        if sys.monitoring.get_tool(tool) == "prebake":
            sys.monitoring.free_tool_id(tool)
    return 2 * x

print(json.dumps([double(1), double(2)]))
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there is no sys.monitoring")
def test_who_takes_the_watching_away_shares_nothing(run: Run) -> None:
    for _ in range(2):
        printed, calls, said = run(MONITORED)
        assert (printed, calls) == ([2, 4], 2)
        assert said.count("others watch the interpreter") == 1


EDITED = """
import json, sys, time
import prebake
import things

@prebake.cached
def use(x):
    sys.stderr.write("called\\n")
    return getattr(sys.modules["thi" + "ngs"], "Thing")(x).value()

with open("things.py", "w") as file:
    file.write(sys.argv[1] if len(sys.argv) > 1 else things.EDIT)
print(json.dumps([use(1), use(2)]))
"""


def test_code_that_is_not_in_its_file_any_more_is_not_shared(run: Run, tmp_path: Path) -> None:
    edited = THING.replace("SCALE = 3", "SCALE = 4")
    old(tmp_path / "things.py", f"EDIT = {edited!r}\n{THING}")
    assert run(EDITED)[0] == [3, 6]
    # The file says otherwise now.
    assert run(EDITED.replace("things.EDIT", "''"))[0] == [4, 8]


def test_code_is_seen_once_for_all_elements_of_a_scope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "seen_code.py").write_text("def double(x):\n    return 2 * x\n")
    os.utime(tmp_path / "seen_code.py", (1e9, 1e9))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    import seen_code  # type: ignore[import-not-found]

    reached, scope = Reached(), Scope()
    for _ in range(3):
        begun = executed.begin(scope)
        seen_code.double(1)
        executed.end(scope, begun)
    assert scope.files(reached) == [str(tmp_path / "seen_code.py")]
    other = Scope()
    begun = executed.begin(other)
    seen_code.double(1)
    executed.end(other, begun)
    assert other.files(reached) == scope.files(reached)
    known = Reached()
    known.add(seen_code.double.__code__)
    assert scope.files(known) == []


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="watching slows no instruction from 3.12 on")
def test_elements_that_watching_slows_are_watched_now_and_then_and_others_always(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The time goes on by a millisecond for each of these, and by nothing else.
    ticks = [0]
    clock = types.SimpleNamespace(perf_counter=lambda: len(ticks) / 1000)
    monkeypatch.setattr(profile_watcher, "time", clock)

    def python() -> None:
        nonlocal ticks
        ticks += [0, 0]

    def compiled() -> None:
        ticks.extend((0, 0))

    def watched(work: Callable[[], None]) -> list[int]:
        scope, found = Scope(), []
        for number in range(ELEMENTS):
            begun = executed.begin(scope)
            if sys.getprofile() is not None:
                found.append(number)
            work()
            executed.end(scope, begun)
        return found

    first, slowed = list(range(FIRST_ELEMENTS)), watched(python)
    assert slowed[: len(first)] == first
    # The profile slows each instruction, so that what is little pays for one element in forty-five.
    assert 0 < len(slowed) - len(first) < ELEMENTS / 10
    assert watched(compiled) == list(range(ELEMENTS))
