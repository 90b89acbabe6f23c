"""Token ids take less of the disk, images what they took; both come back as they were, also to Arrow."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import settle

from prebake.demo.daemon import PrivateDaemon
from prebake.runtime import programs

#: A third of the bytes of the token ids.
RAM_BYTES = 48 << 20
COUNT = 300

#: Runs one pipeline over the files, in order or shuffled; prints how many elements are wrong, and the counts.
JOB = """
import hashlib, json, random, sys
from pathlib import Path
import numpy as np
import prebake

def noise(path, size):
    return np.frombuffer(hashlib.shake_128(Path(path).read_bytes()).digest(size), np.uint8)

def image(path):
    return noise(path, 96 * 128 * 3).reshape(96, 128, 3).copy()

def tokens(path):
    return noise(path, 120_000).view(np.uint16).astype(np.int64) % 50_257

def ragged(path):
    return tokens(path)[: 20_000 + 97 * (int(Path(path).stem) % 300)].copy()

kind, shuffled, files = sys.argv[1], sys.argv[2] == "shuffled", sys.stdin.read().splitlines()
steps = {"image": image, "tokens": tokens, "ragged": ragged}
dataset = prebake.wrap(files, [steps[kind]])
order = list(range(len(files)))
if shuffled:
    random.Random(3).shuffle(order)
wrong = done = 0
for batch in dataset.batches(order, 20):
    for place, array in zip(order[done:], batch):
        expected = steps[kind](files[place])
        wrong += array.dtype != expected.dtype or not np.array_equal(array, expected)
    done += len(batch)
print(json.dumps({"wrong": int(wrong), **dataset.stats()}))
"""


class Setting:
    """A folder with inputs and a daemon's cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "job.py").write_text(JOB)
        (folder / "inputs").mkdir()
        self.files = [folder / "inputs" / f"{i}.txt" for i in range(COUNT)]
        for i, path in enumerate(self.files):
            path.write_text(str(i))
            settle(path)

    def daemon(self, ram_bytes: int = RAM_BYTES) -> PrivateDaemon:
        return PrivateDaemon(self.folder, "--ram-bytes", str(ram_bytes))

    def run(self, kind: str, how: str = "in order") -> dict[str, int]:
        environment = {"PREBAKE": "on", "PREBAKE_AUTOSTART": "0", "PREBAKE_DIR": str(self.folder / "cache")}
        done = subprocess.run(
            [sys.executable, str(self.folder / "job.py"), kind, how],
            input="\n".join(map(str, self.files)),
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def status(self, *arguments: str) -> str:
        command = [str(programs.path("prebake")), "--dir", str(self.folder / "cache"), "status", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    def pipeline(self, name: str) -> dict[str, Any]:
        """What `prebake status` says of a pipeline."""
        collections = json.loads(self.status("--json"))["collections"]
        return next(each for each in collections if name in each["pipeline"] and each["entries"])


@pytest.fixture
def setting() -> Iterator[Setting]:
    with tempfile.TemporaryDirectory(prefix="prebake-") as folder:
        yield Setting(Path(folder))


@pytest.mark.parametrize("kind", ["tokens", "ragged"])
def test_token_ids_are_compressed_and_come_back(setting: Setting, kind: str) -> None:
    with setting.daemon(1 << 30):
        assert setting.run(kind)["computed"] == COUNT
    shutil.rmtree(setting.folder / "cache" / "index-v2")
    with setting.daemon() as daemon:
        for how in ("shuffled", "in order"):
            read = setting.run(kind, how)
            assert (read["wrong"], read["computed"], read["bypassed"]) == (0, 0, 0), read
            assert read["bytes_ssd"] > 0
        told = setting.pipeline(kind)
        assert told["lz4_bytes"] == told["bytes"] > RAM_BYTES
        assert 0.5 < told["lz4_bytes_on_disk"] / told["bytes"] < 0.75 > told["lz4_sample_ratio"] > 0.5
        assert told["lz4_bytes_on_disk"] < told["bytes_on_disk"] < 1.01 * told["lz4_bytes_on_disk"]
        assert abs(daemon.stored_bytes() - told["bytes_on_disk"]) < 64 << 10
        assert " by LZ4 as " in setting.status()
        stored = daemon.metrics()['prebake_value_disk_bytes{codec="lz4"}']
        assert stored == told["lz4_bytes_on_disk"]
        same_by_flight(daemon, setting, kind)
        assert "ERROR" not in (setting.folder / "prebaked.log").read_text()
    same_for_arrow(setting, kind)


def made(kind: str, path: Path) -> Any:
    """What the job makes of a file."""
    scope: dict[str, Any] = {}
    exec(JOB.partition("kind, shuffled")[0], scope)
    return scope[kind](path)


def same_by_flight(daemon: PrivateDaemon, setting: Setting, kind: str) -> None:
    flight = pytest.importorskip("pyarrow.flight")
    client = flight.connect(f"grpc+unix://{daemon.folder}/cache/prebake.sock")
    infos = [i for i in client.list_flights() if kind.encode() in i.schema.metadata[b"prebake.pipeline"]]
    rows = 0
    for endpoint in client.get_flight_info(infos[0].descriptor).endpoints:
        table = client.do_get(endpoint.ticket).read_all()
        rows += len(table)
        value = table["value"][-1]
        last = value.to_numpy() if kind == "tokens" else np.frombuffer(value.as_buffer(), np.int64)
        np.testing.assert_array_equal(last, made(kind, setting.folder / "inputs" / table["name"][-1].as_py()))
    assert rows == COUNT


def same_for_arrow(setting: Setting, kind: str) -> None:
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    found: dict[str, Any] = {}
    for file in (setting.folder / "cache" / "segments").glob("*.arrow"):
        reader = pa.ipc.open_file(file)
        if kind.encode() not in reader.metadata[b"prebake.pipeline"]:
            continue
        assert reader.metadata[b"prebake.format"] == b"7"
        compression = json.loads(reader.metadata[b"prebake.summary"])["compression"]
        assert compression["codec"] == "lz4" and 0.5 < compression["sample"] < 0.75
        table = reader.read_all()
        table.validate(full=True)
        if kind == "tokens":
            assert table.schema.field("value").type == pa.fixed_shape_tensor(pa.int64(), [60_000])
            values = table["value"].combine_chunks().to_numpy_ndarray()
        else:
            values = [np.frombuffer(value.as_buffer(), np.int64) for value in table["value"]]
        frame = pl.read_ipc(file)
        assert frame["name"].to_list() == table["name"].to_pylist()
        last = frame["value"][-1]
        last = last.to_numpy() if kind == "tokens" else np.frombuffer(last, np.int64)
        np.testing.assert_array_equal(last, values[-1])
        found |= dict(zip(table["name"].to_pylist(), values, strict=True))
    assert len(found) == COUNT
    for path in setting.files:
        np.testing.assert_array_equal(found[path.name], made(kind, path))


def test_images_lie_as_they_are(setting: Setting) -> None:
    with setting.daemon(1 << 30):
        assert setting.run("image")["computed"] == COUNT
    with setting.daemon() as daemon:
        read = setting.run("image", "shuffled")
        assert (read["wrong"], read["computed"]) == (0, 0)
        told = setting.pipeline("image")
        assert told["lz4_bytes"] == 0 and told["lz4_sample_ratio"] > 0.99
        assert told["bytes"] < told["bytes_on_disk"] <= daemon.stored_bytes()
        assert "as it is: LZ4 would make 1.00 of it" in setting.status()
