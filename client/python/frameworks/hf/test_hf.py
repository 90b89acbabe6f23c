"""`prebake.hf.map` against `datasets`: the same rows, types and format, computed once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Node, settle

HELPER = """
SCALE = 3

def measure(text):
    return len(text) * SCALE
"""

MAIN = """
import hashlib, json, os, random, sys
import datasets
import numpy
import helper
import prebake.hf
from prebake.frameworks import hf_tables

task = json.loads(os.environ["PREBAKE_TEST_TASK"])
datasets.disable_progress_bars()


def lengths(batch, more=0):
    return {"n": [helper.measure(text) + more for text in batch["text"]]}


def one(row):
    return {"n": helper.measure(row["text"]), "upper": row["text"].upper()}


def packed(batch):
    words = [word for text in batch["text"] for word in text.split()]
    return {"words": [words[i : i + 7] for i in range(0, len(words) // 7 * 7, 7)]}


def numbered(batch, places):
    return {"place": places}


def place(row, i):
    return {"place": i}


def plain(n):
    return {"m": n + 1}


def widened(batch, more):
    return {"wide": [n + more for n in batch["n"]]}


def noisy(row):
    return {"noise": random.random()}


def shaken(row):
    return {"noise": numpy.random.rand()}


def counted(batch, calls=[]):
    calls.append(len(batch["n"]))
    return {"call": [len(calls)] * len(batch["n"])}


def broken(batch):
    raise KeyError("the user's own")


rows = task.get("rows", 4500)
ds = datasets.Dataset.from_dict(
    {"text": [f"row {i} " * (i % 17 + 1) for i in range(rows)], "n": list(range(rows))}
)
if task.get("select"):
    ds = ds.shuffle(seed=5).select(range(3000)).with_format("numpy", columns=["n"])
if task.get("from_disk"):
    ds.save_to_disk(task["from_disk"])
    ds = datasets.load_from_disk(task["from_disk"])
if "seed" in task:
    random.seed(task["seed"])
    numpy.random.seed(task["seed"])
kwargs = task.get("map", {})
hf_tables.MAPPED_BYTES_MAX = task.get("mapped", hf_tables.MAPPED_BYTES_MAX)
class Said:
    gathered = 0

    def __call__(self, rows):
        for n in rows["n"] if kwargs.get("batched") else [rows["n"]]:
            self.gathered += 1
            # In one piece, as other processes print too.
            print(f"row {n}\\n", end="", flush=True)


said = Said()
if task["function"] == "said":
    out = prebake.hf.map(ds, said, **kwargs)
    assert kwargs.get("num_proc") or out is ds
else:
    out = prebake.hf.map(ds, globals()[task["function"]], **kwargs)
if "then" in task:
    out = prebake.hf.map(out, widened, batched=True, fn_kwargs=task["then"])
digests = []
for epoch in range(2):
    digest = hashlib.sha256()
    for batch in out.shuffle(seed=epoch + task.get("order", 0)).with_format(None).iter(task.get("batch", 1)):
        digest.update(repr(batch).encode())
    digests.append(digest.hexdigest())
print()
print(json.dumps({
    "digests": digests,
    "types": repr(out.features),
    "format": repr(out.format),
    "rows": len(out),
    "files": len(out.cache_files),
    "first": repr(out[0]),
    "gathered": said.gathered,
    "after": random.random() if "seed" in task else 0,
}))
"""

SAME = ("digests", "types", "format", "rows", "first", "after")


def seen(result: dict[str, Any]) -> list[Any]:
    """What the job can tell of its data set."""
    return [result[name] for name in SAME]


@pytest.fixture
def jobs(node: Node) -> Node:
    node.write(main=MAIN, helper=HELPER)
    return node


CALLS: list[dict[str, Any]] = [
    {"function": "lengths", "map": {"batched": True}},
    {"function": "lengths", "map": {"batched": True, "fn_kwargs": {"more": 2}, "remove_columns": ["text"]}},
    {"function": "lengths", "map": {"batched": True, "batch_size": 700, "drop_last_batch": True}},
    {"function": "lengths", "map": {"batched": True, "batch_size": None}},
    {"function": "one"},
    {"function": "one", "map": {"num_proc": 2}},
    {"function": "packed", "map": {"batched": True, "remove_columns": ["text", "n"]}},
    {"function": "packed", "map": {"batched": True, "num_proc": 2, "remove_columns": ["text", "n"]}},
    {"function": "numbered", "map": {"batched": True, "with_indices": True}},
    {"function": "place", "map": {"with_indices": True, "num_proc": 2}},
    {"function": "plain", "map": {"input_columns": "n"}, "select": True},
    {"function": "place", "map": {"input_columns": ["n"], "remove_columns": "text", "with_indices": True}},
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call['function']} {call.get('map', '')}")
def test_what_comes_out_is_what_datasets_makes_and_is_made_once(jobs: Node, call: dict[str, Any]) -> None:
    uncached = jobs.run(off=True, **call)
    first, second = jobs.run(**call), jobs.run(**call)
    assert seen(first) == seen(second) == seen(uncached)
    assert first["made"] > 0 and second["made"] == 0 and second["reused"] >= first["made"]
    assert not first["said"] and not second["said"]


def test_rows_that_lie_in_files_are_made_once(jobs: Node, tmp_path: Path) -> None:
    call: dict[str, Any] = {"function": "lengths", "map": {"batched": True}}
    first, second = (jobs.run(**call, from_disk=str(tmp_path / name)) for name in ("first", "second"))
    assert seen(first) == seen(second) == seen(jobs.run(off=True, **call))
    assert first["made"] > 0 and second["made"] == 0 and "not cached" not in first["said"]


def test_how_the_work_is_done_is_no_part_of_it(jobs: Node, tmp_path: Path) -> None:
    first = jobs.run(function="one")
    again = jobs.run(function="one", map={"num_proc": 2, "desc": "rows"}, from_disk=str(tmp_path / "saved"))
    assert again["digests"] == first["digests"] and again["made"] == 0
    first = jobs.run(function="lengths", map={"batched": True})
    again = jobs.run(
        function="lengths", map={"batched": True, "writer_batch_size": 10, "keep_in_memory": True}
    )
    assert seen(again) == seen(first) and again["made"] == 0


@pytest.mark.parametrize("function", ["lengths", "packed"])
def test_rows_appended_recompute_only_the_tail(jobs: Node, function: str) -> None:
    options = (
        {"batched": True, "remove_columns": ["text", "n"]} if function == "packed" else {"batched": True}
    )
    first = jobs.run(function=function, map=options, rows=6000)
    grown = jobs.run(function=function, map=options, rows=7000)
    assert first["made"] >= 5 and 1 <= grown["made"] <= 2
    assert seen(grown) == seen(jobs.run(off=True, function=function, map=options, rows=7000))


def test_an_edited_helper_is_seen(jobs: Node) -> None:
    call: dict[str, Any] = {"function": "lengths", "map": {"batched": True}}
    first = jobs.run(**call)
    for old, new in (("SCALE = 3", "SCALE = 4"), ("len(text) * SCALE", "len(text) + SCALE")):
        jobs.write(helper=HELPER.replace(old, new))
        edited = jobs.run(**call)
        assert edited["made"] == first["made"] and edited["digests"] != first["digests"]
        assert seen(edited) == seen(jobs.run(off=True, **call))
    jobs.write(helper="# A comment moves every line.\n" + HELPER)
    assert jobs.run(**call)["made"] == 0


def test_a_changed_argument_is_seen(jobs: Node) -> None:
    call: dict[str, Any] = {"function": "lengths", "map": {"batched": True}}
    first = jobs.run(**call)
    changed = jobs.run(function="lengths", map={"batched": True, "fn_kwargs": {"more": 1}})
    assert changed["made"] == first["made"] and changed["digests"] != first["digests"]
    assert jobs.run(**call)["made"] == 0


def test_a_job_of_another_order_and_batch_size_reuses_everything(jobs: Node) -> None:
    first = jobs.run(function="one")
    for options in ({"order": 7}, {"order": 9, "batch": 32}, {"batch": 5, "map": {"num_proc": 2}}):
        other = jobs.run(function="one", **options)
        assert other["made"] == 0 and other["digests"] != first["digests"]
        assert seen(other) == seen(jobs.run(off=True, function="one", **options))


def test_a_changed_argument_keeps_what_is_before_it(jobs: Node) -> None:
    first, changed = (jobs.run(function="one", then={"more": more}) for more in (1, 2))
    assert first["made"] == 2 * changed["made"] > 0 and changed["digests"] != first["digests"]
    assert seen(changed) == seen(jobs.run(off=True, function="one", then={"more": 2}))


@pytest.mark.parametrize("function", ["noisy", "shaken"])
def test_random_rows_are_never_frozen(jobs: Node, function: str) -> None:
    results = [jobs.run(function=function, seed=seed) for seed in (1, 2, 1)]
    assert results[0]["digests"] != results[1]["digests"]
    for seed, result in zip((1, 2, 1), results, strict=True):
        assert seen(result) == seen(jobs.run(off=True, function=function, seed=seed))
        assert result["made"] == 0 and len(result["said"].splitlines()) == 1 and "R20" in result["said"]


def test_what_changes_as_it_runs_is_never_stored(jobs: Node) -> None:
    uncached = jobs.run(off=True, function="counted", map={"batched": True})
    for _ in range(2):
        result = jobs.run(function="counted", map={"batched": True})
        assert seen(result) == seen(uncached) and result["made"] == 0
        assert "change while they run" in result["said"]


def test_a_large_result_does_not_hold_the_daemons_memory(jobs: Node) -> None:
    mapped, filed = (jobs.run(function="one", mapped=size) for size in (1 << 30, 1 << 17))
    assert seen(mapped) == seen(filed) and (mapped["files"], filed["files"]) == (0, 1)


def test_jobs_that_start_together_make_each_chunk_once(jobs: Node) -> None:
    before = jobs.counts()
    processes = [jobs.start(function="one", rows=8000) for _ in range(3)]
    results = [jobs.finish(process) for process in processes]
    assert all(seen(result) == seen(results[0]) for result in results)
    assert jobs.counts()["made"] - before["made"] == 8


@pytest.mark.parametrize(
    "how", [{}, {"num_proc": 2}, {"batched": True}, {"batched": True, "num_proc": 2, "batch_size": 300}]
)
def test_a_function_called_for_what_else_it_does_is_called_once(jobs: Node, how: dict[str, Any]) -> None:
    for off in (True, False, False):
        process = jobs.start(off=off, function="said", rows=2500, map=how)
        out, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        *lines, last = out.split("\n")[:-1]
        assert sorted(filter(None, lines)) == sorted(f"row {i}" for i in range(2500))
        result = json.loads(last)
        assert result["rows"] == 2500
        # Of what it gathers, what it does in the job's own process.
        assert result["gathered"] == (0 if "num_proc" in how else 2500)


def test_an_error_is_the_functions_own(jobs: Node) -> None:
    process = jobs.start(function="broken", map={"batched": True})
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1 and 'KeyError: "the user\'s own"' in said


def test_without_a_daemon_datasets_does_it(jobs: Node) -> None:
    jobs.daemon.stop()
    result = jobs.finish(jobs.start(function="lengths", map={"batched": True, "num_proc": 2}))
    assert result["rows"] == 4500 and "computing locally" in result["said"]


PICTURES = """
import hashlib, json, os, sys
import datasets
import prebake.hf

datasets.disable_progress_bars()
files = json.loads(os.environ["PREBAKE_TEST_TASK"])["files"]
ds = datasets.Dataset.from_dict({"image": files}).cast_column("image", datasets.Image())
out = prebake.hf.map(ds, lambda row: {"mean": sum(row["image"].tobytes())}, remove_columns="image")
print(json.dumps({"means": out["mean"][:]}))
"""


def test_an_edited_picture_behind_a_row_is_seen(node: Node, tmp_path: Path) -> None:
    from PIL import Image

    files = [tmp_path / f"{i}.png" for i in range(3)]
    for i, file in enumerate(files):
        Image.new("L", (8, 8), i).save(file)
        settle(file)
    node.write(main=PICTURES)
    names = [str(file) for file in files]
    assert node.run(files=names)["means"] == [0, 64, 128]
    assert node.run(files=names)["made"] == 0
    Image.new("L", (8, 8), 9).save(files[1])
    settle(files[1])
    edited = node.run(files=names)
    assert edited["means"] == [0, 576, 128] and edited["made"] == 1


WITHIN = """
import contextlib, json, sys
import datasets
import prebake.hf

datasets.disable_progress_bars()

@contextlib.contextmanager
def interval(seconds):
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    yield
    sys.setswitchinterval(before)

def now(row):
    return {"now": round(sys.getswitchinterval(), 4)}

ds = datasets.Dataset.from_dict({"i": [0, 1, 2]})
found = [prebake.hf.map(ds, now)["now"][:]]
with interval(0.1):
    found.append(prebake.hf.map(ds, now)["now"][:])
print(json.dumps({"found": found}))
"""


def test_what_is_set_for_a_while_counts_inside(node: Node) -> None:
    node.write(main=WITHIN)
    for _ in range(2):
        assert node.run()["found"] == [[0.005] * 3, [0.1] * 3]


def test_the_example_in_its_documentation_runs(node: Node) -> None:
    node.example("hf.map")
