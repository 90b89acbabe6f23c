"""A function that turns out to draw random numbers has run by then: what it did is not done again."""

from pathlib import Path

import pytest
from scripts import run_main

from prebake.demo.daemon import PrivateDaemon

SCRIPT = """
import sqlite3
import prebake
{imports}
outer = sqlite3.connect("log.db")
outer.execute("create table if not exists log (i)")
outer.execute("delete from log")
outer.commit()
def write(i):
    with sqlite3.connect("log.db") as other:
        other.execute("insert into log values (?)", (i,))
@prebake.cached
def f(i):
    {draws}
    write(i)
    return i
print([f(i) for i in range(3)], [i for (i,) in outer.execute("select i from log")])
"""
DRAWS = {
    "C's": ("from PIL import Image", "Image.effect_noise((8, 8), 4)"),
    "NumPy's": ("import pandas as pd", "pd.Series([1, 2, 3]).sample(2)"),
    "none": ("", "pass"),
}


@pytest.mark.parametrize(("imports", "draws"), DRAWS.values(), ids=DRAWS)
def test_what_draws_is_run_once(daemon: PrivateDaemon, tmp_path: Path, imports: str, draws: str) -> None:
    (tmp_path / "main.py").write_text(SCRIPT.format(imports=imports, draws=draws))
    for _ in range(2):
        assert run_main(daemon, tmp_path) == "[0, 1, 2] [0, 1, 2]\n"
