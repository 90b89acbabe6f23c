"""The list of defects: each can still be put in, and names tests that there are."""

from __future__ import annotations

import functools
import re
import shlex
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "ops" / "defects"))

from defect import Defect, listed  # noqa: E402
from suites import Python, Rust  # noqa: E402

CRATES = ("fingerprint", "proto", "daemon", "client/src", "client/tests", "fuzz/src", "fuzz/tests")
DEFECTS = listed()
each = pytest.mark.parametrize("defect", DEFECTS, ids=[defect.name for defect in DEFECTS])


@functools.cache
def rust() -> tuple[set[str], str]:
    """Programs of tests, and all code."""
    files = [file for crate in CRATES for file in (ROOT / crate).rglob("*.rs")]
    return {file.stem for file in files if file.parent.name == "tests"}, "\n".join(
        file.read_text() for file in files
    )


def test_names_are_unique_and_both_languages_have_some() -> None:
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS) >= 28
    python = sum(defect.is_python for defect in DEFECTS)
    assert python >= 5 and len(DEFECTS) - python >= 20


@each
def test_each_can_be_put_in_and_is_taken_out(defect: Defect, tmp_path: Path) -> None:
    whole = (ROOT / defect.file).read_text()
    defective = defect.put_into(whole)
    assert defective != whole
    if defect.is_python:
        compile(defective, defect.file, "exec")
    file = tmp_path / "file"
    file.write_text(whole)
    with pytest.raises(KeyboardInterrupt), defect.within(file, is_dated=True):
        assert file.read_text() == defective
        raise KeyboardInterrupt
    assert file.read_text() == whole


@each
def test_its_tests_are_there(defect: Defect) -> None:
    if defect.is_python:
        file, dash_k, word = shlex.split(defect.tests)
        assert dash_k == "-k" and re.search(rf"def test_\w*{word}", (ROOT / file).read_text())
        return
    named = re.findall(r"\b(test|binary)\((\w+)\)", defect.tests)
    assert named
    binaries, text = rust()
    for kind, name in named:
        if kind == "binary":
            assert name in binaries
        else:
            assert re.search(rf"\bfn {name}\(|^    {name}: ", text, re.MULTILINE), name


def test_names_of_tests_that_failed_are_found_in_what_is_said() -> None:
    said = """
        PASS [   0.010s] ( 1/3) prebake-daemon::crash of_put
        FAIL [   1.204s] ( 2/3) prebake-daemon::crash of_commit
     SIGABRT [   0.004s] ( 3/3) prebake-daemon memory::staging::tests::what_is_copied
     Summary [   1.300s] 3 tests run: 1 passed, 2 failed, 400 skipped
"""
    found = ["prebake-daemon::crash of_commit", "prebake-daemon memory::staging::tests::what_is_copied"]
    assert Rust._FAILED.findall(said) == found
    said = "FAILED tests/test_a.py::test_b[c d] - AssertionError: e - f\nERROR tests/test_a.py::test_g\n"
    assert Python._FAILED.findall(said) == ["tests/test_a.py::test_b[c d]", "tests/test_a.py::test_g"]
