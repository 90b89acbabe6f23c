"""Hits computed again: counted if they are the same; if not, quarantined, counted and explained."""

from __future__ import annotations

import dataclasses
import functools
import gc
import json
import multiprocessing
import os
import random
import re
import subprocess
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from conftest import Run, settle

import prebake
from prebake.codec import values
from prebake.demo.daemon import PrivateDaemon
from prebake.proof import verify
from prebake.runtime import daemon as runtime_daemon
from prebake.runtime import errors, programs

T = TypeVar("T")

COUNT = 12

#: What the steps reach so that it is no part of what they are: the world that changes unseen.
hidden: Any = types.ModuleType("hidden_world")
sys.modules["hidden_world"] = hidden


@prebake.pure
def load(path: str) -> Any:
    sys.modules["hidden_world"].on_load(path)
    return np.fromfile(path, np.float64)


@prebake.pure
def scale(numbers: Any) -> Any:
    return numbers * sys.modules["hidden_world"].factor


@prebake.pure(tolerance=1e-5)
def embed(numbers: Any) -> Any:
    return numbers * sys.modules["hidden_world"].factor


@prebake.pure
def double(numbers: Any) -> Any:
    return numbers + numbers


@pytest.fixture(autouse=True)
def world() -> None:
    hidden.factor = 1.0
    hidden.on_load = lambda path: None


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    folder = tmp_path / "numbers"
    folder.mkdir()
    for i in range(COUNT):
        path = folder / f"{i:02}.bin"
        (np.arange(8, dtype=np.float64) + 100 * i + 1).tofile(path)
        settle(path)
    return [str(path) for path in sorted(folder.iterdir())]


@pytest.fixture
def share(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Says which share of the hits is verified from now on."""

    def say(text: str) -> None:
        monkeypatch.setenv(verify.VARIABLE, text)
        verify.share.cache_clear()

    yield say
    monkeypatch.delenv(verify.VARIABLE, raising=False)
    verify.share.cache_clear()


def epoch(files: list[str], steps: list[Any]) -> tuple[list[Any], dict[str, int]]:
    """All elements by a data set of their own, as a job that begins would read them; and its counts."""
    dataset = prebake.wrap(files, steps)
    got = [np.array(each) for batch in dataset.batches(size=5) for each in batch]
    return got, dataset.stats()


def uncached(files: list[str], steps: list[Any]) -> list[Any]:
    found = []
    for path in files:
        value: Any = path
        for step in steps:
            value = step(value)
        found.append(value)
    return found


def said(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(each.message) for each in caught if issubclass(each.category, prebake.PrebakeWarning)]


def told(make: Callable[[], T]) -> tuple[T, list[str]]:
    """What is made, and what is said meanwhile. Not in a `with` statement: there it would be asked for in
    another world."""
    catching = warnings.catch_warnings(record=True)
    caught = catching.__enter__()
    warnings.simplefilter("always")
    try:
        return make(), said(caught or [])
    finally:
        catching.__exit__(None, None, None)


def cli(daemon: PrivateDaemon, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [str(programs.path("prebake")), "--dir", str(daemon.folder / "cache"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **more)


def status(daemon: PrivateDaemon) -> dict[str, Any]:
    done = cli(daemon, "status", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def reconnect(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process as another job: a connection of its own, and nothing said yet."""
    monkeypatch.setattr(runtime_daemon, "_current", None)
    monkeypatch.setattr(runtime_daemon, "_retry_at", 0.0)
    monkeypatch.setattr(errors, "_said", set())


def quarantined_by(
    files: list[str], share: Callable[[str], None], steps: list[Any]
) -> tuple[list[Any], list[str]]:
    """What a job gets, and what it is told, once it finds that the steps do not reproduce."""
    share("0")
    epoch(files, steps)
    hidden.factor = 3.0
    share("1")
    (got, _), words = told(lambda: epoch(files, steps))
    share("0")
    return got, words


def test_hits_that_reproduce_are_counted_and_move_no_generator(
    connected: None, daemon: PrivateDaemon, files: list[str], share: Callable[[str], None]
) -> None:
    first, counts = epoch(files, [load, scale])
    assert counts["verified"] == 0
    share("1")
    random.seed(5)
    np.random.seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist()
    again, counts = epoch(files, [load, scale])
    assert np.array_equal(first, again)
    assert (counts["reused"], counts["computed"], counts["verified"]) == (COUNT, 0, COUNT)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    # The data set is gone, and so reports what it counted.
    gc.collect()
    metrics = daemon.metrics()
    assert metrics["prebake_verified_total"] == COUNT
    assert metrics["prebake_verify_cpu_seconds_total"] > 0
    assert metrics["prebake_mismatches_total"] == metrics["prebake_quarantined"] == 0
    assert "verified  12 hits, 0 did not reproduce" in cli(daemon, "status").stdout


def test_item_by_item_too_and_only_a_share(
    connected: None, files: list[str], share: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch(files, [load, scale])
    share("0.5")
    drawn = iter([0.4, 0.6] * COUNT)
    monkeypatch.setattr(verify, "_system", types.SimpleNamespace(random=lambda: next(drawn)))
    dataset = prebake.wrap(files, [load, scale])
    got = [dataset[i] for i in range(COUNT)]
    assert np.array_equal(got, uncached(files, [load, scale]))
    counts = dataset.stats()
    assert (counts["reused"], counts["verified"]) == (COUNT, COUNT // 2)


def test_what_is_made_here_is_no_hit_until_it_is_read_again(
    connected: None, files: list[str], share: Callable[[str], None]
) -> None:
    share("1")
    dataset = prebake.wrap(files, [load, scale])
    list(dataset.batches(size=5))
    assert dataset.stats()["verified"] == 0
    list(dataset.batches(size=5))
    assert dataset.stats()["verified"] == COUNT


def test_off_it_is_not_there(connected: None, files: list[str], share: Callable[[str], None]) -> None:
    dataset = prebake.wrap(files, [load, scale])
    assert dataset._pipeline.client._verifier is None


@pytest.mark.parametrize("text", ["2", "-0.1", "nan", "often"])
def test_a_share_that_is_none_is_ignored_with_one_warning(
    connected: None, files: list[str], share: Callable[[str], None], text: str
) -> None:
    epoch(files, [load, scale])
    share(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            _, counts = epoch(files, [load, scale])
    assert counts["verified"] == 0
    assert said(caught) == [f"PREBAKE_VERIFY={text!r} is ignored: it is a share of the hits, from 0 to 1"]


def test_what_does_not_reproduce_is_quarantined_counted_and_explained(
    connected: None, daemon: PrivateDaemon, files: list[str], share: Callable[[str], None]
) -> None:
    steps = [load, scale]
    got, told = quarantined_by(files, share, steps)
    # The finder has what an uncached job has now, of every item.
    assert np.array_equal(got, uncached(files, steps))
    assert len(told) == 1
    for part in ("R38", "scale", "00.bin", "prebake.random", "tolerance", "prebake verify --clear"):
        assert part in told[0]

    metrics = daemon.metrics()
    assert metrics["prebake_mismatches_total"] == metrics["prebake_quarantined"] == 1
    found = status(daemon)
    (quarantined,) = found["quarantined"]
    assert quarantined["operator"].endswith("scale") and quarantined["item"] == "00.bin"
    assert quarantined["location"].startswith("test_verify.py:")
    (row,) = [c for c in found["collections"] if c["quarantined"]]
    assert (row["entries"], row["mismatches"]) == (0, 1)
    assert row["verify_cpu_seconds"] > 0
    assert "quarantine" in cli(daemon, "status").stdout
    for target in ([], [quarantined["subgraph_digest"][:8]], [quarantined["location"]]):
        explained = cli(daemon, "explain", *target)
        assert "R38" in explained.stdout and "did not reproduce" in explained.stdout, explained.stdout


def test_a_quarantine_holds_across_restarts_until_it_is_cleared(
    connected: None,
    daemon: PrivateDaemon,
    files: list[str],
    share: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = [load, scale]
    quarantined_by(files, share, steps)
    for end in (None, daemon.stop, daemon.kill):
        if end is not None:
            end()
            daemon.start()
        reconnect(monkeypatch)
        found, words = told(lambda: [epoch(files, steps) for _ in range(2)])
        for got, counts in found:
            assert np.array_equal(got, uncached(files, steps))
            assert not counts.get("reused") and not counts.get("computed")
        (word,) = words
        assert "R38" in word and "scale" in word
    digest = status(daemon)["quarantined"][0]["subgraph_digest"]

    assert cli(daemon, "verify", "--clear", "ffff" * 4).returncode == 1
    refused = cli(daemon, "verify", "--clear", "no")
    assert refused.returncode == 2 and "digest" in refused.stderr
    assert status(daemon)["quarantined"]
    cleared = cli(daemon, "verify", "--clear", digest[:16])
    assert cleared.returncode == 0 and digest in cleared.stdout
    assert not status(daemon)["quarantined"]
    for computed in (COUNT, 0):
        reconnect(monkeypatch)
        got, counts = epoch(files, steps)
        assert np.array_equal(got, uncached(files, steps))
        assert counts["computed"] == computed
    daemon.stop()
    daemon.start()
    reconnect(monkeypatch)
    assert epoch(files, steps)[1]["reused"] == COUNT


def test_downstream_is_quarantined_too_and_upstream_is_not(
    connected: None,
    files: list[str],
    share: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    upstream, downstream = [load], [load, scale, double]
    epoch(files, upstream)
    epoch(files, downstream)
    quarantined_by(files, share, [load, scale])
    reconnect(monkeypatch)
    assert epoch(files, upstream)[1]["reused"] == COUNT
    (got, counts), words = told(lambda: epoch(files, downstream))
    assert re.search("R38.*scale", "\n".join(words)), words
    assert np.array_equal(got, uncached(files, downstream))
    assert not counts.get("reused")
    # One that was never seen before, too.
    got, counts = epoch(files, [load, scale, double, double])
    assert np.array_equal(got, uncached(files, [load, scale, double, double]))
    assert not counts.get("computed")


def test_the_step_that_differs_from_run_to_run_is_named(
    connected: None, daemon: PrivateDaemon, files: list[str], share: Callable[[str], None]
) -> None:
    steps = [load, scale, double]
    epoch(files, steps)
    calls = iter(range(1, 1000))
    hidden.on_load = lambda path: setattr(hidden, "factor", float(next(calls)))
    share("1")
    with pytest.warns(prebake.PrebakeWarning, match="R38.*scale.*between two runs"):
        epoch(files, steps)
    (quarantined,) = status(daemon)["quarantined"]
    assert quarantined["operator"].endswith("scale")
    assert quarantined["pipeline"].endswith("scale")


def test_within_the_tolerance_of_its_mark_nothing_is_quarantined(
    connected: None, daemon: PrivateDaemon, files: list[str], share: Callable[[str], None]
) -> None:
    for steps in ([load, embed], [load, embed, double], [load, functools.partial(embed)]):
        hidden.factor = 1.0
        share("0")
        first, _ = epoch(files, steps)
        share("1")
        hidden.factor = 1.0 + 1e-7
        again, counts = epoch(files, steps)
        assert counts["verified"] == COUNT
        assert np.array_equal(first, again), "what is served is what is stored"
    assert not status(daemon)["quarantined"]
    hidden.factor = 1.0 + 1e-3
    (got, _), words = told(lambda: epoch(files, [load, embed]))
    assert re.search("R38.*embed.*more than the tolerance", "\n".join(words)), words
    assert np.array_equal(got, uncached(files, [load, embed]))


def test_without_a_mark_the_last_bit_counts(
    connected: None, files: list[str], share: Callable[[str], None]
) -> None:
    epoch(files, [load, scale])
    share("1")
    hidden.factor = 1.0 + 2.0**-52
    _, words = told(lambda: epoch(files, [load, scale]))
    assert re.search("R38.*scale.*bytes differ", "\n".join(words)), words


def test_an_input_that_changes_meanwhile_quarantines_nothing(
    connected: None, daemon: PrivateDaemon, files: list[str], share: Callable[[str], None]
) -> None:
    epoch(files, [load, scale])
    share("1")

    def edit(path: str) -> None:
        hidden.on_load = lambda path: None
        np.full(8, 7.0).tofile(path)

    hidden.on_load = edit
    got, counts = epoch(files, [load, scale])
    assert np.array_equal(got, uncached(files, [load, scale]))
    assert counts["verified"] == COUNT - 1
    assert not status(daemon)["quarantined"]


def test_a_step_that_fails_while_verifying_quarantines_nothing(
    connected: None, daemon: PrivateDaemon, files: list[str], share: Callable[[str], None]
) -> None:
    first, _ = epoch(files, [load, scale])
    share("1")

    def fail(path: str) -> None:
        random.random()
        raise MemoryError("no memory now")

    hidden.on_load = fail
    random.seed(5)
    before = random.getstate()
    (again, counts), words = told(lambda: epoch(files, [load, scale]))
    assert re.search("not verified.*MemoryError", "\n".join(words)), words
    assert np.array_equal(first, again)
    assert (counts["reused"], counts["verified"]) == (COUNT, 0)
    assert random.getstate() == before
    assert not status(daemon)["quarantined"]


def test_a_step_that_is_seen_to_draw_runs_in_the_job_as_without_a_cache(
    connected: None, daemon: PrivateDaemon, files: list[str], share: Callable[[str], None]
) -> None:
    epoch(files, [load, scale])
    share("1")
    hidden.on_load = lambda path: setattr(hidden, "factor", random.random())
    random.seed(5)
    expected = uncached(files, [load, scale])
    after = random.getstate()
    random.seed(5)
    (got, _), words = told(lambda: epoch(files, [load, scale]))
    assert re.search("R38.*draws from random", "\n".join(words)), words
    assert np.array_equal(got, expected)
    assert random.getstate() == after
    assert status(daemon)["quarantined"]


def test_another_job_is_served_nothing_more(
    connected: None, daemon: PrivateDaemon, files: list[str], script: Run, share: Callable[[str], None]
) -> None:
    job = """
import os, sys, types
import numpy as np
import prebake

world = types.ModuleType("hidden_world")
world.factor = float(os.environ["PREBAKE_TEST_FACTOR"])
world.on_load = lambda path: None
sys.modules["hidden_world"] = world
import shared
dataset = prebake.wrap(sys.argv[1:] or os.environ["FILES"].split(":"), [shared.load, shared.scale])
total = sum(float(batch.sum()) if hasattr(batch, "sum") else sum(float(e.sum()) for e in batch)
            for batch in dataset.batches(size=5))
if os.environ.get("WAIT"):
    print("read", flush=True)
    sys.stdin.readline()
    world.factor = 3.0
    total = sum(float(np.sum(batch)) for batch in dataset.batches(size=5))
print(total)
"""
    shared = """
import sys
import numpy as np
import prebake

@prebake.pure
def load(path):
    return np.fromfile(path, np.float64)

@prebake.pure
def scale(numbers):
    return numbers * sys.modules["hidden_world"].factor
"""
    environment = {
        "PREBAKE_DIR": str(daemon.folder / "cache"),
        "FILES": ":".join(files),
        "PREBAKE_TEST_FACTOR": "1",
    }
    once = script(job, environment=environment, shared=shared)
    folder = Path(files[0]).parents[1] / "job"
    other = subprocess.Popen(
        [sys.executable, "main.py"],
        cwd=folder,
        env={**os.environ, **environment, "WAIT": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert other.stdin is not None and other.stdout is not None
    try:
        assert other.stdout.readline() == "read\n"
        # It has every element mapped by now.
        verified = {"PREBAKE_DIR": str(daemon.folder / "cache"), **environment, "PREBAKE_TEST_FACTOR": "3"}
        done = cli(
            daemon, "verify", "--", sys.executable, "main.py", cwd=folder, env={**os.environ, **verified}
        )
        assert done.returncode == 1, done.stderr
        assert "did not reproduce" in done.stderr and "scale" in done.stderr
        assert float(done.stdout) == pytest.approx(3 * float(once))
        out, err = other.communicate("\n", timeout=60)
        assert other.returncode == 0, err
        assert float(out) == pytest.approx(3 * float(once))
        assert err.count("R38") == 1
    finally:
        other.kill()
        other.wait()


def test_the_command_counts_and_the_jobs_own_code_wins(
    daemon: PrivateDaemon, files: list[str], tmp_path: Path
) -> None:
    job = tmp_path / "train.py"
    job.write_text(
        "import sys\nimport numpy as np\nimport prebake\n\n\n"
        "def load(path):\n    return np.fromfile(path, np.float64)\n\n\n"
        "for _ in prebake.wrap(sys.argv[2:], [load]).batches():\n    pass\n"
        "sys.exit(int(sys.argv[1]))\n"
    )
    run = [sys.executable, str(job)]
    cold = cli(daemon, "verify", "--", *run, "0", *files)
    assert cold.returncode == 0 and "0 hits verified" in cold.stderr, cold.stderr
    warm = cli(daemon, "verify", "--", *run, "0", *files)
    assert warm.returncode == 0
    assert f"{COUNT} hits verified, 0 did not reproduce" in warm.stderr
    failed = cli(daemon, "verify", "--", *run, "7", *files)
    assert failed.returncode == 7
    assert f"{COUNT} hits verified" in failed.stderr
    for wrong in ("2", "x"):
        assert cli(daemon, "verify", "--share", wrong, "--", *run).returncode == 2


def _read_some(files: list[str], places: list[int], out: Any) -> None:
    dataset = prebake.wrap(files, [load, scale])
    values_of = [dataset[i].tolist() for i in places]
    out.put((values_of, dataset.stats()["verified"]))


def test_forked_workers_verify_each_on_their_own(
    connected: None, daemon: PrivateDaemon, files: list[str], share: Callable[[str], None]
) -> None:
    expected, _ = epoch(files, [load, scale])
    share("1")
    fork = multiprocessing.get_context("fork")
    out: Any = fork.Queue()
    halves = [list(range(0, COUNT, 2)), list(range(1, COUNT, 2))]
    workers = [fork.Process(target=_read_some, args=(files, half, out)) for half in halves]
    for worker in workers:
        worker.start()
    answers = [out.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
    assert sorted(verified for _, verified in answers) == [COUNT // 2] * 2
    got = sorted(value for values_of, _ in answers for value in values_of)
    assert got == sorted(value.tolist() for value in expected)
    assert not status(daemon)["quarantined"]


def test_a_cached_function_is_verified_and_quarantined(
    connected: None, daemon: PrivateDaemon, share: Callable[[str], None], recwarn: pytest.WarningsRecorder
) -> None:
    @prebake.pure
    def total(n: int) -> float:
        return n * float(sys.modules["hidden_world"].factor)

    cached = prebake.cached(total)
    assert cached(4) == 4.0
    share("1")
    assert cached(4) == 4.0
    hidden.factor = 2.0
    # Not in a `with` statement, which would be another world.
    assert cached(4) == 8.0
    told = str(recwarn.pop(prebake.PrebakeWarning).message)
    assert "R38" in told and "total" in told
    assert cached(4) == 8.0
    assert len(status(daemon)["quarantined"]) == 1


@dataclasses.dataclass
class Vector:
    numbers: Any
    label: int


def test_differences_are_told_apart() -> None:
    def apart(a: Any, b: Any, tolerance: float | None = None) -> str | None:
        return verify.difference(values.encode(a), values.encode(b), tolerance)

    near = np.array([1.0, -2.0, 0.0], np.float32)
    off = near + np.array([0, 1e-6, 1e-6], np.float32)
    nan, other_nan = np.array([1.0, np.nan]), np.array([np.nan, 1.0])
    assert apart(near, near.copy()) is None
    assert apart(near, off) is not None
    assert apart(near, off, 1e-5) is None
    assert apart(near, off, 1e-7) is not None
    assert apart({"a": [near, 1]}, {"a": [off, 1]}, 1e-5) is None
    assert apart({"a": [near, 1]}, {"a": [off, 2]}, 1e-5) is not None
    assert apart(Vector(near, 1), Vector(off, 1), 1e-5) is None
    assert apart(Vector(near, 1), Vector(off, 2), 1e-5) is not None
    assert apart("ab", "ac", 0.5) is not None
    assert apart(np.arange(3), np.arange(3) + 1, 0.9) is not None
    assert apart(nan, nan * 1.0, 1e-5) is None
    assert apart(nan, other_nan, 0.5) is not None
    assert apart(1.0, 1.0 + 1e-9, 1e-6) is None
    assert apart(near, near.astype(np.float64), 0.5) is not None
    assert apart(near, near[:2], 0.5) is not None


@pytest.mark.parametrize("tolerance", [-1, 2, float("nan")])
def test_a_tolerance_out_of_range_is_refused(tolerance: float) -> None:
    with pytest.raises(ValueError, match="tolerance"):
        prebake.pure(scale, tolerance=tolerance)


def test_a_command_is_run_again_and_compared(daemon: PrivateDaemon, tmp_path: Path) -> None:
    (tmp_path / "raw").write_text("same\n")
    command = ["-i", "raw", "-o", "out", "--", "sh", "-c"]
    copy, drift = "mkdir -p out; cat raw > out/made", "mkdir -p out; date +%N > out/made; cat raw"
    made = tmp_path / "out" / "made"
    for script in (copy, drift):
        assert cli(daemon, "run", *command, script, cwd=tmp_path).returncode == 0
        first = made.read_text()
        made.unlink()
        assert "replayed" in cli(daemon, "run", *command, script, cwd=tmp_path).stderr
        assert made.read_text() == first
        # Over what is there, as a replay.
        again = cli(daemon, "run", "--verify", *command, script, cwd=tmp_path)
        if script == copy:
            assert again.returncode == 0 and "verified 1 files" in again.stderr, again.stderr
        else:
            assert again.returncode == 1 and "R38" in again.stderr, again.stderr
            assert "out/made differs" in again.stderr and again.stdout == "same\n"
            assert made.read_text() != first
            made.unlink()
            after = cli(daemon, "run", *command, script, cwd=tmp_path)
            assert after.returncode == 0 and "not cached: R38" in after.stderr
        made.unlink()
        made.parent.rmdir()
    found = status(daemon)["totals"]
    assert (found["verified"], found["mismatches"]) == (2, 1)


def test_a_command_that_fails_or_whose_input_changes_is_not_quarantined(
    daemon: PrivateDaemon, tmp_path: Path
) -> None:
    (tmp_path / "raw").write_text("same\n")
    # What is under HOOK is no input that is looked for: it is named by nobody before it is there.
    script = 'mkdir -p out; cat raw > out/made; date +%N >> out/made; eval "$PREBAKE_HOOK"'
    command = ["run", "--verify", "-i", "raw", "-o", "out", "--", "sh", "-c", script]

    def run(hook: str) -> subprocess.CompletedProcess[str]:
        return cli(daemon, *command, cwd=tmp_path, env={**os.environ, "PREBAKE_HOOK": hook})

    assert run(":").returncode == 0
    failed = run("exit 3")
    assert failed.returncode == 3 and "not verified: it failed" in failed.stderr, failed.stderr
    changed = run("echo other > raw")
    assert changed.returncode == 0 and "an input changed while it ran" in changed.stderr, changed.stderr
    assert not status(daemon)["quarantined"]
