"""Identities are the same in every process: small programs that hold what popular packages make, in two.

    python client/python/tests/test_unstable.py [names]

prints a table of what comes of them here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from unstable_programs import PROGRAMS, Program

#: Two hash seeds that order sets of strings differently in nearly every case; and two layouts of memory.
SEEDS = ("1", "2718281828")
#: Programs of one process: each takes a few milliseconds, what they import much longer.
RUN = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
held = [bytes(n) for n in range(int(sys.argv[1]) % 1000)]
import prebake
sys.path.insert(0, "")
for name in json.load(sys.stdin):
    try:
        found = prebake.fingerprint(importlib.import_module(f"program_{name}").it)
    except prebake.Refused as refused:
        found = f"{refused.code} {refused}"
    except Exception as error:
        found = f"failed {type(error).__name__}: {error}"
    print(json.dumps([name, found]), flush=True)
"""
PROCESS_SECONDS_MAX = 300


def installed(program: Program) -> bool:
    return not program.package or importlib.util.find_spec(program.package) is not None


def found(programs: dict[str, Program], seed: str) -> dict[str, str]:
    """The fingerprint of each program's `it` in a process under a hash seed, or why there is none."""
    environment = {
        **os.environ,
        "PYTHONHASHSEED": seed,
        "PREBAKE_AUTOSTART": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, program in programs.items():
            Path(folder, f"program_{name}.py").write_text(program.source)
        done = subprocess.run(
            [sys.executable, "-c", RUN, seed],
            input=json.dumps(list(programs)),
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PROCESS_SECONDS_MAX,
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith('["')]
    values = dict(map(json.loads, lines))
    return {name: values.get(name, f"failed {done.stderr[-300:]}") for name in programs}


def outcomes(programs: dict[str, Program]) -> Iterator[tuple[str, str]]:
    """Of each program "equal", "differs", "failed" or the code of its refusal, and more words."""
    with ThreadPoolExecutor(len(SEEDS)) as pool:
        first, second = pool.map(lambda seed: found(programs, seed), SEEDS)
    for name in programs:
        one, other = first[name], second[name]
        code = one.partition(" ")[0]
        if " " in one and code == other.partition(" ")[0]:
            yield name, one
        else:
            yield name, "equal" if one == other else f"differs {one[:80]} {other[:80]}"


def present() -> dict[str, Program]:
    return {name: program for name, program in PROGRAMS.items() if installed(program)}


@pytest.fixture(scope="module")
def seen() -> dict[str, str]:
    return dict(outcomes(present()))


@pytest.mark.parametrize("name", sorted(present()))
def test_the_identity_is_the_same_in_every_process(seen: dict[str, str], name: str) -> None:
    expected = PROGRAMS[name].refused or "equal"
    assert seen[name].partition(" ")[0] == expected, seen[name]


def test_what_is_not_installed_is_left_out() -> None:
    absent = sorted({program.package for program in PROGRAMS.values() if not installed(program)})
    print(f"{len(PROGRAMS) - len(present())} of {len(PROGRAMS)} programs left out for want of {absent}")
    assert present()


SAYS = """
import pydantic

class Answer(pydantic.BaseModel):
    "{doc}"
    text: str

class Plain:
    "{doc}"
    text = ""

def {name}(k):
    return {shown}, k

it = {name}
"""


def test_what_a_model_says_of_itself_counts() -> None:
    pytest.importorskip("pydantic")
    shown = {"prompt": "str(Answer.model_json_schema())", "plain": "Plain().text"}
    first, other = (
        found(
            {
                name: Program("pydantic", SAYS.format(doc=doc, name=name, shown=each))
                for name, each in shown.items()
            },
            SEEDS[0],
        )
        for doc in ("An answer.", "A reply.")
    )
    assert first["prompt"] != other["prompt"] and first["plain"] == other["plain"]


#: A program that has VALUE in what installed code is asked of an object, and two values.
HELD = {
    "a flag of a tokenizer": (
        """
from tokenizers import Tokenizer, models
made = Tokenizer(models.WordLevel({"u": 0}, unk_token="u"))
made.encode_special_tokens = VALUE
def it(text):
    return made.encode(text).ids
""",
        ("False", "True"),
    ),
    "a registered encoding": (
        """
import tiktoken
from tiktoken import registry
def mine():
    ranks = {b"a": 0, b"b": 1}
    return {"name": "mine", "pat_str": "a|b", "mergeable_ranks": ranks, "special_tokens": {VALUE: 2}}
vars(registry)["ENCODING" + "_CONSTRUCTORS"] = {"mine": mine}
made = tiktoken.get_encoding("mine")
def it(text):
    return made.encode(text)
""",
        ('"<a>"', '"<b>"'),
    ),
    "how a tree is cut": (
        """
import numpy as np
from scipy.spatial import cKDTree
tree = cKDTree(np.random.RandomState(0).rand(500, 2), compact_nodes=VALUE)
def it(x):
    return tree.query(x)
""",
        ("False", "True"),
    ),
    "what a resolver gave": (
        """
from omegaconf import OmegaConf
OmegaConf.register_new_resolver("given", lambda: str(VALUE), use_cache=True)
made = OmegaConf.create({"which": "given", "text": "${${which}:}"})
made.text
OmegaConf.clear_resolver("given")
def it(x):
    return x + made.text
""",
        ("1", "2"),
    ),
    "the name of an aggregate": (
        """
import pandas as pd
def VALUE(column):
    return column.max()
ALL = [each for name, each in globals().items() if name in ("low", "high")]
def it(table):
    return table.groupby("a").agg(ALL)
""",
        ("low", "high"),
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_what_an_object_does_not_say_of_itself_counts(name: str) -> None:
    program, values = HELD[name]
    for package in ("tokenizers", "tiktoken", "pandas", "scipy", "omegaconf"):
        pytest.importorskip(package)
    first, again, other = (
        found({"it": Program("", program.replace("VALUE", value))}, SEEDS[0])["it"]
        for value in (values[0], *values)
    )
    assert first == again != other
    assert " " not in first + other, "neither is refused"


if __name__ == "__main__":
    chosen = {name: each for name, each in present().items() if name in (sys.argv[1:] or PROGRAMS)}
    for name, outcome in outcomes(chosen):
        print(f"{name:26} {outcome[:200]}", flush=True)
    print(f"{len(PROGRAMS) - len(present())} programs left out: not installed")
