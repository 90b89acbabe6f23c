"""`@prebake.cached`: a call is computed once for the same code, arguments and file content."""

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import settle

from prebake._demo_daemon import PrivateDaemon

FUNCTION = """
import sys, threading, prebake
from pathlib import Path
FACTOR = 1

@prebake.cached(inputs=["path", Path("words.txt")])
def count(path, *, scale=1, extra=None):
    sys.stderr.write("called\\n")
    return {"lengths": [len(open(path).read()) * scale * FACTOR], "words": Path("words.txt").read_text()}
"""

Call = Callable[..., tuple[str, int, str]]


@pytest.fixture
def call(daemon: PrivateDaemon, tmp_path: Path) -> Call:
    """Calls the function in a fresh process: what it returns, how often it ran, and what else was said."""
    import os
    import subprocess
    import sys

    (tmp_path / "data.txt").write_text("four")
    (tmp_path / "words.txt").write_text("a b")
    for name in ("data.txt", "words.txt"):
        settle(tmp_path / name)

    def run(arguments: str = "'data.txt'", function: str = FUNCTION) -> tuple[str, int, str]:
        environment = {**os.environ, "PREBAKE": "on", "PREBAKE_DIR": str(daemon.folder / "cache")}
        (tmp_path / "main.py").write_text(f"{function}\nprint(count({arguments}))")
        done = subprocess.run(
            [sys.executable, "main.py"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        said = [line for line in done.stderr.splitlines() if line != "called"]
        return done.stdout.strip(), done.stderr.count("called\n"), "\n".join(said)

    return run


def test_a_second_call_is_not_made(call: Call) -> None:
    first = call()
    assert first == ("{'lengths': [4], 'words': 'a b'}", 1, "")
    assert call() == (first[0], 0, "")


@pytest.mark.parametrize("name", ["data.txt", "words.txt"])
def test_an_edited_input_is_read_again(call: Call, tmp_path: Path, name: str) -> None:
    call()
    (tmp_path / name).write_text("edited")
    settle(tmp_path / name)
    value, calls, _ = call()
    assert calls == 1 and ("edited" in value) == (name == "words.txt")
    assert call() == (value, 0, "")


def test_arguments_and_code_are_part_of_it(call: Call) -> None:
    call()
    assert call("'data.txt', scale=2")[:2] == ("{'lengths': [8], 'words': 'a b'}", 1)
    assert call("'data.txt', scale=1")[1] == 0
    for old, new in (("FACTOR = 1", "FACTOR = 3"), ("* scale * FACTOR", "+ scale * FACTOR * 8")):
        assert call(function=FUNCTION.replace(old, new))[:2] == ("{'lengths': [12], 'words': 'a b'}", 1)


def test_an_argument_that_cannot_be_known_is_no_reason_to_fail(call: Call) -> None:
    twice = FUNCTION + "\ncount('data.txt', extra=threading.Lock())\n"
    for _ in range(2):
        value, calls, said = call("'data.txt', extra=threading.Lock()", twice)
        assert value == "{'lengths': [4], 'words': 'a b'}" and calls == 2
        assert len(said.splitlines()) == 1 and "extra" in said


def test_a_missing_input_is_the_functions_own_error(call: Call) -> None:
    function = FUNCTION + "\ntry:\n    count('none.txt')\nexcept FileNotFoundError:\n    print('missing')\n"
    value, _, said = call(function=function)
    assert value.splitlines()[0] == "missing" and not said
