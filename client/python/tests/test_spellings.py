"""Files are given to the steps as they are listed: by whichever spelling, and as whichever kind of path."""

from pathlib import Path

import pytest
from scripts import run_main

from prebake.demo.daemon import PrivateDaemon

SCRIPT = """
import json, os, pathlib
import prebake

class Shot(str):
    crop = 1
class Tagged(type(pathlib.Path())):
    @property
    def fold(self):
        return FOLDS.get(self.name)
FOLDS = {"b.txt": "val"}

def load(p):
    with open(p) as file:
        return [type(p).__name__, str(p), file.read(), getattr(p, "crop", 0), getattr(p, "fold", None)]

lists = [LISTS]
print(json.dumps([[ds[i] for i in range(len(ds))] for ds in (prebake.wrap(each, [load]) for each in lists)]))
"""
LISTS = {
    "a dot": '["a.txt", "./b.txt", "b.txt", "./a.txt"]',
    "up and down again": '["a.txt", "sub/../a.txt", "sub/../b.txt", "b.txt"]',
    "two bars": '["sub/a.txt", "sub//a.txt", "sub/./a.txt"]',
    "absolute too": '["a.txt", os.path.abspath("a.txt"), os.path.abspath("./b.txt"), "b.txt"]',
    "absolute with a detour": '[os.getcwd() + end for end in ("/a.txt", "/./a.txt", "/sub/../a.txt")]',
    "paths beside texts": '[pathlib.Path("b.txt"), "./b.txt", pathlib.Path("a.txt"), "sub//a.txt"]',
    "two folders": '["one/a.txt", "one/b.txt"], ["two/a.txt", "two/b.txt"], ["one/a.txt", "one/b.txt"]',
    "absolute in two folders": '[os.path.abspath("one/a.txt")], [os.path.abspath("two/a.txt")]',
    "texts of one's own": '[Shot("a.txt"), Shot("b.txt")], ["a.txt", "b.txt"]',
    "paths of one's own": '[Tagged("a.txt"), Tagged("b.txt")], [pathlib.Path("a.txt"), "b.txt"]',
}


@pytest.mark.parametrize("name", LISTS)
def test_steps_are_given_what_is_listed(daemon: PrivateDaemon, tmp_path: Path, name: str) -> None:
    for folder in ("", "sub", "one", "two"):
        (tmp_path / folder).mkdir(exist_ok=True)
        for each in ("a.txt", "b.txt"):
            (tmp_path / folder / each).write_text("x")
    script = SCRIPT.replace("LISTS", LISTS[name], 1)
    # A plain path is given to the first step as a text.
    plain = "[load(os.fspath(p) if type(p) is type(pathlib.Path()) else p) for p in each]"
    (tmp_path / "main.py").write_text(script.replace("prebake.wrap(each, [load])", plain))
    expected = run_main(daemon, tmp_path)
    (tmp_path / "main.py").write_text(script)
    for _ in range(3):
        assert run_main(daemon, tmp_path) == expected
