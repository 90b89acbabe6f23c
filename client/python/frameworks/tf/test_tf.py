"""`prebake.tf.cache` against TensorFlow: the same elements, made once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import Node, settle

HELPER = """
import tensorflow as tf

SCALE = 3

def grow(x):
    return x * SCALE

def shrink(x):
    return x // SCALE
"""

MAIN = """
import hashlib, json, os, sys
import numpy as np
import tensorflow as tf
import helper
import prebake.tf

task = json.loads(os.environ["PREBAKE_TEST_TASK"])
files = task.get("files", [])
tf.random.set_seed(task.get("seed", 1))
data = tf.data.Dataset
arrays = np.arange(task.get("rows", 3000) * 16, dtype=np.float32).reshape(-1, 16)


def bytes_of(path, label):
    return tf.io.decode_raw(tf.io.read_file(path), tf.uint8), label, tf.strings.split(path, "/")[-1]


def noisy(x):
    return tf.cast(x, tf.float32) + tf.random.uniform([])


pipelines = {
    "arrays": lambda: data.from_tensor_slices(arrays).map(helper.grow, task.get("parallel")),
    "features": lambda: data.range(3000).map(lambda i: {"i": helper.grow(i), "f": tf.cast(i, tf.bfloat16)}),
    "numpy": lambda: data.range(200).map(lambda i: tf.numpy_function(helper.shrink, [i], tf.int64)),
    "lines": lambda: data.from_tensor_slices(files).interleave(tf.data.TextLineDataset, cycle_length=2).map(
        lambda line: (line, tf.strings.length(line))),
    "cached": lambda: data.range(300).map(helper.grow).cache().batch(7, drop_remainder=True),
    "records": lambda: tf.data.TFRecordDataset(files).prefetch(task.get("prefetch", 1)),
    "files": lambda: data.from_tensor_slices((files, list(range(len(files))))).map(bytes_of),
    "ragged": lambda: data.range(100).map(lambda i: tf.range(i % 7)),
    "batches": lambda: data.range(500).filter(lambda i: i % 3 > 0).batch(8),
    "noisy": lambda: data.range(100).map(noisy),
    "shuffled": lambda: data.range(100).shuffle(10),
    "variable": lambda: data.range(100).map(lambda i, v=tf.Variable(1, dtype=tf.int64): i + v),
    "joined": lambda: data.from_tensor_slices(files).map(lambda p: tf.io.read_file(tf.strings.join([p, ""]))),
    "clock": lambda: data.range(5).map(lambda i: tf.cast(i, tf.float64) * 0 + tf.timestamp() * 0),
    "hasty": lambda: data.range(50).map(helper.grow, num_parallel_calls=2, deterministic=False),
    "generated": lambda: data.from_generator(lambda: iter([1, 2]), tf.int64),
    "endless": lambda: data.range(5).repeat(),
}
above = pipelines[task["pipeline"]]()
ds = above.apply(prebake.tf.cache())
unchanged = ds is above


def digest(ds):
    digest = hashlib.sha256()
    for element in ds:
        for part in tf.nest.flatten(element):
            digest.update(repr((part.dtype, part.shape)).encode() + tf.io.serialize_tensor(part).numpy())
    return digest.hexdigest()


if task["pipeline"] == "endless":
    ds = ds.take(20)
epochs = [digest(ds), digest(ds)]
if task["pipeline"] == "arrays":
    # What follows draws as it would have.
    after = ds.map(lambda x: x + task.get("shift", 0))
    after = after.shuffle(100).map(lambda x: x + tf.random.normal([])).batch(task.get("batch", 10))
    epochs += [digest(after.unbatch()), digest(after.unbatch())]
print(json.dumps({
    "epochs": epochs,
    "spec": repr(ds.element_spec),
    "count": int(ds.cardinality()),
    "unchanged": unchanged,
}))
"""


@pytest.fixture
def jobs(node: Node) -> Node:
    node.write(main=MAIN, helper=HELPER)
    return node


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Text files of different lengths."""
    paths = [tmp_path / f"part{i}.txt" for i in range(150)]
    for i, path in enumerate(paths):
        path.write_text("".join(f"line {k} of {i}\n" for k in range(1 + i % 5)))
        settle(path)
    return [str(path) for path in paths]


def seen(result: dict[str, Any]) -> list[Any]:
    return [result[name] for name in ("epochs", "spec", "count")]


@pytest.mark.parametrize(
    "pipeline", ["arrays", "features", "numpy", "lines", "records", "files", "ragged", "batches", "cached"]
)
def test_what_comes_out_is_what_tensorflow_makes_and_is_made_once(
    jobs: Node, files: list[str], tmp_path: Path, pipeline: str
) -> None:
    if pipeline == "records":
        files = [records(tmp_path / "some.tfrecord")]
    uncached = jobs.run(off=True, pipeline=pipeline, files=files)
    first = jobs.run(pipeline=pipeline, files=files)
    second = jobs.run(pipeline=pipeline, files=files, parallel=2, prefetch=4)
    assert seen(first) == seen(second) == seen(uncached)
    assert first["made"] > 0 and second["made"] == 0 and second["reused"] > 0
    assert uncached["unchanged"] and not first["unchanged"] and "PrebakeWarning" not in first["said"]


def records(path: Path) -> str:
    """A file of records, written as TensorFlow does: length, its checksum, the data, its checksum."""
    import subprocess
    import sys

    script = "import sys, tensorflow as tf\nwith tf.io.TFRecordWriter(sys.argv[1]) as f:\n"
    script += "    for i in range(300): f.write(b'%d' % i * 50)\n"
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, timeout=200, capture_output=True)
    settle(path)
    return str(path)


def test_a_job_of_another_batch_size_and_seed_reuses_everything(jobs: Node) -> None:
    first = jobs.run(pipeline="arrays")
    other = jobs.run(pipeline="arrays", batch=64, seed=2)
    assert other["made"] == 0 and other["epochs"][:2] == first["epochs"][:2]
    assert len({*first["epochs"][2:], *other["epochs"][2:]}) == 4
    assert seen(other) == seen(jobs.run(off=True, pipeline="arrays", batch=64, seed=2))


def test_a_changed_parameter_keeps_what_is_before_it(jobs: Node) -> None:
    first, changed = (jobs.run(pipeline="arrays", shift=shift) for shift in (1, 2))
    assert first["made"] > 0 and changed["made"] == 0 and changed["epochs"] != first["epochs"]
    assert seen(changed) == seen(jobs.run(off=True, pipeline="arrays", shift=2))


@pytest.mark.parametrize(
    ("pipeline", "code"),
    [
        ("noisy", "R20"),
        ("shuffled", "R20"),
        ("clock", "R21"),
        ("joined", "R23"),
        ("variable", "R25"),
        ("endless", "R30"),
        ("generated", "R31"),
        ("hasty", "R33"),
    ],
)
def test_what_cannot_be_known_runs_unchanged(jobs: Node, files: list[str], pipeline: str, code: str) -> None:
    result = jobs.run(pipeline=pipeline, files=files)
    assert result["unchanged"] and result["made"] == 0
    said = [line for line in result["said"].splitlines() if "PrebakeWarning" in line]
    assert len(said) == 1 and code in said[0]
    if pipeline == "shuffled":
        assert result["epochs"][0] != result["epochs"][1]
    if pipeline == "noisy":
        assert jobs.run(pipeline=pipeline, seed=2)["epochs"] != result["epochs"]
    if pipeline != "hasty":
        assert seen(result) == seen(jobs.run(off=True, pipeline=pipeline, files=files))


@pytest.mark.parametrize("pipeline", ["arrays", "numpy"])
def test_an_edited_helper_is_seen(jobs: Node, pipeline: str) -> None:
    first = jobs.run(pipeline=pipeline)
    jobs.write(helper=HELPER.replace("SCALE = 3", "SCALE = 4"))
    edited = jobs.run(pipeline=pipeline)
    # What the edit leaves as it is may be computed again too, once, to be compared.
    assert first["made"] <= edited["made"] <= 2 * first["made"] and edited["epochs"] != first["epochs"]
    assert seen(edited) == seen(jobs.run(off=True, pipeline=pipeline))
    jobs.write(helper="# A comment.\n" + HELPER)
    assert jobs.run(pipeline=pipeline)["made"] == 0


@pytest.mark.parametrize(("pipeline", "made"), [("files", 1), ("lines", None)])
def test_an_edited_file_is_seen(jobs: Node, files: list[str], pipeline: str, made: int | None) -> None:
    first = jobs.run(pipeline=pipeline, files=files)
    Path(files[70]).write_text("edited\n")
    settle(Path(files[70]))
    edited = jobs.run(pipeline=pipeline, files=files)
    # Files that are elements are looked at one by one; lines of many files follow from all of them.
    assert 0 < edited["made"] == (first["made"] if made is None else made)
    assert seen(edited) == seen(jobs.run(off=True, pipeline=pipeline, files=files))


def test_rows_appended_recompute_only_the_tail(jobs: Node) -> None:
    first = jobs.run(pipeline="arrays", rows=3000)
    grown = jobs.run(pipeline="arrays", rows=4000)
    assert (first["made"], grown["made"]) == (3, 2)
    assert seen(grown) == seen(jobs.run(off=True, pipeline="arrays", rows=4000))


def test_without_a_daemon_the_pipeline_is_as_it_was(jobs: Node) -> None:
    jobs.daemon.stop()
    result = jobs.finish(jobs.start(pipeline="arrays"))
    assert result["unchanged"] and "computing locally" in result["said"]


def test_the_example_in_its_documentation_runs(node: Node) -> None:
    node.example("tf.cache")
