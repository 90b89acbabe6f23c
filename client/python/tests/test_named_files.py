"""Files that a call names count, whoever opens them."""

import functools
import os
import time
from pathlib import Path

import pytest
from scripts import run_main

from prebake.demo.daemon import PrivateDaemon
from prebake.purity.named_files import LOOKED_AT_MAX, NAME_MAX, named_files

READER = """
import collections, dataclasses, os, pathlib, types
import pyarrow.fs
import prebake
def read(path):
    return pyarrow.fs.LocalFileSystem().open_input_file(os.fsdecode(path)).read().decode()
"""
#: What is called, and with what.
GIVEN = {
    "text": ("read(given)", "'a.txt'"),
    "path": ("read(given)", "pathlib.Path('a.txt')"),
    "bytes": ("read(given)", "b'a.txt'"),
    "whole path": ("read(given)", "os.path.abspath('a.txt')"),
    "list": ("read(given[1])", "['none', 'a.txt']"),
    "mapping": ("read(given['table']['path'])", "{'table': {'path': 'a.txt'}}"),
    "data class": ("read(given.path)", "Config('a.txt')"),
    "named tuple": ("read(given.path)", "Named('a.txt')"),
    "default": ("read(also)", "0"),
    "object": ("read(given.path)", "types.SimpleNamespace(path='a.txt')"),
    "closure": ("read(path)", "0"),
}
SCRIPT = """
Named = collections.namedtuple("Named", "path")
@dataclasses.dataclass
class Config:
    path: str
def made(path):
    @prebake.cached
    def f(given, also="a.txt"):
        print("ran")
        return {body}
    return f
print(made("a.txt")({given}))
"""


@pytest.mark.parametrize(("body", "given"), GIVEN.values(), ids=GIVEN)
def test_a_file_that_is_named_counts(daemon: PrivateDaemon, tmp_path: Path, body: str, given: str) -> None:
    (tmp_path / "main.py").write_text(READER + SCRIPT.format(body=body, given=given))
    for text in "aab":
        if not (tmp_path / "a.txt").exists() or (tmp_path / "a.txt").read_text() != text:
            (tmp_path / "a.txt").write_text(text)
            # Files as young as that are read anew each time.
            os.utime(tmp_path / "a.txt", (time.time() - 100 + ord(text),) * 2)
        for _ in range(2):
            assert run_main(daemon, tmp_path).removeprefix("ran\n") == f"{text}\n"
    assert run_main(daemon, tmp_path) == "b\n"


def test_what_names_no_file_is_left_alone(tmp_path: Path) -> None:
    class Odd(os.PathLike):  # type: ignore[type-arg]
        def __fspath__(self) -> str:
            raise OSError("not now")

    class Lazy(dict):  # type: ignore[type-arg]
        def values(self) -> None:  # type: ignore[override]
            raise RuntimeError("not now")

    there = tmp_path / "a.txt"
    there.touch()
    assert named_files([Lazy(path=str(there))]) == [str(there)]
    assert named_files(["", "none", "a\0b", "x" * (NAME_MAX + 1), Odd(), tmp_path, 1, None, there]) == [
        str(there)
    ]


def test_a_long_list_is_not_gone_through(tmp_path: Path) -> None:
    there = tmp_path / "a.txt"
    there.touch()
    endless: list[object] = [str(there)]
    endless.append(endless)
    assert named_files([endless]) == [str(there)]
    assert named_files([["none"] * LOOKED_AT_MAX, str(there)]) == []


def test_what_stands_for_a_function_names_what_it_holds(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in "abc"]
    for each in files:
        Path(each).touch()

    class Reader:
        def __init__(self, path: str) -> None:
            self.path = path

        def __getattr__(self, name: str) -> object:
            raise RecursionError(name)

        def read(self) -> None:
            return None

    assert named_files([functools.partial(Reader(files[0]).read, files[1], other=[files[2]])]) == files
