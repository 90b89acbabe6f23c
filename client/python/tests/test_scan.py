"""The static look at calls: what is refused, what becomes part of the identity, and what is ordinary code."""

from __future__ import annotations

import datetime
import importlib
import json
import logging
import os
import random
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prebake
from prebake.identity.code import identify

LOG = logging.getLogger(__name__)
CONFIG = {"size": 3}
STOP = {"the", "and", "of"}
NUMBERS = {1, 2, 3}
SEEN: list[Any] = []
CLOCK = time.time
VARIABLE = "PREBAKE_TEST_MODE"


def refused(value: Any) -> str:
    with pytest.raises(prebake.Refused) as error:
        prebake.fingerprint(value)
    return str(error.value.code)


def reads_clock(x: Any) -> Any:
    return x, time.perf_counter()


def reads_clock_by_another_name(x: Any) -> Any:
    return CLOCK()


def dates(x: Any) -> Any:
    return datetime.datetime.now().isoformat() + x


def names_anew(x: Any) -> Any:
    return uuid.uuid4().hex


def draws(x: Any) -> Any:
    return np.random.rand(3) + x


def draws_from_unseeded(x: Any) -> Any:
    return np.random.default_rng().normal()


def draws_with_optional_seed(x: Any, seed: int | None = None) -> Any:
    return random.Random(seed).random()


def hashes(x: str) -> int:
    return hash(x) % 7


def lists(folder: str) -> list[str]:
    return [name for name in os.listdir(folder)]


def walks(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def talks(url: str) -> Any:
    import urllib.request

    return urllib.request.urlopen(url)


def any_variable(x: str) -> str:
    return os.environ[x]


def all_variables(x: str) -> dict[str, str]:
    return dict(os.environ)


def remembers(x: Any) -> int:
    SEEN.append(x)
    return len(SEEN)


def orders_a_set(x: str) -> list[str]:
    return [word + x for word in STOP]


def unpacks_a_set(x: str) -> list[str]:
    return [*STOP, x]


def shows_a_set(x: str) -> str:
    return str({c for c in x})


def takes_from_a_set(x: str) -> str:
    return set(x).pop()


def passes_the_generator(x: Any) -> Any:
    for source in (random, np.random):
        x += source.random()
    return x


def samples(x: Any) -> Any:
    return x.sample(frac=0.5)


class HoldsModule:
    def __init__(self) -> None:
        self.numbers = np

    def __call__(self, x: Any) -> Any:
        return self.numbers.random.rand()


def runs(x: str) -> bytes:
    import subprocess

    return subprocess.check_output([x])


def sees_frames(x: Any) -> Any:
    import sys

    return sys._getframe().f_back


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (reads_clock, "R21"),
        (reads_clock_by_another_name, "R21"),
        (dates, "R21"),
        (names_anew, "R21"),
        (draws, "R20"),
        (draws_from_unseeded, "R20"),
        (draws_with_optional_seed, "R20"),
        (hashes, "R33"),
        (orders_a_set, "R33"),
        (unpacks_a_set, "R33"),
        (shows_a_set, "R33"),
        (takes_from_a_set, "R33"),
        (passes_the_generator, "R20"),
        (samples, "R20"),
        (HoldsModule(), "R36"),
        (runs, "R23"),
        (lists, "R23"),
        (walks, "R23"),
        (talks, "R22"),
        (any_variable, "R24"),
        (all_variables, "R24"),
        (remembers, "R25"),
        (sees_frames, "R34"),
    ],
)
def test_what_is_no_function_of_its_arguments_is_refused(function: Callable[..., Any], code: str) -> None:
    assert refused(function) == code
    # A helper that is reached is judged like the function itself.
    assert refused(lambda x: function(x)) == code


def test_a_refusal_names_the_way_to_the_call_and_its_line() -> None:
    def outer(x: Any) -> Any:
        return reads_clock(x)

    with pytest.raises(prebake.Refused) as error:
        prebake.fingerprint(outer)
    said = str(error.value)
    assert "reads_clock" in said and "time.perf_counter" in said and "test_scan.py:" in said


def seeded(x: Any) -> Any:
    numbers = np.random.default_rng(7)
    numbers.shuffle(x)
    return x, random.Random(CONFIG["size"] + 1).random()


def listed_in_order(folder: str) -> list[str]:
    found = os.listdir(folder)
    found.sort()
    return found + sorted(str(path) for path in Path(folder).glob("*"))


def logged(x: Any) -> Any:
    LOG.info("resized to %s", CONFIG["size"])
    return x


def words(text: str) -> list[str]:
    return [word for word in text.split() if word not in STOP] + sorted(STOP) + [str(n) for n in NUMBERS]


def annotations(path: str) -> Any:
    with open(path) as file:
        return json.load(file)


def kept_apart(x: Any) -> Any:
    found: dict[Any, Any] = {}
    found[x] = [x]
    found[x].append(x)
    return found


@pytest.mark.parametrize("function", [seeded, listed_in_order, logged, words, annotations, kept_apart])
def test_ordinary_code_is_known(function: Callable[..., Any]) -> None:
    assert prebake.fingerprint(function) == prebake.fingerprint(function)


def with_constant_name(x: str) -> str:
    return x + os.environ.get("PREBAKE_TEST_MODE", "")


def with_named_constant(x: str) -> str:
    return x + os.environ[VARIABLE]


@pytest.mark.parametrize("function", [with_constant_name, with_named_constant])
def test_the_value_of_a_variable_that_is_read_counts(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREBAKE_TEST_MODE", "a")
    first = prebake.fingerprint(function)
    monkeypatch.setenv("PREBAKE_TEST_OTHER", "b")
    assert prebake.fingerprint(function) == first
    monkeypatch.setenv("PREBAKE_TEST_MODE", "b")
    second = prebake.fingerprint(function)
    monkeypatch.delenv("PREBAKE_TEST_MODE")
    assert len({first, second, prebake.fingerprint(function)}) == 3


def reads_beside(x: str) -> str:
    with open("words.txt") as file:
        return x + file.read()


def test_a_file_named_in_the_code_counts_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    missing = prebake.fingerprint(reads_beside)
    (tmp_path / "words.txt").write_text("a")
    first = prebake.fingerprint(reads_beside)
    (tmp_path / "words.txt").write_text("b")
    assert len({missing, first, prebake.fingerprint(reads_beside)}) == 3
    (tmp_path / "words.txt").write_text("a")
    assert prebake.fingerprint(reads_beside) == first


class Augments:
    """Draws only in methods that nothing calls, unless `name` is called."""

    def __init__(self) -> None:
        self.started = time.time() * 0

    def demo(self) -> float:
        return random.random()

    def __call__(self, x: Any) -> Any:
        return x


class Calls(Augments):
    def __call__(self, x: Any) -> Any:
        return self.demo() + x


def makes_one(x: Any) -> Any:
    return Augments()(x)


def asks_by_name(x: Any, name: str) -> Any:
    return getattr(Augments, name)(x)


def test_only_methods_that_something_calls_are_judged() -> None:
    assert prebake.fingerprint(Augments()) == prebake.fingerprint(Augments())
    assert refused(Calls()) == "R20"
    assert refused(Augments().demo) == "R20"
    assert refused(makes_one) == "R21"
    assert refused(asks_by_name) in ("R20", "R21")


def test_whoever_vouches_for_code_is_believed() -> None:
    @prebake.pure
    def vouched(x: Any) -> Any:
        return x, time.time()

    @prebake.pure
    def edited(x: Any) -> Any:
        return x, time.time() + 1

    assert prebake.fingerprint(vouched) == prebake.fingerprint(vouched)
    assert prebake.fingerprint(vouched) != prebake.fingerprint(edited)
    assert prebake.fingerprint(prebake.pure(time.time))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("importlib.import_module('made_helpers').double(x)", ""),
        ("importlib.import_module('json').dumps(x)", ""),
        ("importlib.import_module(x).dumps(x)", "R34"),
        ("importlib.import_module('.made_helpers', 'a').double(x)", "R34"),
        ("[importlib.import_module('made_helpers')]", "R34"),
        ("getattr(importlib.import_module('made_helpers'), 'double')(x)", "R34"),
        ("importlib.import_module('made_helpers').__dict__['double'](x)", "R34"),
        ("importlib.import_module('made_helpers').now()", "R34"),
        ("importlib.import_module('random').random()", "R34"),
        ("importlib.import_module('made_helpers').r.random()", "R34"),
        ("importlib.import_module('missing_helpers').double(x)", "R34"),
    ],
)
def test_a_module_that_is_imported_by_its_name_counts_by_what_is_called_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, code: str
) -> None:
    helpers = tmp_path / "made_helpers.py"
    monkeypatch.syspath_prepend(str(tmp_path))

    def digest(by: int) -> str:
        helpers.write_text(
            f"import random as r\nfrom time import time as now\ndef double(x): return x * {by}\n"
        )
        sys.modules.pop("made_helpers", None)
        importlib.invalidate_caches()
        space: dict[str, Any] = {"importlib": importlib, "__name__": "__main__"}
        exec(compile(f"def made(x): return {body}", "main.py", "exec"), space)
        return identify(space["made"]).digest.hex()

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    if code:
        with pytest.raises(prebake.Refused) as refused:
            digest(2)
        assert refused.value.code == code
        return
    assert (digest(2) == digest(3)) == ("json" in body)
