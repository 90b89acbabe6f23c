"""A stream that is edited by who takes its elements goes on as it is from then on, whoever made those before.
What it took from its fields when it began stays."""

from pathlib import Path

import pytest
from scripts import run_main

from prebake._demo_daemon import PrivateDaemon

MAIN = """
import numpy as np, prebake
N = 7
class Words:
    def __init__(self):
        self.k, self.n, self.table, self.array = 1, N, {"a": [1]}, np.ones(3)
    def __iter__(self):
        for i in range(self.n):
            yield [i * self.k, self.table["a"][0], float(self.array.sum()), i < self.n]
SCALE = 1
def words(end, n):
    for i in range(n):
        yield f"{i * SCALE}{end[0]}{end[-1]}"
def scaled(k):
    def stream(n):
        for i in range(n):
            yield i * k[0]
    return stream
def edited(make, edit, at):
    held = make()
    found = []
    taken = iter(held.stream())
    for count in range(100):
        if count == at:
            edit(held)
        element = next(taken, None)
        if element is None:
            break
        found.append(element)
    return found
class Held:
    def __init__(self, wrap):
        self.wrap = wrap
class Data(Held):
    def __init__(self, wrap):
        self.own = Words()
        self.ds = prebake.wrap(self.own) if wrap else self.own
    def stream(self): return self.ds
class Call(Held):
    def __init__(self, wrap):
        self.end = ["a", "b"]
        self.call = prebake.cached(words) if wrap else words
    def stream(self): return self.call(self.end, N)
class Closed(Held):
    def __init__(self, wrap):
        self.k = [1]
        self.call = prebake.cached(scaled(self.k)) if wrap else scaled(self.k)
    def stream(self): return self.call(N)
def scale(to):
    global SCALE
    SCALE = to
found = []
for at in range(N + 2):
    one = []
    for wrap in (False, True, True):
        one.append(edited(lambda: KIND(wrap), lambda held: EDIT, at))
        scale(1)
    assert one[0] == one[1] == one[2], (at, one)
    found.append(one[1])
print(found)
"""
EDITS = {
    "a field": ("Data", "setattr(held.own, 'k', 5)"),
    "through what stands for it": ("Data", "setattr(held.ds, 'k', 5)"),
    "how many there are": ("Data", "setattr(held.own, 'n', 9)"),
    "in a table": ("Data", "held.own.table['a'].__setitem__(0, 7)"),
    "an array": ("Data", "held.own.array.fill(4)"),
    "a new field": ("Data", "setattr(held.own, 'new', 4)"),
    "an argument": ("Call", "held.end.append('c')"),
    "a global": ("Call", "scale(3)"),
    "a closure": ("Closed", "held.k.__setitem__(0, 9)"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_is_edited_between_two_elements_is_seen(
    daemon: PrivateDaemon, tmp_path: Path, edit: str
) -> None:
    kind, how = EDITS[edit]
    (tmp_path / "main.py").write_text(MAIN.replace("KIND", kind).replace("EDIT", how))
    first, second = (run_main(daemon, tmp_path) for _ in range(2))
    assert first == second
