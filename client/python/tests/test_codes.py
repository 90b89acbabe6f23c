"""Each code is told of in the documents, can be met, and its message is one line that a person can act on."""

from __future__ import annotations

import os
import re
import resource
import socket
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prebake
from prebake.runtime.errors import Code

ROOT = Path(__file__).parents[3]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "reference" / "codes.md").read_text().splitlines()
    if re.match(r"\| [MR]\d\d \|", line)
]
DAEMON = re.findall(r'"([MR]\d\d)", "(?!not cached)', (ROOT / "daemon" / "src" / "codes.rs").read_text())
#: The daemon tells a job of it once it has found it: `test_verify.py` meets it.
FOUND_LATER = {Code.UNREPRODUCED}

COUNT = 0
DEEP = 100_000


def random_draw() -> float:
    return float(np.random.rand())


def clock() -> float:
    return time.time()


def network() -> Any:
    return socket.create_connection(("localhost", 1))


def lists_files() -> list[str]:
    return os.listdir(".")


def environment() -> dict[str, str]:
    return dict(os.environ)


def counts() -> int:
    global COUNT
    COUNT += 1
    return COUNT


def sets_all() -> None:
    os.umask(0o22)


def order() -> list[str]:
    return list({"a", "b", os.sep})


def dynamic(name: str) -> Any:
    return globals()[name]


class Node:
    below: Any = None


def deep() -> Node:
    found = Node()
    for _ in range(DEEP):
        above = Node()
        above.below, found = found, above
    return found


class HoldsModule:
    def __init__(self) -> None:
        self.module = np


def imports() -> Any:
    import test_codes_broken

    return test_codes_broken


#: By code, what cannot be known by itself.
UNKNOWABLE: dict[Code, Any] = {
    Code.RANDOM: random_draw,
    Code.CLOCK: clock,
    Code.NETWORK: network,
    Code.UNDECLARED: lists_files,
    Code.ENVIRONMENT: environment,
    Code.CARRIES_STATE: counts,
    Code.EFFECT: sets_all,
    Code.OPAQUE: object(),
    Code.UNSTABLE: order,
    Code.DYNAMIC: dynamic,
    Code.TOO_LARGE: deep(),
    Code.MODULE_AS_VALUE: HoldsModule(),
    Code.IMPORT: imports,
}


def test_the_documents_tell_of_each_code_what_it_means_and_what_to_do() -> None:
    told = [row[0] for row in ROWS]
    # The daemon has a name for the code of a computation that failed.
    assert sorted(told) == sorted({*DAEMON, *Code, "M18"})
    for row in ROWS:
        assert len(row) == 4 and all(re.fullmatch(r"[A-Z].*\.", cell) for cell in row[1:]), row


@pytest.mark.parametrize("code", UNKNOWABLE, ids=str)
def test_what_cannot_be_known_is_said_in_one_line(
    code: Code, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_codes_broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(prebake.Refused) as refused:
        prebake.fingerprint(UNKNOWABLE[code])
    assert refused.value.code == code
    assert refused.value.reason.startswith("it") and "\n" not in refused.value.reason


def appended(values: list[int]) -> list[int]:
    values.append(1)
    return values


class Unknown:
    def __init__(self) -> None:
        self.handle = sys.stdout


def unstorable(n: int) -> Any:
    return Unknown()


def big(path: str) -> Any:
    return np.zeros(257 << 20, np.uint8)


class Rows:
    """Rows that are in memory, and handed out as they are."""

    def __init__(self) -> None:
        self.rows = [np.full(3, i) for i in range(4)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> Any:
        return self.rows[i]


def no_room(images: list[str]) -> Any:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        return prebake.wrap(images, [os.path.getsize], reuse=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


#: By code, what a job does; it goes on.
MET: dict[Code, Callable[[list[str]], Any]] = {
    Code.DATASET: lambda images: prebake.wrap(iter(images)),
    Code.MUTATES: lambda images: prebake.cached(appended)([1]),
    Code.VALUE: lambda images: prebake.cached(unstorable)(1),
    Code.TOO_CHEAP: lambda images: prebake.wrap(Rows())[0],
    Code.TOO_BIG: lambda images: prebake.wrap(images[:1], [big])[0],
    Code.NO_ROOM: no_room,
}


def test_each_code_is_met() -> None:
    assert {*UNKNOWABLE, *MET, *FOUND_LATER} == set(Code)


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("code", MET, ids=str)
def test_a_job_that_goes_on_is_told_once_in_one_line(code: Code, images: list[str]) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert MET[code](images) is not None
    told = [str(each.message) for each in said if each.category is prebake.PrebakeWarning]
    [message] = [each for each in told if each.startswith(f"not cached: {code} ")]
    # What happened, and behind it what to do.
    assert re.search(r".[:;,] .", message.removeprefix(f"not cached: {code} ")) and "\n" not in message
