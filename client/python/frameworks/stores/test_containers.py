"""Data sets over containers and what compiled code opens: known, or refused with what to do; never stale."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from conftest import Node, settle
from s3_store import COUNTS

#: Values made while it is found out what they read are stored if a later write could not go unseen.
RACY_SECONDS = 2.1

MAIN = """
import json, os, sys, time
import numpy as np
import counts
import prebake
from kinds import KINDS, VALUES

task = json.loads(os.environ["PREBAKE_TEST_TASK"])
count = counts.count

def double(value):
    return np.asarray(count(value)) * 2

try:
    ds = prebake.wrap(KINDS[task["kind"]](), [double])
except prebake.Refused as refused:
    print(json.dumps({"values": VALUES, "calls": 0, "knows": "", "refused": str(refused.code)}))
    sys.exit()

def epoch():
    return [int(np.asarray(ds[i]).ravel()[0]) for i in range(len(ds))]

values = epoch()
if "again" in task:
    print("paused", flush=True)
    while not os.path.exists("go"):
        time.sleep(0.02)
    values = epoch()
print(json.dumps({"values": values, "calls": counts.made, "knows": ds.knows}))
"""

KINDS = """
import cv2, h5py, lmdb
import numpy as np

VALUES = []

class Rows:
    def __init__(self, path):
        self.path = path

    def __len__(self):
        return 3

class Hdf5(Rows):
    def __getitem__(self, i):
        with h5py.File(self.path) as file:
            return file["rows"][i]

class Hdf5Open(Rows):
    def __init__(self, path):
        super().__init__(path)
        self.file = h5py.File(path)

    def __getitem__(self, i):
        return self.file["rows"][i]

class Lmdb(Rows):
    def __getitem__(self, i):
        with lmdb.open(self.path, readonly=True, lock=False) as env, env.begin() as read:
            return np.frombuffer(read.get(str(i).encode()), np.int64)

class Images(Rows):
    def __getitem__(self, i):
        return cv2.imread(f"{self.path}/{i}.png", cv2.IMREAD_UNCHANGED).astype(np.int64)

KINDS = {
    "hdf5": lambda: Hdf5("rows.h5"),
    "hdf5 by another name": lambda: Hdf5("rows.data"),
    "hdf5 open": lambda: Hdf5Open("rows.h5"),
    "lmdb": lambda: Lmdb("rows.lmdb"),
    "cv2": lambda: Images("images"),
}
"""

WRITE = """
import shutil, sys
import cv2, h5py, lmdb
import numpy as np

rows = np.array([int(each) for each in sys.argv[1].split(",")])
for name in ("rows.h5", "rows.data"):
    with h5py.File(name, "w") as file:
        file["rows"] = rows
shutil.rmtree("rows.lmdb", ignore_errors=True)
with lmdb.open("rows.lmdb") as env, env.begin(write=True) as write:
    for i, row in enumerate(rows):
        write.put(str(i).encode(), row.tobytes())
for i, row in enumerate(rows):
    cv2.imwrite(f"images/{i}.png", np.full((2, 2), row, np.uint8))
"""

#: The code that each kind is refused with, if it is.
REFUSED = {"hdf5": "", "hdf5 by another name": "", "hdf5 open": "R23", "lmdb": "", "cv2": ""}


@pytest.fixture
def job(node: Node) -> Node:
    node.write(main=MAIN, kinds=KINDS, counts=COUNTS, write=WRITE)
    (node.folder / "images").mkdir()
    return node


def write(node: Node, *rows: int) -> None:
    """Writes the same rows into every kind of container."""
    subprocess.run(
        [sys.executable, "write.py", ",".join(map(str, rows))], cwd=node.folder, check=True, timeout=60
    )
    for path in node.folder.rglob("*"):
        if path.is_file() and not path.name.endswith(".py"):
            settle(path)
    time.sleep(RACY_SECONDS)


@pytest.mark.parametrize("kind", REFUSED)
def test_what_lies_behind_a_kind_of_data_set_is_edited(job: Node, kind: str) -> None:
    write(job, 1, 2, 3)
    first = job.run(kind=kind)
    assert first["values"] == [2, 4, 6], first["said"]
    second = job.run(kind=kind)
    assert second["values"] == [2, 4, 6]
    assert (second["calls"] == 0) == (not REFUSED[kind])
    write(job, 1, 5, 3)
    edited = job.run(kind=kind)
    assert edited["values"] == [2, 10, 6], edited["said"]
    assert job.run(kind=kind)["values"] == [2, 10, 6]
    assert REFUSED[kind] in first["said"]
    assert not REFUSED[kind] or "inputs=" in first["said"]
