"""Every entry of the tables of calls decides something that no run would show.

Each entry stands in code behind a branch that no element takes while it is tried. So neither a second run
nor the tripwire nor a proof of worlds can tell of it. Without the entry the code must have another answer:
another refusal, another identity, or other files that count. Else it is dead weight.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from prebake.identity.code import identify
from prebake.known import calls, lookup
from prebake.runtime.errors import Refused

#: A condition that no item of a test meets.
RARELY = "if x > 10**9:"

#: By table: code with an entry in it, of which one at least has another answer without the entry.
PROGRAMS: dict[str, list[str]] = {
    "CALLS": ["return {0}()", "return {0}(3)", "return {0}"],
    "DRAWING_METHODS": ["return y.{0}()"],
    "SEEDABLE_METHODS": ["return y.{0}(3)"],
    "SEEDS": ["return y.sample({0}=3)"],
    "LISTING_METHODS": ["return y.{0}()"],
    "ATTRIBUTES": ["return y.{0}"],
    # What it opens is not named in the code, and what a function keeps may be of it.
    "READERS": ["pass\n    return kept(y)\n\n@functools.cache\ndef kept(y):\n    return {0}(y)"],
    "COMPILED_READERS": ["return {0}(y)"],
    "LOOKERS": ["return {0}('file.txt')"],
    "OPENERS": ["return {0}('file.txt', 'w')"],
    "FILE_KEYWORDS": ["return read({0}='file.txt')"],
    "PATH_METHODS": ["return HERE.{0}()"],
    "NOW": ["return {0}('now')"],
    "NOWS": ["return numpy.datetime64('{0}')"],
    "LOCAL_TIME": ["return y.{0}()"],
    "JOINING": ["return open({0}('folder', 'file.txt')).read()"],
    "INJECTIVE": ["return sorted(set(y), key={0})"],
    "ORDERLESS": ["return {0}(y.iterdir())", "return {0}(set(y))", "return math.{0}(y.iterdir())"],
    "PASSING": ["return sorted({0}(y.iterdir()))", "return sorted({0}(str, y.iterdir()))"],
    "ORDERED": ["return {0}(set(y))", "return y.{0}(set(y))"],
    "SET_METHODS": ["return list(set(y).{0}(y))"],
    "NUMBERS": ["return numpy.random.default_rng({0}(y))"],
    "CHANGING": ["return {0}(HELD, 3)", "return {0}(HELD)"],
    "MUTATORS": ["return HELD.{0}(y)", "return NAMED.{0}(y)", "return GROUP.{0}(y)", "return QUEUE.{0}(y)"],
}
HEAD = """
import collections, functools, math, pathlib
try:
    import numpy
except ImportError:
    pass
HERE = pathlib.Path("file.txt")
HELD, NAMED, GROUP, QUEUE = [3], {3: 4}, {3}, collections.deque([3])

def read(**named):
    return named
"""


def entries(table: str) -> Iterator[str]:
    """What stands in it, as far as it is installed here."""
    held = getattr(calls, table)
    found = itertools.chain(*held.values()) if table == "ATTRIBUTES" else held
    return (entry for entry in sorted(found) if not is_dotted(table, entry) or home(entry))


def is_dotted(table: str, entry: str) -> bool:
    """Whether it names something to import."""
    return table == "CALLS" or "." in entry


@functools.cache
def home(dotted: str) -> str | None:
    """The module to import for a dotted name."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:count]))
        except Exception:
            continue
        try:
            functools.reduce(getattr, parts[count:], value)
        except AttributeError:
            return None
        return ".".join(parts[:count])
    return None


def without(monkeypatch: pytest.MonkeyPatch, table: str, entry: str) -> None:
    """Leaves an entry out of a table, and of those that were made of it."""
    held = getattr(calls, table)
    if table == "ATTRIBUTES":
        fewer: Any = {code: names - {entry} for code, names in held.items()}
    elif isinstance(held, dict):
        fewer = {name: verdict for name, verdict in held.items() if name != entry}
    else:
        fewer = type(held)(each for each in held if each != entry)
    monkeypatch.setattr(calls, table, fewer)
    made_of = {"READERS": "NAMING", "LOOKERS": "NAMING", "PASSING": "ORDERED"}.get(table)
    if made_of:
        monkeypatch.setattr(calls, made_of, getattr(calls, made_of) - {entry})
    lookup.is_listed.cache_clear()


def answer(function: Callable[..., Any]) -> Any:
    try:
        return identify(function)
    except Refused as refused:
        return refused.code, str(refused)


@pytest.mark.parametrize(
    ("table", "entry"),
    [
        pytest.param(table, entry, marks=pytest.mark.torch if entry.startswith("torch") else ())
        for table in PROGRAMS
        for entry in entries(table)
    ],
)
def test_an_entry_decides_something(
    table: str, entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "file.txt").write_text("text")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file.txt").write_text("text")
    lines = [f"import {home(entry)}" if is_dotted(table, entry) else "", HEAD]
    lines += [
        f"def f{i}(x, y=None):\n    {RARELY}\n        {program.format(entry)}\n    return x\n"
        for i, program in enumerate(PROGRAMS[table])
    ]
    (tmp_path / "with_an_entry.py").write_text("\n".join(lines))
    monkeypatch.delitem(sys.modules, "with_an_entry", raising=False)
    module = importlib.import_module("with_an_entry")
    functions = [getattr(module, f"f{i}") for i in range(len(PROGRAMS[table]))]
    before = [answer(function) for function in functions]
    without(monkeypatch, table, entry)
    assert [answer(function) for function in functions] != before
    monkeypatch.undo()
    lookup.is_listed.cache_clear()
