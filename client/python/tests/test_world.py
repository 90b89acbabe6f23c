"""What no rule foresees: a change around the code is found by computing again what is there."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import installed

import prebake
from prebake.demo.daemon import PrivateDaemon
from prebake.proof.canaries import CANARIES, CANARIES_MAX
from prebake.proof.stream_proof import CANARIES as STREAM_CANARIES
from prebake.proof.stream_proof import Head
from prebake.runtime import programs
from prebake.world import parts, user_modules, world

Run = Callable[..., tuple[Any, int, str]]

DIALECT = """
import csv, io, json, sys
import prebake

csv.register_dialect("mine", delimiter=",")

@prebake.cached
def fields(text):
    sys.stderr.write("called\\n")
    return next(csv.reader(io.StringIO(text), dialect="mine"))

print(json.dumps([fields(f"{i},b;c") for i in range(4)]))
"""

#: What no identity knows of: code names neither the limit nor who sets it.
LIMIT = """
import json, sys
import prebake
import dials

dials.turn(50)

@prebake.cached
def fields(i):
    sys.stderr.write("called\\n")
    return f"{i} {dials.read()}"

print(json.dumps([fields(i) for i in range(4)]))
"""
#: An installed package that keeps what it is set to as compiled code does.
DIALS = """
_held = bytearray(1)

def turn(to):
    memoryview(_held)[0] = to

def read():
    return _held[0]
"""

STEPS = """
import csv, io, json, sys
from pathlib import Path
import prebake
import dialects

@prebake.pure
def note():
    sys.stderr.write("called\\n")

def load(path):
    note()
    return Path(path).read_text()

def parse(text):
    import dialects
    return next(csv.reader(io.StringIO(text), dialect=dialects.NAME))

files = sorted(map(str, Path("texts").glob("*.txt")))
print(json.dumps([element for element in prebake.wrap(files, [load, parse])]))
"""


@pytest.fixture
def run(daemon: PrivateDaemon, tmp_path: Path) -> Run:
    """Runs a script with these arguments in a fresh process: what it prints, how often it called, what it
    said."""

    def run(script: str, *arguments: str, on: bool = True, **variables: str) -> tuple[Any, int, str]:
        (tmp_path / "main.py").write_text(script)
        environment = {
            **os.environ,
            "PREBAKE": "on" if on else "off",
            "PREBAKE_DIR": str(daemon.folder / "cache"),
            "PREBAKE_AUTOSTART": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            **variables,
        }
        done = subprocess.run(
            [sys.executable, "main.py", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        said = "\n".join(line for line in done.stderr.splitlines() if line != "called")
        return json.loads(done.stdout), done.stderr.count("called\n"), said

    return run


def ask(daemon: PrivateDaemon, *command: str) -> str:
    """What the command line says."""
    program = [str(programs.path("prebake")), "--dir", str(daemon.folder / "cache"), *command]
    return subprocess.run(program, capture_output=True, text=True, check=True, timeout=60).stdout


def twice(run: Run, script: str) -> tuple[Any, int, str]:
    """What it gives, once another process has found its function to give the same: the dialect of a script is
    not there where functions are tried beside it."""
    first = run(script)
    assert first[1] == 4 and run(script)[0] == first[0] and run(script)[:2] == (first[0], 0)
    return first


def test_a_setting_of_an_installed_package_splits_what_it_changes(
    run: Run, daemon: PrivateDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", installed(tmp_path, "dials", DIALS))
    first = twice(run, LIMIT)
    edited = LIMIT.replace("50", "60")
    expected = run(edited, on=False)[0]
    got, _, said = run(edited)
    assert got == expected != first[0]
    assert "something outside the identity changes the result" in said and "main.py" in said
    assert [run(edited)[0] for _ in range(3)] == [expected] * 3
    assert run(edited)[:2] == (expected, 0)
    # Those that are as before are served what was there before.
    assert run(LIMIT)[:2] == (first[0], 0)
    variants = [each["variant"] for each in json.loads(ask(daemon, "status", "--json"))["collections"]]
    assert any("main.py" in variant for variant in variants)
    assert "M20" in ask(daemon, "explain")


def test_a_world_that_changes_nothing_is_proven_once(run: Run) -> None:
    first = twice(run, DIALECT)
    got, calls, said = run(DIALECT, "--lr", "0.1")
    assert got == first[0] and CANARIES <= calls <= CANARIES_MAX and said == ""
    assert run(DIALECT, "--lr", "0.1")[0] == first[0]
    assert run(DIALECT, "--lr", "0.1")[:2] == (first[0], 0)


NUMBERED = """
import json, reprlib, sys
from pathlib import Path
import prebake

reprlib.aRepr.maxlist = 3

class Texts:
    def __len__(self):
        return 3

    def __getitem__(self, i):
        sys.stderr.write("called\\n")
        text = Path(f"{i}.txt").read_text()
        return reprlib.repr([text] * 9) if i == 1 else text + "one, two, three"

texts = prebake.wrap(Texts())
print(json.dumps([texts[i] for i in range(len(texts))]))
"""


def test_of_numbered_items_those_nobody_asked_for_yet_are_compared_too(run: Run, tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"{i}.txt").write_text(f"text {i}")
    first, calls, _ = run(NUMBERED)
    # The files were written a moment ago: on a disk of this machine, what is made of them is there at once.
    tries = 1 if os.major(tmp_path.stat().st_dev) else 15
    assert calls == 3 and any(run(NUMBERED)[:2] == (first, 0) for _ in range(tries))
    edited = NUMBERED.replace("maxlist = 3", "maxlist = 5")
    expected = run(edited, on=False)[0]
    assert run(edited)[0] == expected != first


DRAWN = """
import json, sqlite3, sys
import prebake

class Drawn:
    def __len__(self):
        return 9

    def __getitem__(self, i):
        return sqlite3.connect(":memory:").execute("select random()").fetchone()[0] if i == 7 else i

drawn = prebake.wrap(Drawn())
print(json.dumps([drawn[7] for _ in range(4)]))
"""


def test_one_item_that_compiled_code_draws_is_never_given_twice(run: Run) -> None:
    first, _, said = run(DRAWN)
    again, *_ = run(DRAWN)
    assert len({*first, *again}) == 8 and "R33" in said


RARE = """
import json, mimetypes, sys
from pathlib import Path
import prebake

mimetypes.add_type("x/one", ".mine")

def look_up(number):
    sys.stderr.write("called\\n")
    return mimetypes.guess_type("a.mine")[0] if number == 13 else number

def load(path):
    return int(Path(path).stem)

files = sorted(map(str, Path("texts").glob("*.txt")))
looked_up = prebake.cached(look_up)
print(json.dumps(VALUES))
"""


@pytest.mark.parametrize(
    "values", ["[looked_up(i) for i in range(20)]", "list(prebake.wrap(files, [load, look_up]))"]
)
def test_one_of_another_kind_is_compared_too(run: Run, tmp_path: Path, values: str) -> None:
    (tmp_path / "texts").mkdir()
    for i in range(20):
        (tmp_path / "texts" / f"{i:02}.txt").write_text("")
    script = RARE.replace("VALUES", values)
    # The second process tries a function beside the first.
    first = [run(script) for _ in range(3)][0][0]
    assert first == [*range(13), "x/one", *range(14, 20)] and run(script)[:2] == (first, 0)
    edited = script.replace("x/one", "x/two")
    expected = run(edited, on=False)[0]
    assert [run(edited)[0] for _ in range(3)] == [expected] * 3
    assert run(edited)[:2] == (expected, 0) and run(script)[:2] == (first, 0)
    # Where it is equal, it is compared once.
    got, calls, said = run(script, "other")
    assert got == first and calls <= CANARIES_MAX + 2 and said == ""
    assert run(script, "other")[:2] == (first, 0)


def test_an_item_that_is_equal_by_chance_proves_nothing(run: Run) -> None:
    times = DIALECT.replace('csv.register_dialect("mine", delimiter=",")', "class Here: factor = 2")
    times = times.replace("class Here", "import argparse\nargparse.factor = 2\nclass Here")
    times = times.replace(
        'next(csv.reader(io.StringIO(text), dialect="mine"))', "int(text[0]) * getattr(argparse, NAME)"
    ).replace("@prebake.cached", 'NAME = "fac" + "tor"\n@prebake.cached')
    run(times)
    edited = times.replace("argparse.factor = 2", "argparse.factor = 3")
    assert run(edited)[0] == run(edited, on=False)[0] == [0, 3, 6, 9]


def test_a_pipelines_items_are_compared_before_any_is_served(run: Run, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for i in range(12):
        (tmp_path / "texts" / f"{i:02}.txt").write_text(f"{i},b;c")
    module = 'import csv\nNAME = "mine"\ncsv.register_dialect(NAME, delimiter=",")\n'
    (tmp_path / "dialects.py").write_text(module)
    first = run(STEPS)
    assert first[1] == 12 and run(STEPS)[:2] == (first[0], 0)
    # An argument makes another world, and nothing else.
    got, calls, _ = run(STEPS, "other")
    assert got == first[0] and CANARIES <= calls <= CANARIES_MAX
    assert run(STEPS, "other")[:2] == (first[0], 0)
    (tmp_path / "dialects.py").write_text(module.replace('","', '";"'))
    expected = run(STEPS, on=False)[0]
    assert expected != first[0] and run(STEPS)[0] == expected
    assert run(STEPS)[:2] == (expected, 0)


STREAM = """
import json, sys
import prebake

class Numbers:
    def __iter__(self):
        for i in range(COUNT):
            sys.stderr.write("called\\n")
            yield [i, 2 * i]

print(json.dumps(list(prebake.wrap(Numbers()))))
"""


@pytest.mark.parametrize("count", [0, 1, STREAM_CANARIES, STREAM_CANARIES + 3])
def test_a_stream_of_few_elements_is_shared_by_worlds(run: Run, count: int) -> None:
    script = STREAM.replace("COUNT", str(count))
    first = run(script)
    assert run(script)[:2] == (first[0], 0)
    got, calls, said = run(script, "other")
    assert got == first[0] and calls <= count + 1 and said == ""
    assert run(script, "other")[:2] == (first[0], 0)


def test_of_a_stream_as_many_elements_are_compared_as_are_cheap(run: Run) -> None:
    # A setting that no rule knows, of which one late element alone tells.
    rare = STREAM.replace("COUNT", "30").replace(
        "[i, 2 * i]", "[i, sys.get_coroutine_origin_tracking_depth() if i == 20 else i]"
    )
    rare = rare.replace(
        "class Numbers", "sys.set_coroutine_origin_tracking_depth(len(sys.argv))\n\nclass Numbers"
    )
    first = run(rare)
    assert run(rare)[:2] == (first[0], 0)
    assert run(rare, "other")[0] == run(rare, "other", on=False)[0] != first[0]


def test_heads_are_alike_as_far_as_both_are_known() -> None:
    # Every pair of streams of up to three elements out of two, of which any beginning is known.
    streams = [list(each) for n in range(4) for each in itertools.product([1, 2], repeat=n)]
    heads = [
        (stream, Head(stream[:n], n == len(stream) and ended))
        for stream in streams
        for n in range(len(stream) + 1)
        for ended in (False, True)
    ]
    for (one, a), (two, b) in itertools.product(heads, heads):
        if one == two:
            known = a.elements and b.elements or a.ended and b.ended
            # The same stream: unless nothing is known of it.
            assert a.begins_like(b) == bool(known), (a, b)
        elif a.begins_like(b):
            common = min(len(a.elements), len(b.elements))
            assert one[:common] == two[:common] and (common or one == two), (a, b)
            assert not (a.ended and b.ended), (a, b)


def test_worlds_are_kept_across_restarts(run: Run, daemon: PrivateDaemon) -> None:
    first = twice(run, DIALECT)
    for _ in range(3):
        run(DIALECT, "other")
    daemon.stop()
    daemon.start()
    assert run(DIALECT, "other")[:2] == (first[0], 0) and run(DIALECT)[:2] == (first[0], 0)


def test_jobs_of_other_worlds_that_start_cold_share(run: Run, tmp_path: Path) -> None:
    """One proves what it computes against what the other stores, and goes on with it."""
    slow = STEPS.replace("    note()\n", "    note()\n    import time; time.sleep(0.02)\n")
    (tmp_path / "dialects.py").write_text(
        'import csv\nNAME = "mine"\ncsv.register_dialect(NAME, delimiter=",")\n'
    )
    (tmp_path / "texts").mkdir()
    for i in range(100):
        (tmp_path / "texts" / f"{i:03}.txt").write_text(f"{i},b;c")
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as jobs:
        one, other = jobs.map(lambda argument: run(slow, argument), ["one", "other"])
    assert one[0] == other[0] and one[1] + other[1] < 150


def test_a_function_that_is_random_is_not_frozen(run: Run) -> None:
    script = """
import ctypes, json, sys
import prebake

state = ctypes.CDLL(None)
state.srand(7)

@prebake.pure
def draw():
    return state.rand()

@prebake.cached
def noisy(n):
    return [draw() for _ in range(n)]

print(json.dumps([noisy(3) for _ in range(5)]))
"""
    assert run(script)[0] == run(script, on=False)[0]
    assert run(script)[0] == run(script, on=False)[0]


def tried(run: Run, daemon: PrivateDaemon, script: str) -> tuple[Any, int, str]:
    """What a script says once its functions were tried."""
    run(script)
    until = time.monotonic() + 30
    while '"trial"' not in ask(daemon, "status", "--json") and time.monotonic() < until:
        time.sleep(0.1)
    return run(script)


def test_what_a_second_run_finds_is_there_for_the_next_job(run: Run, daemon: PrivateDaemon) -> None:
    script = """
import json, os, sys
import prebake

@prebake.cached
def order(text):
    sys.stderr.write("called\\n")
    return sorted(set(text))

print(json.dumps(order("some words")))
"""
    assert tried(run, daemon, script)[1] == 0


@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_function_that_writes_a_file_is_called_each_time(run: Run, tmp_path: Path, mode: str) -> None:
    script = """
import json, sys
from pathlib import Path
import prebake

@prebake.cached
def prepare(name):
    sys.stderr.write("called\\n")
    with Path(name).open("MODE") as file:
        file.write("made")
    return name

print(json.dumps(prepare("out.txt")))
"""
    for _ in range(3):
        got, calls, said = run(script.replace("MODE", mode))
        assert (got, calls) == ("out.txt", 1) and (tmp_path / "out.txt").read_text() == "made"
        assert "R26" in said
        (tmp_path / "out.txt").unlink()


@pytest.mark.parametrize("capture", ["redirect_stdout", "redirect_stderr"])
def test_what_a_program_captures_of_its_output_is_not_lost(run: Run, capture: str) -> None:
    script = """
import contextlib, io, json, sys
import prebake

@prebake.cached
def check(x):
    print("checked", x, file=sys.STREAM)
    return x

with contextlib.CAPTURE(io.StringIO()) as held:
    check(1)
print(json.dumps(held.getvalue()))
""".replace("CAPTURE", capture).replace("STREAM", capture.removeprefix("redirect_"))
    for _ in range(3):
        assert "checked 1\n" in run(script)[0]


@pytest.mark.parametrize("kept", ["warnings", "logging"])
def test_what_a_program_keeps_of_what_its_code_says_is_not_lost(run: Run, kept: str) -> None:
    script = """
import json, logging, warnings
import prebake

class Rows(logging.Handler):
    def __init__(self):
        super().__init__()
        self.rows = []

    def emit(self, record):
        self.rows.append(record)

handler = Rows()
logging.getLogger("clean").addHandler(handler)

@prebake.cached
def quiet(x):
    return x

@prebake.cached
def check(x):
    if "KEPT" == "logging":
        logging.getLogger("clean").warning("odd")
    else:
        warnings.warn("odd")
    return x

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    quiet(1)
    check(1)
print(json.dumps(len([each for each in caught if "odd" in str(each.message)]) + len(handler.rows)))
""".replace("KEPT", kept)
    for _ in range(3):
        assert run(script)[0] == 1


def test_files_that_compiled_code_writes_are_not_lost(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("polars")
    functions = "".join(
        f"@prebake.cached\ndef save{n}(i):\n"
        f"    polars.DataFrame({{'a': [i]}}).write_ipc(f'out/{n} {{i}}.ipc')\n    return i\n"
        for n in range(4)
    )
    script = f"""
import json, os
import polars
import prebake

{functions}
print(json.dumps([[save(i) for i in range(3)] for save in (save0, save1, save2, save3)]))
"""
    (tmp_path / "out").mkdir()
    for _ in range(4):
        assert run(script)[0] == [[0, 1, 2]] * 4
        made = sorted(path.name for path in (tmp_path / "out").iterdir())
        assert made == [f"{n} {i}.ipc" for n in range(4) for i in range(3)]
        for name in made:
            (tmp_path / "out" / name).unlink()


def test_a_view_of_an_argument_is_not_shared(run: Run) -> None:
    script = """
import json, sys
import numpy as np
import prebake

@prebake.cached
def crop(a):
    return a[1:3]

a = np.arange(5)
view = crop(a)
a[1] = 99
print(json.dumps(view.tolist()))
"""
    assert [run(script)[0] for _ in range(3)] == [[99, 2]] * 3


@pytest.mark.parametrize(
    "function",
    [
        "functools.partial(scale, k=2)",
        "Scale(2)",
        "np.vectorize(lambda x: x * 2)",
    ],
)
def test_what_is_called_need_not_be_a_function(run: Run, function: str) -> None:
    script = f"""
import functools, json, sys
import numpy as np
import prebake

def scale(x, k):
    return x * k

class Scale:
    def __init__(self, k):
        self.k = k
    def __call__(self, x):
        return x * self.k

doubled = prebake.cached({function})
print(json.dumps([int(doubled(3)), int(doubled(3))]))
"""
    assert [run(script)[0] for _ in range(2)] == [[6, 6]] * 2


def test_names_that_are_looked_up_in_the_frame_of_the_caller_count(run: Run) -> None:
    script = """
import json, sys
import pandas as pd
import prebake

LEAST = 1

@prebake.cached
def chosen(n):
    return pd.DataFrame({"a": range(n)}).query("a > @LEAST")["a"].tolist()

print(json.dumps([chosen(n) for n in (1, 2, 4, 5)]))
"""
    pytest.importorskip("pandas")
    run(script)
    edited = script.replace("LEAST = 1", "LEAST = 3")
    assert run(edited)[0] == run(edited, on=False)[0] == [[], [], [], [4]]


def rounded(values: Any) -> Any:
    return np.round(values)


@pytest.mark.parametrize(
    ("name", "counts"), [("NPY_DISABLE_CPU_FEATURES", True), ("NUMPY_SETTING", True), ("POLARS_FMT", False)]
)
def test_a_variable_that_is_called_after_a_package_counts_for_what_uses_it(
    monkeypatch: pytest.MonkeyPatch, name: str, counts: bool
) -> None:
    # Compiled code reads it unseen, and may show it in one item of a thousand.
    before = prebake.fingerprint(rounded)
    monkeypatch.setenv(name, "AVX512F")
    assert (prebake.fingerprint(rounded) != before) is counts


def test_a_world_is_what_surrounds_a_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = world.current()
    assert before is not None and world.current() is before
    monkeypatch.setenv("SOME_SCALE", "2")
    changed = world.current()
    assert changed is not None and changed.digest != before.digest
    assert world.differences(changed, before.described()) == "variable SOME_SCALE (new)"
    monkeypatch.delenv("SOME_SCALE")
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--more"])
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "train.py", raising=False)
    assert "argument" in world.differences(world.current() or before, before.described())
    monkeypatch.undo()
    # Of a terminal, and Prebake's own.
    monkeypatch.setenv("COLUMNS", "77")
    monkeypatch.setenv("PREBAKE_VERIFY", "0")
    again = world.current()
    assert again is not None and again.digest == before.digest
    monkeypatch.chdir(tmp_path)
    assert "working folder" in world.differences(world.current() or before, before.described())
    assert "not known" in world.differences(before, b"")


def test_a_module_in_the_place_of_another_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("one", "two"):
        module = types.ModuleType("placed")
        module.__file__ = str(tmp_path / f"{name}.py")
        monkeypatch.setattr(user_modules, "_temporary", lambda: ("/absent/",))
        monkeypatch.setitem(sys.modules, "placed", module)
        for _ in range(2):
            assert ("placed", module.__file__) in user_modules.own_files()
    user_modules.leave_out(str(tmp_path / "two.py"))
    assert "placed" not in dict(user_modules.own_files())


def test_a_large_folder_is_known_by_its_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(parts, "LISTED_MAX", 2)

    def listed(*names: str) -> str:
        for file in tmp_path.iterdir():
            file.unlink()
        for name in names:
            (tmp_path / name).write_text("")
        os.utime(tmp_path, ns=(next(times), next(times)))
        return parts.listed_digest(str(tmp_path))

    times = itertools.count(10**9)
    assert listed("a", "b") == listed("b", "a") != listed("a", "c")
    assert listed("a", "b", "c") != listed("a", "b", "c")
    assert parts.listed_digest(str(tmp_path)) == parts.listed_digest(str(tmp_path))


def test_a_file_that_is_read_by_its_number_counts(run: Run, tmp_path: Path) -> None:
    script = """
import json, os, sys
import prebake

RECORDS = os.open("records.bin", os.O_RDONLY)

@prebake.cached
def record(i):
    sys.stderr.write("called\\n")
    return os.pread(RECORDS, 4, 4 * i).decode()

print(json.dumps([record(i) for i in range(6)]))
"""
    path = tmp_path / "records.bin"
    path.write_text("aaaabbbbccccddddeeeeffff")
    run(script)
    run(script)
    assert run(script)[1] == 0
    # None of the first two, by which a world is proven.
    path.write_text("aaaabbbbccccddddEEEEffff")
    for _ in range(2):
        assert run(script)[0] == ["aaaa", "bbbb", "cccc", "dddd", "EEEE", "ffff"]


def test_a_file_that_compiled_code_reads_while_a_process_is_set_up_counts(run: Run, tmp_path: Path) -> None:
    # In Arrow's registry of functions nobody can look; Python opens nothing.
    script = """
import json
import prebake
import pyarrow as pa, pyarrow.compute as pc, pyarrow.csv

CAPS = dict(zip(*pyarrow.csv.read_csv("caps.csv").to_pydict().values()))
pc.register_scalar_function(
    lambda context, numbers: pa.array([CAPS[each] for each in numbers.to_pylist()]),
    "capped", {"summary": "", "description": ""}, {"numbers": pa.int64()}, pa.int64(),
)

@prebake.cached
def capped(number):
    return pc.call_function("capped", [pa.array([number])]).to_pylist()

print(json.dumps([capped(number) for number in range(6)]))
"""
    pytest.importorskip("pyarrow")
    caps = tmp_path / "caps.csv"
    rows = [f"{number},{10 * number}" for number in range(6)]
    caps.write_text("\n".join(["number,cap", *rows]))
    for _ in range(2):
        run(script)
    # The last of them: the first calls are equal.
    rows[5] = "5,77"
    caps.write_text("\n".join(["number,cap", *rows]))
    for _ in range(2):
        assert run(script)[0] == [[0], [10], [20], [30], [40], [77]]


def test_what_is_known_of_a_package_is_read_for_no_function(run: Run, daemon: PrivateDaemon) -> None:
    script = """
import json, sys
import numpy as np
import prebake

@prebake.cached
def noise(seed):
    sys.stderr.write("called\\n")
    return np.random.default_rng(seed).random(3).tolist()

print(json.dumps(noise(3)))
"""
    _, calls, said = tried(run, daemon, script)
    assert (calls, said) == (0, "")


def test_a_module_may_be_called_like_a_method(run: Run, daemon: PrivateDaemon, tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text("OF = 'a'\n")
    script = """
import json, sys
import prebake
import count

@prebake.cached
def counted(text):
    sys.stderr.write("called\\n")
    return text.count(count.OF)

print(json.dumps(counted("banana")))
"""
    assert tried(run, daemon, script) == (3, 0, "")
    (tmp_path / "count.py").write_text("OF = 'n'\n")
    assert run(script)[:2] == (2, 1)


def test_when_a_file_was_changed_counts_for_who_asks(run: Run, tmp_path: Path) -> None:
    script = """
import codecs, json, os
import prebake

STAMP = str(int(os.path.getmtime("stamp")))
codecs.register_error("stamped", lambda error: (STAMP, error.end))

@prebake.cached
def plain(text):
    return text.encode("ascii", "stamped").decode()

print(json.dumps(plain("\\xe9")))
"""
    (tmp_path / "stamp").touch()
    for when in (10**9, 10**9 + 5):
        os.utime(tmp_path / "stamp", (when, when))
        for _ in range(2):
            assert run(script)[0] == str(when)
