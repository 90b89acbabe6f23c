"""Circles among a crate's modules are found, whatever way they are written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "lint"))

import circles


def crate(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        file = folder / f"{name.replace('__', '/')}.rs"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


@pytest.mark.parametrize(
    "back",
    [
        "use crate::a::A;",
        "use crate::{\n    c,\n    a::{\n        A,\n        B,\n    },\n};",
        "fn f() -> crate::a::A {\n    crate::a::make()\n}",
    ],
)
def test_a_circle_is_told_in_order(tmp_path: Path, back: str) -> None:
    source = crate(tmp_path, lib="mod a;", a="use crate::b::B;", b__inner=back, b="mod inner;", c="")
    assert circles.circle(circles.modules(source)[""]) in (["a", "b", "a"], ["b", "a", "b"])


@pytest.mark.parametrize(
    ("there", "back"),
    [
        ("use super::two::Two;", "use super::one::One;"),
        ("use crate::{\n    c,\n    room::{Room, two::{self, Two}},\n};", "use super::{\n    one::One\n};"),
        ("use crate::room::two;", "fn f() {\n    super::one::f()\n}"),
    ],
)
def test_a_circle_within_a_folder_is_found(tmp_path: Path, there: str, back: str) -> None:
    front = "mod one;\nmod two;\nuse two::Two;\npub struct Room;\n"
    source = crate(tmp_path, lib="mod room;", room__mod=front, room__one=there, room__two=back, c="")
    found = circles.modules(source)
    assert circles.circle(found["room"]) in (["one", "two", "one"], ["two", "one", "two"])
    assert circles.circle(found[""]) == []


def test_a_folder_and_what_lies_in_it_may_use_each_other(tmp_path: Path) -> None:
    front = "mod inner;\nuse inner::Inner;\npub struct Room;\n"
    source = crate(
        tmp_path, lib="mod room;", room__mod=front, room__inner="use super::Room;\nuse crate::room::Room;"
    )
    assert circles.modules(source) == {"": {"room": set()}, "room": {"inner": set()}}


def test_what_is_said_in_tests_and_comments_is_no_import(tmp_path: Path) -> None:
    tests = "#[cfg(test)]\n#[allow(x)]\nmod tests {\n    use crate::a::A;\n}\n"
    text = f"/// See [`crate::a`].\npub struct B;\n{tests}"
    source = crate(tmp_path, main="", a="use crate::b::{self, B};", b=text, a__tests="use crate::a;")
    found = circles.modules(source)
    assert found[""] == {"a": {"b"}, "b": set()}
    assert circles.circle(found[""]) == []
