"""`prebake.wds.cached` against webdataset: the same samples, made once."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Node, settle
from PIL import Image

HELPER = """
import numpy as np

FACTOR = 2

def shrink(image):
    return np.ascontiguousarray(image[::FACTOR, ::FACTOR])
"""

MAIN = """
import hashlib, json, os, pickle, random, sys
import webdataset as wds
import helper
import prebake.wds

task = json.loads(os.environ["PREBAKE_TEST_TASK"])


def smaller(sample):
    return {**sample, "png": helper.shrink(sample["png"])}


def odd(sample):
    return sample["cls"] % 2 > 0


def noisy(sample):
    return {**sample, "noise": random.random()}


def base(**options):
    return wds.WebDataset(task["urls"], shardshuffle=task.get("shardshuffle", False), seed=3, **options)


cached = prebake.wds.cached
pipelines = {
    "dicts": lambda: base().decode("rgb8").map(smaller).compose(cached()),
    "late": lambda: base().decode("rgb8").compose(cached()).map(smaller),
    "tuples": lambda: base().decode("pil").select(odd).to_tuple("png", "cls", "__key__").compose(cached()),
    "given": lambda: base().compose(cached(wds.decode("rgb8"), wds.map(smaller), wds.to_tuple("png", "cls"))),
    "files": lambda: base(select_files=helper_select).compose(cached()),
    "stages": lambda: wds.DataPipeline(
        wds.SimpleShardList(task["urls"]), wds.tarfile_to_samples(), wds.decode("rgb8"), cached()),
    "noisy": lambda: base().decode("rgb8").map(noisy).compose(cached()),
    "shuffled": lambda: base().shuffle(10, seed=1).decode("rgb8").compose(cached()),
    "tolerant": lambda: base(handler=wds.ignore_and_continue).compose(cached()),
}


def helper_select(name):
    return name.endswith("cls")


random.seed(task.get("seed", 1))
ds = pipelines[task["pipeline"]]()
if "shuffle" in task:
    ds = ds.shuffle(task["shuffle"], seed=7)
if "batch" in task:
    ds = ds.batched(task["batch"], collation_fn=None).unlisted()
epochs = []
for _ in range(2):
    epochs.append([])
    for sample in ds:
        if len(epochs[-1]) == task.get("edit_after") and os.path.exists(task["edit"]):
            os.rename(task["edit"], task["urls"][0])
        parts = sorted(sample.items()) if isinstance(sample, dict) else sample
        made = [(type(part).__name__, getattr(part, "tobytes", lambda part=part: part)()) for part in parts]
        epochs[-1].append(hashlib.sha256(repr(made).encode()).hexdigest())
print(json.dumps({"epochs": epochs, "after": random.random()}))
"""


def write_shard(path: Path, first: int, count: int) -> None:
    """A shard of small pictures and their classes."""
    with tarfile.open(path, "w") as tar:
        for i in range(first, first + count):
            picture = io.BytesIO()
            pixels = np.random.default_rng(i).integers(0, 256, (12, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(picture, "png")
            for suffix, content in (("png", picture.getvalue()), ("cls", str(i % 10).encode())):
                info = tarfile.TarInfo(f"{i:05}.{suffix}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    settle(path)


@pytest.fixture
def urls(tmp_path: Path) -> list[str]:
    """Four shards, of which one ends with an entry and one holds nothing."""
    paths = [tmp_path / f"shard{i}.tar" for i in range(4)]
    for i, (path, count) in enumerate(zip(paths, (40, 32, 0, 21), strict=True)):
        write_shard(path, 100 * i, count)
    return [str(path) for path in paths]


@pytest.fixture
def jobs(node: Node) -> Node:
    node.write(main=MAIN, helper=HELPER)
    return node


def seen(result: dict[str, Any]) -> list[Any]:
    return [result[name] for name in ("epochs", "after")]


@pytest.mark.parametrize("pipeline", ["dicts", "tuples", "given", "files", "stages"])
def test_what_comes_out_is_what_webdataset_makes_and_is_made_once(
    jobs: Node, urls: list[str], pipeline: str
) -> None:
    uncached = jobs.run(off=True, pipeline=pipeline, urls=urls)
    first, second = jobs.run(pipeline=pipeline, urls=urls), jobs.run(pipeline=pipeline, urls=urls)
    assert seen(first) == seen(second) == seen(uncached) and len(first["epochs"][0]) >= 46
    assert first["made"] > 0 and second["made"] == 0 and second["reused"] > first["made"]
    assert not first["said"]


def test_a_job_of_another_order_and_batch_size_reuses_everything(jobs: Node, urls: list[str]) -> None:
    jobs.run(pipeline="dicts", urls=urls)
    for options in ({"shardshuffle": 10}, {"shuffle": 30, "batch": 7}, {"urls": urls[::-1]}):
        task: dict[str, Any] = {"pipeline": "dicts", "urls": urls, **options}
        other = jobs.run(**task)
        assert other["made"] == 0
        assert seen(other) == seen(jobs.run(off=True, **task))


def test_shards_are_known_by_their_content(jobs: Node, urls: list[str], tmp_path: Path) -> None:
    first = jobs.run(pipeline="dicts", urls=urls)
    os.utime(urls[0])
    settle(Path(urls[0]))
    assert jobs.run(pipeline="dicts", urls=urls)["made"] == 0
    write_shard(Path(urls[1]), 500, 32)
    edited = jobs.run(pipeline="dicts", urls=urls)
    # Two whole entries, and the empty one that says that there are no more.
    assert edited["made"] == 3 and edited["epochs"] != first["epochs"]
    write_shard(tmp_path / "more.tar", 900, 5)
    assert jobs.run(pipeline="dicts", urls=[*urls, str(tmp_path / "more.tar")])["made"] == 1


def test_a_shard_replaced_while_it_is_read_is_not_stored_as_the_new_one(
    jobs: Node, urls: list[str], tmp_path: Path
) -> None:
    write_shard(tmp_path / "new.tar", 700, 40)
    jobs.run(pipeline="dicts", urls=urls[:1], edit_after=20, edit=str(tmp_path / "new.tar"))
    after = jobs.run(pipeline="dicts", urls=urls[:1])
    assert seen(after) == seen(jobs.run(off=True, pipeline="dicts", urls=urls[:1]))


def test_an_edited_helper_is_seen(jobs: Node, urls: list[str]) -> None:
    first = jobs.run(pipeline="dicts", urls=urls)
    jobs.write(helper=HELPER.replace("FACTOR = 2", "FACTOR = 4"))
    edited = jobs.run(pipeline="dicts", urls=urls)
    assert edited["made"] == first["made"] and edited["epochs"] != first["epochs"]
    assert seen(edited) == seen(jobs.run(off=True, pipeline="dicts", urls=urls))


def test_a_changed_parameter_keeps_what_is_before_it(jobs: Node, urls: list[str]) -> None:
    first = jobs.run(pipeline="late", urls=urls)
    jobs.write(helper=HELPER.replace("FACTOR = 2", "FACTOR = 4"))
    changed = jobs.run(pipeline="late", urls=urls)
    assert first["made"] > 0 and changed["made"] == 0 and changed["epochs"] != first["epochs"]
    assert seen(changed) == seen(jobs.run(off=True, pipeline="late", urls=urls))


@pytest.mark.parametrize(("pipeline", "code"), [("noisy", "R20"), ("shuffled", "R25"), ("tolerant", "R33")])
def test_what_cannot_be_known_runs_unchanged(jobs: Node, urls: list[str], pipeline: str, code: str) -> None:
    result = jobs.run(pipeline=pipeline, urls=urls)
    assert result["made"] == 0 and code in result["said"] and len(result["said"].splitlines()) == 1
    assert seen(result) == seen(jobs.run(off=True, pipeline=pipeline, urls=urls))
    if pipeline == "noisy":
        assert result["epochs"][0] != result["epochs"][1]
        assert jobs.run(pipeline=pipeline, urls=urls, seed=2)["epochs"] != result["epochs"]


def test_no_shards_are_an_error_as_before(jobs: Node) -> None:
    said = []
    for off in (True, False):
        process = jobs.start(off=off, pipeline="dicts", urls=[])
        said.append(process.communicate(timeout=120)[1].splitlines()[-2:])
        assert process.returncode == 1
    assert said[0] == said[1]


def test_without_a_daemon_webdataset_does_it(jobs: Node, urls: list[str]) -> None:
    uncached = jobs.run(off=True, pipeline="dicts", urls=urls)
    jobs.daemon.stop()
    result = jobs.finish(jobs.start(pipeline="dicts", urls=urls))
    assert seen(result) == seen(uncached) and "computing locally" in result["said"]


def test_the_example_in_its_documentation_runs(node: Node) -> None:
    with tarfile.open(node.folder / "shard.tar", "w") as shard:
        for place, text in enumerate(("Bake once", "serve every job")):
            file = node.folder / f"{place}.txt"
            file.write_text(text)
            shard.add(file, file.name)
    node.example("wds.cached")
