"""What a `with` statement sets in the process counts for what is asked for inside of it, and no longer."""

from pathlib import Path

import pytest
from scripts import run_main

from prebake.demo.daemon import PrivateDaemon

#: A setting that no rule knows, and one that sets it for a while.
SETTING = """
import contextlib, sys
import prebake
@contextlib.contextmanager
def interval(seconds):
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
def now(i): return [i, round(sys.getswitchinterval(), 4)]
class D:
    def __len__(self): return 6
    def __getitem__(self, i): return now(i)
class S:
    def __iter__(self): return map(now, range(6))
"""
#: What is asked for, again and again.
FRONTS = {
    "function": "f = prebake.cached(now)\nask = lambda: [f(i) for i in range(6)]",
    "generator": "@prebake.cached\ndef ask():\n    yield from map(now, range(6))",
    "iterated data set": "ds = prebake.wrap(S())\nask = lambda: ds",
    "data set": "ds = prebake.wrap(D())\nask = lambda: [ds[i] for i in range(6)]",
    "batches": "ds = prebake.wrap(D())\nask = lambda: sum(ds.batches(size=2), [])",
    "loader's batches": "ds = prebake.wrap(D())\nask = lambda: ds.__getitems__([*range(6)])",
    "steps": "ds = prebake.wrap([f'{i}.txt' for i in range(6)], [lambda p: now(int(open(p).read()))])\n"
    "ask = lambda: [ds[i] for i in range(6)]",
}
INSIDE = {
    "written there": "with interval(0.1): list(map(print, ask()))",
    "given by a name": "for seconds in (0.1, 0.2):\n    with interval(seconds): list(map(print, ask()))",
    "around a call": "def main():\n    list(map(print, ask()))\nwith interval(0.1): main()",
}


@pytest.mark.parametrize("inside", INSIDE)
@pytest.mark.parametrize("front", FRONTS)
def test_what_is_set_for_a_while_counts_inside(
    daemon: PrivateDaemon, tmp_path: Path, front: str, inside: str
) -> None:
    for i in range(6):
        (tmp_path / f"{i}.txt").write_text(str(i))
    outside = "list(map(print, ask()))"
    (tmp_path / "main.py").write_text("\n".join([SETTING, FRONTS[front], outside, INSIDE[inside], outside]))

    def shown(seconds: float) -> str:
        return "".join(f"[{i}, {seconds}]\n" for i in range(6))

    set_for = (0.1, 0.2) if "by a name" in inside else (0.1,)
    expected = "".join(map(shown, (0.005, *set_for, 0.005)))
    for _ in range(2):
        assert run_main(daemon, tmp_path) == expected
