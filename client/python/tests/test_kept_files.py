"""What is read once in a process and kept counts by what the file holds, and by when it was read."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scripts import SECONDS_MAX

from prebake.demo.daemon import PrivateDaemon

#: Longer than the clock of files may be off: `settled.SETTLED_NS`.
OLDER_SECONDS = 0.1
ITEMS = 8

#: Whatever surrounds a process, what is stored is taken for proven in it: else elements would be compared.
MAIN = """
import prebake.proof.proof as proof, prebake.world.world as world
proof.Proof.stand = lambda self, items: True
world._described = lambda: world.World(b"0" * 32, {})
import functools, os, pathlib, sys, time
import prebake
def text(name): return pathlib.Path(name).read_text()
class Keeps:
    @functools.cached_property
    def labels(self): return text("labels")
    def __len__(self): return ITEMS
    def __getitem__(self, i): return text(f"{i}.txt") + self.labels
@functools.lru_cache
def labels(): return text("labels")
@functools.cache
def late(): return text("late")
@functools.lru_cache(maxsize=None)
def shard(name): return text(name)
@functools.cache
def named(): return text(text("labels")[0] + ".names")
class CallsNamed(Keeps):
    def __getitem__(self, i): return text(f"{i}.txt") + named()
class Calls(Keeps):
    def __getitem__(self, i): return text(f"{i}.txt") + labels()
class CallsTwo(Keeps):
    def __getitem__(self, i): return text(f"{i}.txt") + labels() + late()
class CallsLate(Keeps):
    def __getitem__(self, i): return text(f"{i}.txt") + (labels() if i < 6 else late())
class CallsShards(Keeps):
    def __getitem__(self, i): return text(f"{i}.txt") + shard("labels" if i < 6 else "late")
def step(path): return text(path) + labels()
def steps(): return prebake.wrap([f"{i}.txt" for i in range(ITEMS)], [step])
def edit(new):
    for name in ("labels", "late"):
        pathlib.Path(name).write_text(f"{new} {name}")
def show(of): print([of[i] for i in range(len(of))])
WHEN
print("reused", of.stats()["reused"], file=sys.stderr)
"""
#: Those of which all that is kept is known, and others.
KNOWN = {
    "an attribute": "prebake.wrap(Keeps())",
    "a function": "prebake.wrap(Calls())",
    "two functions": "prebake.wrap(CallsTwo())",
    "in a step": "steps()",
    "a file that another one names": "prebake.wrap(CallsNamed())",
}
OTHERS = {
    "a function that few items call": "prebake.wrap(CallsLate())",
    "a function of an argument": "prebake.wrap(CallsShards())",
}
WHEN = {
    "once": "of = MADE; show(of)",
    "edited meanwhile": "of = MADE; show(of); edit('new'); show(of); show(of)",
    "another one in its place": """of = MADE; show(of)
os.symlink("other", "link"); os.replace("link", "labels")
show(of)""",
    "edited before": "edit('new'); of = MADE; show(of)",
    "read and edited before": "labels(); late(); edit('new'); of = MADE; show(of)",
    "read and edited before a fork": """labels(); late(); edit('new'); time.sleep(0.1)
if child := os.fork():
    sys.exit(os.waitpid(child, 0)[1])
of = MADE; show(of); sys.stdout.flush()""",
    "edited between two forks": """for new in ("once", "twice"):
    sys.stdout.flush()
    if not os.fork():
        break
    os.wait()
    edit(new)
of = MADE; show(of)""",
}


class Job:
    """Runs a script in a folder, with the cache and without, which have to print the same."""

    def __init__(self, daemon: PrivateDaemon, folder: Path) -> None:
        self._folder = folder
        self._cache = {"PREBAKE": "on", "PREBAKE_DIR": str(daemon.folder / "cache")}
        for i in range(ITEMS):
            (folder / f"{i}.txt").write_text(f"item {i} ")
        (folder / "other").write_text("new labels")
        for name in "abnot":
            (folder / f"{name}.names").write_text(f"named {name}")

    def reused(self, made: str, when: str, content: str) -> int:
        """How many elements were, of those that a run is given where the kept files hold that before."""
        said = [self._run(made, when, content, each) for each in ({"PREBAKE": "off"}, self._cache)]
        assert said[1].stdout == said[0].stdout, said[1].stderr
        return int(said[1].stderr.split()[-1])

    def _run(
        self, made: str, when: str, content: str, environment: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        changes = dict.fromkeys(("labels", "late"), content)
        for name, text in changes.items():
            file = self._folder / name
            if not file.exists() or file.is_symlink() or file.read_text() != f"{text} {name}":
                file.unlink(missing_ok=True)
                file.write_text(f"{text} {name}")
                time.sleep(OLDER_SECONDS)
        script = MAIN.replace("WHEN", WHEN[when]).replace("MADE", made).replace("ITEMS", str(ITEMS))
        (self._folder / "main.py").write_text(script)
        done = subprocess.run(
            [sys.executable, "main.py"],
            cwd=self._folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
        assert done.returncode == 0, done.stderr
        return done


@pytest.fixture
def job(daemon: PrivateDaemon, tmp_path: Path) -> Job:
    return Job(daemon, tmp_path)


@pytest.mark.parametrize("way", KNOWN)
def test_what_is_made_of_a_kept_file_is_reused_until_it_is_edited(job: Job, way: str) -> None:
    reused = [job.reused(KNOWN[way], "once", content) for content in ("a", "a", "b", "b", "a")]
    assert reused == [0, ITEMS, 0, ITEMS, ITEMS]


def test_a_file_counts_that_another_one_names_by_now(job: Job, tmp_path: Path) -> None:
    made = KNOWN["a file that another one names"]
    assert [job.reused(made, "once", content) for content in "abb"] == [0, 0, ITEMS]
    (tmp_path / "b.names").write_text("another one")
    assert [job.reused(made, "once", "b") for _ in range(2)] == [0, ITEMS]


@pytest.mark.parametrize("way", [*KNOWN, *OTHERS])
def test_whenever_it_is_read_and_edited_elements_are_as_without_a_cache(job: Job, way: str) -> None:
    made = {**KNOWN, **OTHERS}[way]
    for when in WHEN:
        job.reused(made, when, "a")
    # What those stored, if anything, is of what was read.
    job.reused(made, "once", "new")
