"""A module of the user's that is handed on counts with all that it holds."""

from __future__ import annotations

import itertools

import pytest
from conftest import Run

PLUGIN = """
import os
import random
import numpy as np
import base

LIMIT = 3
names = {"a": [1, 2]}

class Part:
    size = 4
    def of(self, x): return x + self.size

def score(x):
    return base.clip(Part().of(x), LIMIT)
"""
BASE = "def clip(x, most):\n    return min(x, most)\n"
HOW = {
    "in a list": "parts = [plugin]\ndef made(x): return [each.score(x) for each in parts]",
    "in an attribute": (
        "class Made:\n    def __init__(self): self.by = plugin\n"
        "    def __call__(self, x): return self.by.score(x)\nmade = Made()"
    ),
    "as an argument": (
        "import functools\ndef apply(by, x): return by.score(x)\nmade = functools.partial(apply, plugin)"
    ),
    "from a global": "def apply(by, x): return by.score(x)\ndef made(x): return apply(plugin, x)",
    "from an import": (
        "def apply(by, x): return by.score(x)\ndef made(x):\n    import plugin\n    return apply(plugin, x)"
    ),
}
EDITS = {
    "a constant": ("LIMIT = 3", "LIMIT = 4"),
    "a table": ("[1, 2]", "[1, 3]"),
    "a method": ("x + self.size", "x - self.size"),
    "a field of a class": ("size = 4", "size = 5"),
    "a function": ("Part().of(x)", "Part().of(x + 1)"),
    "a new name": ("LIMIT = 3", "LIMIT = 3\nMORE = 1"),
}


def fingerprint(script: Run, how: str, plugin: str = PLUGIN, base: str = BASE) -> str:
    main = f"import prebake, plugin\n{HOW[how]}\nmade(1)\nprint(prebake.fingerprint(made))\n"
    return script(main, plugin=plugin, base=base)


@pytest.mark.parametrize("how", HOW)
def test_what_a_module_holds_counts_and_how_it_is_written_does_not(script: Run, how: str) -> None:
    first = fingerprint(script, how)
    assert fingerprint(script, how, "# Another one.\n" + PLUGIN, BASE + "\n\n") == first
    edited = [fingerprint(script, how, PLUGIN.replace(*edit)) for edit in EDITS.values()]
    edited.append(fingerprint(script, how, base=BASE.replace("min", "max")))
    assert all(one != other for one, other in itertools.combinations([first, *edited], 2))
