"""A cached output is an Arrow file that other programs open, with no code of Prebake's."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Jobs, settle
from PIL import Image

# Only the environment for development has these two; the one for torch repeats the rest of the suite.
pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
pl = pytest.importorskip("polars")


def stored(jobs: Jobs) -> Path:
    """The segment file of what the whole pipeline made."""
    jobs.daemon.stop()
    files = (jobs.daemon.folder / "cache" / "segments").glob("*.arrow")
    said = {file: pa.ipc.open_file(file).metadata[b"prebake.pipeline"] for file in files}
    # Where decoding takes most of the time, what it made lies in a file of its own; so does what is kept of
    # sources.
    return max((file for file in said if b"sources" not in said[file]), key=lambda file: len(said[file]))


def made(path: str, size: int) -> Any:
    """What `job.py` makes of an image."""
    return np.asarray(Image.open(path).convert("RGB").resize((size, size)))


def test_arrays_of_one_shape_are_a_tensor_column(jobs: Jobs, images: list[str]) -> None:
    jobs.run(images, size=32, shuffle=1)
    file = stored(jobs)
    expected = {os.path.basename(path): made(path, 32) for path in images}

    with pa.memory_map(str(file)) as source:
        table = pa.ipc.open_file(source).read_all()
        table.validate(full=True)
        assert table.column_names == ["value", "input", "name", "layout", "cpu_ns", "io_ns"]
        assert table.schema.field("value").type == pa.fixed_shape_tensor(pa.uint8(), [32, 32, 3])
        assert len(set(table["input"].to_pylist())) == len(images)
        assert pc.min(table["cpu_ns"]).as_py() > 0
        values = table["value"].combine_chunks().to_numpy_ndarray()
        found = dict(zip(table["name"].to_pylist(), values, strict=True))
        compare(found, expected)

    frame = pl.read_ipc(file)
    values = frame["value"].to_numpy().reshape(-1, 32, 32, 3)
    compare(dict(zip(frame["name"], values, strict=True)), expected)


def test_ragged_arrays_are_binary(jobs: Jobs, images: list[str]) -> None:
    root = os.path.dirname(images[0])
    for i, size in enumerate((16, 24)):
        for path in images[i::2]:
            Image.open(path).resize((size, 8)).save(path, quality=90)
            settle(Path(path))
    # The graph is one, the shapes are two: the first step alone is cached, since what follows is random.
    jobs.run(images, flip=1, root=root)
    file = stored(jobs)
    expected = {os.path.basename(path): np.asarray(Image.open(path).convert("RGB")) for path in images}

    with pa.memory_map(str(file)) as source:
        table = pa.ipc.open_file(source).read_all()
        table.validate(full=True)
        assert table.schema.field("value").type == pa.large_binary()
        compare(decoded(table.to_pylist()), expected)
    compare(decoded(pl.read_ipc(file).to_dicts()), expected)


def test_the_footer_says_whose_and_what_it_is(jobs: Jobs, images: list[str]) -> None:
    jobs.run(images)
    with pa.memory_map(str(stored(jobs))) as source:
        said = {key.decode(): value.decode() for key, value in pa.ipc.open_file(source).metadata.items()}
    assert said["prebake.format"] == "6"
    assert said["prebake.pipeline"] == "Decode | Shrink"
    assert said["prebake.domain"] == f"uid:{os.getuid()}"
    assert said["prebake.writer"].startswith("prebaked ")
    summary = json.loads(said["prebake.summary"])
    assert summary["rows"] == len(images) and summary["value_len"] == len(images) * 32 * 32 * 3
    # Digests: of the subgraph, of the rows, of each 16 KiB of values; and the first one's graph.
    chunks = -(-summary["value_len"] // 16384)
    for key, size in (("subgraph", 32), ("rows", 32), ("chunks", 8 * chunks)):
        assert len(bytes.fromhex(said[f"prebake.{key}"])) == size
    assert b"__main__.Decode" in bytes.fromhex(said["prebake.graph"])


def decoded(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Arrays of binary values, by the layout beside them."""
    found = {}
    for row in rows:
        layout = json.loads(row["layout"])
        assert layout["kind"] == "ndarray"
        found[row["name"]] = np.frombuffer(row["value"], layout["dtype"]).reshape(layout["shape"])
    return found


def compare(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
