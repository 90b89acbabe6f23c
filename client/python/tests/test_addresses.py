"""Numbers of one process that installed code keeps: written as what they stand for, and only those."""

from __future__ import annotations

from pathlib import Path

from conftest import Run

import prebake

#: Of an installed package: it is known to others by its address, and keeps its hash.
KIT = """
class Named:
    def __init__(self, words, number):
        self.words = words
        self._words_id = id(words)
        self.number = number
        self._hash = hash(("kit", number))

    def __hash__(self):
        return self._hash

def named(cls):
    cls.__kit_schema__ = {"ref": f"{cls.__module__}.{cls.__qualname__}:{id(cls)}", "cls": cls}
    return cls

class Number:
    def __init__(self, number):
        self._hash_like, self.also = number, 1

    def __hash__(self):
        return hash(self.also)
"""
MAIN = """
import sys
import kit, prebake

@kit.named
class Row:
    size = 3

def its(value):
    return value, Row

class Own:
    def __init__(self, value):
        self.value, self.id = value, id(value)

print(prebake.fingerprint([kit.Named("one two", 1 << 40), its]))
print(prebake.fingerprint(kit.Named("one two", 1 << 41)))
print(prebake.fingerprint(kit.Number(1 << 40)), prebake.fingerprint(kit.Number(1 << 41)))
print(prebake.fingerprint(Own(its)))
"""


def test_what_installed_code_keeps_to_know_an_object_again(script: Run, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    info = site / "kit-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "kit.py").write_text(KIT)
    (info / "RECORD").write_text("kit.py,,\n")
    found = [
        script(MAIN, environment={"PYTHONPATH": str(site), "PYTHONMALLOC": how}).split()
        for how in ("malloc", "pymalloc")
    ]
    assert found[0][:4] == found[1][:4]
    assert len(set(found[0])) == 5
    # What the user's own code keeps it may do anything with.
    assert found[0][4] != found[1][4]


def update(value: int) -> int:
    return value + 1


def test_a_function_may_be_called_as_a_method_is() -> None:
    assert prebake.fingerprint(lambda value: update(value))
