"""An item that is memory which its data set keeps changes with it, and the data set with the item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripts import run_main

from prebake.demo.daemon import PrivateDaemon
from prebake.trial.aliases import Kept

MAIN = """
import copy
import numpy as np, prebake
from PIL import Image
class D:
    def __init__(self):
        self.x = np.arange(24.0).reshape(6, 4)
        self.rows = [{"n": i, "more": [i]} for i in range(6)]
        self.arrays = [np.full(3, i) for i in range(6)]
        self.labels = np.arange(6)
        self.many = [np.full(3, i) for i in range(100)]
        self.images = [Image.new("L", (2, 2), i) for i in range(6)]
        self.mean = np.ones(2)
    def __len__(self): return 6
    def __getitem__(self, i): return ITEM
TABLE = np.arange(12.0).reshape(6, 2)
def shows(each):
    if type(each) is Image.Image:
        return each.tobytes()
    return list(map(shows, each)) if type(each) in (list, tuple) else each
def shown(ds, d):
    found = [ds[i] for i in range(6)]
    before = copy.deepcopy(found)
    # What the data set is changed to, and then an item.
    d.x[1] += 100; d.rows[1]["n"] = 7; d.arrays[1] += 1; d.many[1] += 1; TABLE[1] += 1
    held = found[2]
    held = held[0] if type(held) is tuple else held
    if type(held) is dict:
        held["n"] = 5
    elif type(held) is Image.Image:
        held.putpixel((0, 0), 9)
    else:
        held += 50
    after = [ds[i] for i in range(6)]
    TABLE[:] = np.arange(12.0).reshape(6, 2)
    return repr(shows((before, found, after)))
plain, d = D(), D()
step = STEP
ds = prebake.wrap([f"{i}.txt" for i in range(6)], [step]) if step else prebake.wrap(d)
class Stepped:
    def __getitem__(self, i): return step(f"{i}.txt")
expected = shown(Stepped() if step else plain, plain)
assert shown(ds, d) == expected
print(ds.stats()["reused"])
"""
KEPT = {
    "an array of a long list": "self.many[i]",
    "an image": "self.images[i]",
    "row of an array": "self.x[i]",
    "part of a row": "self.x[i, 1:3]",
    "turned": "self.x[:i + 1].T",
    "of another type": "self.x[i].view('u8')",
    "with a number": "(self.x[i], int(self.labels[i]))",
    "an array of a list": "self.arrays[i]",
    "a dictionary of a list": "self.rows[i]",
}


@pytest.mark.parametrize("item", KEPT)
def test_items_that_a_data_set_keeps_are_its_own(daemon: PrivateDaemon, tmp_path: Path, item: str) -> None:
    (tmp_path / "main.py").write_text(MAIN.replace("ITEM", KEPT[item]).replace("STEP", "None"))
    for _ in range(2):
        assert run_main(daemon, tmp_path) == "0\n"


def test_so_are_those_that_a_step_keeps(daemon: PrivateDaemon, tmp_path: Path) -> None:
    step = "(lambda path: TABLE[int(path[0])])"
    (tmp_path / "main.py").write_text(MAIN.replace("ITEM", "0").replace("STEP", step))
    for _ in range(2):
        assert run_main(daemon, tmp_path) == "0\n"


MADE = [
    "(Image.new('L', (40, 40), i), self.x[i])",
    "{'words': list(range(100)), 'text': 'word ' * 50, 'y': self.x[i]}",
    "self.mean if i == 3 else self.x[i] * 2",
    "self.x[i] * 2",
    "self.x[i].copy()",
    "(np.full(9, i) + 1, self.mean)",
    "[i, 'text', self.labels[i]]",
]


@pytest.mark.parametrize("item", MADE)
def test_what_is_made_is_reused_also_beside_what_is_kept(
    daemon: PrivateDaemon, tmp_path: Path, item: str
) -> None:
    main = MAIN.split("def shown(")[0].replace("ITEM", item) + "ds = prebake.wrap(D())\n"
    found = []
    for reused in (0, 6 - item.startswith("self.mean if")):
        checked = f"assert ds.stats()['reused'] == {reused}"
        (tmp_path / "main.py").write_text(f"{main}print(shows([ds[i] for i in range(6)]))\n{checked}")
        found.append(run_main(daemon, tmp_path))
    assert found[0] == found[1]


def size(value: Any) -> int:
    return sum(map(size, value)) if isinstance(value, list) else getattr(value, "nbytes", 8)


def test_memory_is_found_wherever_it_lies() -> None:
    rng = np.random.default_rng(0)
    arrays = [np.zeros(int(length)) for length in rng.integers(1, 400, 200)]
    kept = Kept(arrays[::2])
    for i, array in enumerate(arrays):
        start, end = sorted(rng.integers(0, len(array) + 1, 2))
        part = array[start:end]
        assert kept.is_most_of([[part, 1]], size) == (i % 2 == 0 and end > start)
    # Half of the bytes is not most of them.
    assert not kept.is_most_of([arrays[0], np.zeros(len(arrays[0]))], size)
    assert kept.is_most_of([arrays[0], np.zeros(len(arrays[0]) // 2)], size)
