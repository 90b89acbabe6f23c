"""Named parts of an identity: they say which part changed, and are no part of the digest."""

from __future__ import annotations

import base64
import functools
import json
import os
from typing import Any

import pytest

from prebake.encoding import leaves
from prebake.encoding.leaves import Leaf
from prebake.identity import graph
from prebake.identity.code import identify

WIDTH = 3
TABLE = {"a": 1, "b": [1, 2]}


def helper(x: Any) -> Any:
    return x[:WIDTH], TABLE


class Resize:
    def __init__(self, size: Any) -> None:
        self.size = size

    def __call__(self, x: Any) -> Any:
        return helper(x)


def transform(x: Any, scale: int = 2, *, mode: str = "area") -> Any:
    return helper(x), scale, mode, os.environ.get("PREBAKE_TEST_LEAF")


def named(value: Any) -> dict[str, Leaf]:
    found = identify(value).leaves
    assert len({leaf.path for leaf in found}) == len(found)
    return {leaf.path: leaf for leaf in found}


def changed(a: dict[str, Leaf], b: dict[str, Leaf]) -> set[str]:
    return {path for path in a.keys() | b.keys() if a.get(path) != b.get(path)}


def test_each_part_has_a_name_a_kind_and_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREBAKE_TEST_LEAF", "on")
    found = named(transform)
    kinds = {path: leaf.kind for path, leaf in found.items()}
    assert kinds["-> helper"] == "code"
    assert found["-> helper"].location.startswith("test_leaves.py:")
    assert (kinds["-> helper -> WIDTH"], found["-> helper -> WIDTH"].shown) == ("global", "3")
    assert found["-> helper -> TABLE['a']"].shown == "1"
    assert (kinds["scale"], kinds["mode"], found["mode"].shown) == ("default", "default", "'area'")
    assert (kinds["[env] PREBAKE_TEST_LEAF"], found["[env] PREBAKE_TEST_LEAF"].shown) == (
        "environment",
        "'on'",
    )
    assert kinds["package python"] == "version"
    assert all(len(leaf.digest) == leaves.LEAF_DIGEST_BYTES for leaf in found.values())


def closure(k: Any) -> Any:
    return lambda x: (x, k)


@pytest.mark.parametrize(
    ("a", "b", "path"),
    [
        (Resize(1), Resize(2), "size"),
        (Resize([1, 2]), Resize([1, 3]), "size"),
        (closure(1), closure("1"), "k"),
        (functools.partial(helper, 1), functools.partial(helper, 2), "args"),
        (Resize({"w": 1, "h": 2}), Resize({"w": 1, "h": 3}), "size['h']"),
        ([Resize(1), Resize(2)], [Resize(1), Resize(3)], "[1].size"),
    ],
)
def test_a_change_is_in_the_leaf_that_it_is_in(a: Any, b: Any, path: str) -> None:
    assert changed(named(a), named(a)) == set()
    assert changed(named(a), named(b)) == {path}


def test_a_change_of_a_constant_or_a_variable_is_in_its_leaf(monkeypatch: pytest.MonkeyPatch) -> None:
    before = named(transform)
    monkeypatch.setitem(globals(), "WIDTH", 4)
    assert changed(before, named(transform)) == {"-> helper -> WIDTH"}
    monkeypatch.undo()
    monkeypatch.setenv("PREBAKE_TEST_LEAF", "other")
    assert changed(before, named(transform)) == {"[env] PREBAKE_TEST_LEAF"}


def test_secrets_count_and_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def reads(x: Any) -> Any:
        return os.environ["PREBAKE_TEST_TOKEN"], os.environ["PREBAKE_TEST_LEAF"]

    monkeypatch.setenv("PREBAKE_TEST_LEAF", "seen")
    monkeypatch.setenv("PREBAKE_TEST_TOKEN", "hush")
    found = named(reads)
    assert (found["[env] PREBAKE_TEST_TOKEN"].shown, found["[env] PREBAKE_TEST_LEAF"].shown) == ("", "'seen'")
    monkeypatch.setenv("PREBAKE_TEST_TOKEN", "other")
    assert changed(found, named(reads)) == {"[env] PREBAKE_TEST_TOKEN"}


def test_leaves_are_bounded_and_the_rest_is_one() -> None:
    many = [Resize(i) for i in range(2 * leaves.LEAVES_MAX)]
    other = [*many[:-1], Resize(-1)]
    a, b = identify({i: r for i, r in enumerate(many[:30])}), identify([[each] for each in many[:30]])
    assert len(a.leaves) < leaves.LEAVES_MAX and len(b.leaves) < leaves.LEAVES_MAX
    wide = {f"k{i}": {f"m{j}": j for j in range(30)} for i in range(30)}
    found = identify(wide).leaves
    assert len(found) == leaves.LEAVES_MAX
    wide["k29"]["m29"] = -1
    assert changed({leaf.path: leaf for leaf in found}, named(wide)) == {"..."}
    assert identify(many).digest != identify(other).digest


def test_values_are_shown_short_or_not_at_all() -> None:
    assert leaves.shown("x" * 1000) == "'" + "x" * (leaves.SHOWN_MAX - 4) + "..."
    assert leaves.shown([1, {"a": None}]) == "[1, {'a': None}]"
    assert leaves.shown(10**100_000) == ""
    assert leaves.shown(object()) == ""
    assert len(leaves.shown(["x" * 100] * 30)) == leaves.SHOWN_MAX


def test_operators_carry_them() -> None:
    operator = json.loads(graph.of_call(helper, identify(helper)))["operators"][1]
    width = next(leaf for leaf in operator["leaves"] if leaf["path"] == "-> WIDTH")
    assert (width["kind"], width["shown"], width["location"]) == ("global", "3", "")
    assert len(base64.b64decode(width["digest"])) == leaves.LEAF_DIGEST_BYTES
