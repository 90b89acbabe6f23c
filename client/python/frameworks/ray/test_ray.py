"""`map_batches(prebake.cached(function))` in Ray Data's workers: the same rows, each batch computed once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import Node

HELPER = """
SCALE = 3

def grow(x):
    return x.astype("float32") * SCALE
"""

MAIN = """
import hashlib, json, os, random, shutil, sys, tempfile
import numpy as np
import ray
import helper
import prebake

task = json.loads(os.environ["PREBAKE_TEST_TASK"])


def features(batch, more=0):
    n = batch["id"]
    return {"id": n, "x": helper.grow(n[:, None] + np.arange(8)) + more, "odd": n % 2 > 0}


def noisy(batch):
    return {"id": batch["id"], "noise": np.array([random.random() for _ in batch["id"]])}


def shaken(batch):
    return {"id": batch["id"], "noise": np.random.rand(len(batch["id"]))}


def widened(batch, more):
    return {**batch, "wide": batch["id"] + more}


def in_place(batch):
    batch["id"] = batch["id"] + 1
    return batch


def of_pandas(frame):
    return frame.assign(name=frame["id"].map(lambda i: f"row {i}"))


def of_arrow(table):
    return table.append_column("twice", [[2 * i.as_py() for i in table["id"]]])


class Model:
    def __init__(self, factor):
        self.factor = factor

    @prebake.cached
    def __call__(self, batch):
        return {"id": batch["id"], "y": batch["id"] * self.factor}


folder = tempfile.mkdtemp(prefix="ray-")
ray.init(num_cpus=4, include_dashboard=False, object_store_memory=100 << 20, _temp_dir=folder)
try:
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    ds = ray.data.range(task.get("rows", 1000), override_num_blocks=4)
    options = {"batch_size": task.get("batch", 100), **task.get("options", {})}
    epochs = []
    if task["function"] == "Model":
        out = ds.map_batches(Model, fn_constructor_args=[task.get("factor", 2)], **options)
    else:
        out = ds.map_batches(prebake.cached(globals()[task["function"]]), **options)
    if "then" in task:
        out = out.map_batches(prebake.cached(widened), fn_kwargs=task["then"], batch_size=100)
    for epoch in range(2):
        digests = []
        # In the order of a training loop that shuffles.
        rows = out.random_shuffle(seed=epoch + task["order"]) if "order" in task else out
        for row in rows.iter_rows():
            values = [
                (k, str(getattr(v, "dtype", type(v))), np.asarray(v).tolist()) for k, v in sorted(row.items())
            ]
            digests.append(hashlib.sha256(repr(values).encode()).hexdigest())
        epochs.append(digests)
finally:
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)
print(json.dumps({"epochs": epochs}))
"""


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")


@pytest.fixture
def jobs(node: Node) -> Node:
    node.write(main=MAIN, helper=HELPER)
    return node


def test_nothing_but_loopback_can_be_reached_here() -> None:
    # Ray listens on every interface. `loopback.sh` starts these tests.
    devices = Path("/proc/net/dev").read_text().splitlines()[2:]
    carrying = [line.split(":")[0].strip() for line in devices if int(line.split(":")[1].split()[0])]
    routes = Path("/proc/net/route").read_text().splitlines()[1:]
    assert set(carrying) <= {"lo"} and not routes


@pytest.mark.parametrize("function", ["features", "in_place"])
def test_what_comes_out_is_what_ray_makes_and_is_made_once(jobs: Node, function: str) -> None:
    uncached = jobs.run(off=True, function=function)
    first, second = jobs.run(function=function), jobs.run(function=function, options={"concurrency": 1})
    assert first["epochs"] == second["epochs"] == uncached["epochs"] and len(first["epochs"][0]) == 1000
    # Ray kills its workers when it likes: what one was about to store the next job makes, and what it reused
    # last may not be counted. So that nothing is made twice is asked of all jobs together.
    assert first["made"] + second["made"] <= 12 and second["reused"] > second["made"]


def test_a_changed_argument_is_seen(jobs: Node) -> None:
    first = jobs.run(function="features", batch=250)
    changed = jobs.run(function="features", batch=250, options={"fn_kwargs": {"more": 1}})
    assert first["made"] <= 4 and 0 < changed["made"] <= 4 and changed["epochs"] != first["epochs"]


def test_an_edited_helper_is_seen(jobs: Node) -> None:
    first = jobs.run(function="features")
    jobs.write(helper=HELPER.replace("SCALE = 3", "SCALE = 4"))
    edited = jobs.run(function="features")
    assert edited["made"] > 0 and edited["epochs"] != first["epochs"]
    assert edited["epochs"] == jobs.run(off=True, function="features")["epochs"]


def test_a_job_of_another_order_reuses_everything(jobs: Node) -> None:
    first = jobs.run(function="features")
    made = first["made"]
    for order in (1, 5):
        other = jobs.run(function="features", order=order)
        made += other["made"]
        assert sorted(other["epochs"][1]) == sorted(first["epochs"][1])
    assert made <= 12
    assert other["epochs"] == jobs.run(off=True, function="features", order=5)["epochs"]


def test_a_changed_argument_keeps_what_is_before_it(jobs: Node) -> None:
    first, changed = (jobs.run(function="features", then={"more": more}) for more in (1, 2))
    assert first["made"] + changed["made"] <= 3 * 12 and changed["reused"] > 0
    assert changed["epochs"] != first["epochs"]
    assert changed["epochs"] == jobs.run(off=True, function="features", then={"more": 2})["epochs"]


@pytest.mark.parametrize("function", ["noisy", "shaken"])
def test_random_batches_are_never_frozen(jobs: Node, function: str) -> None:
    result = jobs.run(function=function)
    assert result["made"] == 0 and result["epochs"][0] != result["epochs"][1] and "R20" in result["said"]


@pytest.mark.parametrize(
    ("function", "options"),
    [
        ("of_pandas", {"batch_format": "pandas"}),
        ("of_arrow", {"batch_format": "pyarrow"}),
        # Ray puts a pool of threads into the instance, so that it cannot be told what that is.
        ("Model", {"concurrency": 2}),
    ],
)
def test_what_cannot_be_known_or_kept_comes_out_the_same(
    jobs: Node, function: str, options: dict[str, Any]
) -> None:
    uncached, result = (jobs.run(off=off, function=function, options=options) for off in (True, False))
    assert result["epochs"] == uncached["epochs"] and "Traceback" not in result["said"]


def test_without_a_daemon_ray_does_it(jobs: Node) -> None:
    uncached = jobs.run(off=True, function="features")
    jobs.daemon.stop()
    assert jobs.finish(jobs.start(function="features"))["epochs"] == uncached["epochs"]
