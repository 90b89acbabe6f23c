"""What a data set is given for an item is what it is given without a cache: numbers of NumPy are no `int`."""

from pathlib import Path

import pytest
from scripts import run_main

from prebake.demo.daemon import PrivateDaemon

MAIN = """
import numpy as np, prebake
class D:
    def __len__(self): return 6
    def __getitem__(self, i):
        return [type(i).__name__, str((np.full(2, 100, "u1") * i).dtype), int(i)]
plain, ds = D(), prebake.wrap(D())
def shown(d): return [d[i] for i in (ASKED)]
found = shown(ds)
assert found == shown(plain), (found, shown(plain))
assert ds.__getitems__([ASKED]) == found
print(ds.stats()["reused"])
"""
ASKED = {
    "NumPy's": "*np.arange(6),",
    "small ones of NumPy's": "*np.arange(6, dtype='u1'),",
    "of several types": "0, np.int64(1), np.uint8(2), True, 3, np.int64(4), np.int64(1), 1",
    "truth values": "False, True",
}


@pytest.mark.parametrize("asked", ASKED)
def test_items_are_what_they_are_without(daemon: PrivateDaemon, tmp_path: Path, asked: str) -> None:
    (tmp_path / "main.py").write_text(MAIN.replace("ASKED", ASKED[asked]))
    first, second = (int(run_main(daemon, tmp_path)) for _ in range(2))
    # Of one process what it made itself is reused, of two all is.
    assert second > first


@pytest.mark.parametrize("equal", ["", "def __eq__(self, other): return other == 1", "__eq__ = None"])
def test_what_is_no_number_is_given_as_it_is(daemon: PrivateDaemon, tmp_path: Path, equal: str) -> None:
    index = f"class Index:\n    def __index__(self): return 1\n    {equal}\n"
    main = MAIN.replace('np.full(2, 100, "u1") * i', "np.zeros(1)").replace("int(i)", "i.__index__()")
    (tmp_path / "main.py").write_text(index + main.replace("ASKED", "Index(), Index()"))
    for _ in range(2):
        assert int(run_main(daemon, tmp_path)) == 0
