"""What is public tells its parameters, its value and its errors, and shows an example that runs."""

from __future__ import annotations

import functools
import inspect
import os
import re
import subprocess
import sys
import tarfile
import types
from pathlib import Path
from typing import Any

import pytest

import prebake
from prebake.demo.daemon import PrivateDaemon

TEXTS = ("Bake once", "serve every job")


def functions(cls: type) -> list[str]:
    """Public methods and properties of a class's own."""
    kinds = (types.FunctionType, property)
    return [name for name, value in vars(cls).items() if name[0] != "_" and isinstance(value, kinds)]


#: Their examples run in the suites of their frameworks.
SHIMS = ["hf.map", "tf.cache", "wds.cached"]
METHODS = [
    f"{name}.{each}"
    for name in prebake.__all__
    if isinstance(getattr(prebake, name), type)
    for each in functions(getattr(prebake, name))
]
WITH_EXAMPLES = [*prebake.__all__, *METHODS]
NAMES = [*WITH_EXAMPLES, *SHIMS]


def named(name: str) -> Any:
    found = functools.reduce(getattr, name.split("."), prebake)
    return found.fget if isinstance(found, property) else found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where examples run: two texts, and a shard of both."""
    (tmp_path / "texts").mkdir()
    for place, text in enumerate(TEXTS):
        (tmp_path / "texts" / f"{place}.txt").write_text(text)
    with tarfile.open(tmp_path / "shard.tar", "w") as shard:
        for place in range(len(TEXTS)):
            shard.add(tmp_path / "texts" / f"{place}.txt", f"{place}.txt")
    return tmp_path


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_example_runs(name: str, folder: Path, daemon: PrivateDaemon) -> None:
    environment = {
        **os.environ,
        "PREBAKE": "on",
        "PREBAKE_AUTOSTART": "0",
        "PREBAKE_DIR": str(daemon.folder / "cache"),
    }
    # What another finds in the cache is the same.
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("run_examples.py")), name],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Warning" not in done.stderr


@pytest.mark.parametrize("name", [each for each in NAMES if not isinstance(named(each), type)])
def test_parameters_and_values_are_told(name: str) -> None:
    function = named(name)
    text = inspect.getdoc(function) or ""
    told = re.findall(r"^(?:\*\*?)?(\w+)$", section(text, "Parameters"), re.MULTILINE)
    assert told == [each for each in inspect.signature(function).parameters if each != "self"]
    returns = inspect.signature(function).return_annotation
    assert returns == "None" or section(text, "Returns") or section(text, "Yields")


def test_errors_that_are_raised_are_told() -> None:
    for name in ("wrap", "cached", "pure", "split", "register", "fingerprint", "Dataset.batches", "hf.map"):
        assert section(inspect.getdoc(named(name)) or "", "Raises"), name


def section(text: str, title: str) -> str:
    """A part of a docstring; empty if it is not there."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""
