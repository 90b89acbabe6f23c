"""What the user's code raises is told as without the cache: raised by it alone, not while something of
Prebake's was handled."""

from pathlib import Path

import pytest
from scripts import run_main

from prebake.demo.daemon import PrivateDaemon

SCRIPT = """
import random, warnings
import prebake
warnings.simplefilter("ignore")
def fails(i):
    if i == 1: raise ValueError(i)
    return [i] * 3
def draws_and_fails(i):
    random.random()
    return fails(i)
class Rows:
    def __len__(self): return 6
    def __getitem__(self, i): return f(i)
class Stream:
    def __iter__(self): return map(f, range(6))
f = {function}
ask = {front}
for i in (0, 1, 1):
    try:
        ask(i)
    except ValueError as error:
        print(error, error.__context__, error.__cause__)
"""
FRONTS = {
    "data set": "prebake.wrap(Rows()).__getitem__",
    "several": "lambda i: prebake.wrap(Rows()).__getitems__([0, i])",
    "batches": "lambda i: next(prebake.wrap(Rows()).batches(size=2, order=[0, i]))",
    "steps": "prebake.wrap([str(i) for i in range(6)], [int, f]).__getitem__",
    "stream": "lambda i: i and list(prebake.wrap(Stream()))",
    "function": "prebake.cached(f)",
}


@pytest.mark.parametrize("function", ["fails", "draws_and_fails"])
@pytest.mark.parametrize("front", FRONTS)
def test_it_is_told_as_without_the_cache(
    daemon: PrivateDaemon, tmp_path: Path, front: str, function: str
) -> None:
    script = SCRIPT.replace("{function}", function).replace("{front}", FRONTS[front])
    (tmp_path / "main.py").write_text(script)
    assert run_main(daemon, tmp_path) == "1 None None\n" * 2
