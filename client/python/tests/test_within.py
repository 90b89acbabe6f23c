"""What a `with` statement around a call sets in a package, however hidden, is no stale value."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from prebake.demo.daemon import PrivateDaemon
from prebake.world import within

PROGRAM = """
import contextlib, sys, textwrap
from unittest import mock
import prebake

@contextlib.contextmanager
def patched():
    with mock.patch("textwrap.TextWrapper.wrap", lambda self, text: ["patched"]):
        yield

@prebake.cached
def f(x):
    sys.stderr.write("called\\n")
    return textwrap.fill("word " * x, 12)

print(f(5), f(6))
with AROUND:
    print(f(5))
"""
AROUND = ["patched()", "open(__file__), patched()", "open(__file__)"]


def here() -> list[str]:
    return within.of_caller()


def nested() -> Any:
    with nullcontext():
        try:
            with nullcontext():
                return here()
        finally:
            pass


def handled() -> Any:
    try:
        raise ValueError
    except ValueError:
        with nullcontext():
            return here()


def around() -> Any:
    with nullcontext():
        return beside()


def beside() -> Any:
    with nullcontext():
        pass
    return here()


def places(found: list[str]) -> list[str]:
    own = {"nested", "handled", "around", "beside"}
    return [place for each in found if (place := each.partition("+")[0]) in own]


def test_statements_around_a_call_are_found() -> None:
    assert places(nested()) == ["nested", "nested"] and len(set(nested()[:2])) == 2
    assert places(handled()) == ["handled"]
    assert places(around()) == ["around"]
    assert places(beside()) == []


@pytest.mark.parametrize("statement", AROUND)
def test_a_call_within_is_not_served_what_was_made_outside(
    daemon: PrivateDaemon, tmp_path: Path, statement: str
) -> None:
    program = tmp_path / "main.py"
    program.write_text(PROGRAM.replace("AROUND", statement))
    environment = {**os.environ, "PREBAKE_DIR": str(daemon.folder / "cache")}

    def run(mode: str) -> tuple[str, int]:
        done = subprocess.run(
            [sys.executable, str(program)],
            env={**environment, "PREBAKE": mode},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr.count("called\n")

    plain, _ = run("off")
    assert [run("on")[0] for _ in range(2)] == [plain, plain]
    # What was found to be the same, and what was not, is served alike by now.
    assert run("on") == (plain, 0)
