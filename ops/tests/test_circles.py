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
    assert circles.circle(circles.modules(source)) in (["a", "b", "a"], ["b", "a", "b"])


def test_what_is_said_in_tests_and_comments_is_no_import(tmp_path: Path) -> None:
    tests = "#[cfg(test)]\n#[allow(x)]\nmod tests {\n    use crate::a::A;\n}\n"
    text = f"/// See [`crate::a`].\npub struct B;\n{tests}"
    source = crate(tmp_path, main="", a="use crate::b::{self, B};", b=text, a__tests="use crate::a;")
    assert circles.modules(source) == {"a": {"b"}, "b": set()}
    assert circles.circle(circles.modules(source)) == []
