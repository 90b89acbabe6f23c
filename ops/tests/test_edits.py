"""One-line edits of the adoption stacks: each is one line, parses, and leaves what is no user's code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ADOPTION = Path(__file__).parents[1] / "adoption"
sys.path.insert(0, str(ADOPTION))

from edits import HARNESS, edits  # noqa: E402

STACKS = sorted((ADOPTION / "stacks").glob("*.py"))


@pytest.mark.parametrize("script", STACKS, ids=lambda path: path.stem)
def test_an_edit_changes_one_line_of_users_code(script: Path) -> None:
    text = script.read_text()
    found = edits(text, 40, 7)
    assert found == edits(text, 40, 7) != edits(text, 40, 8)
    assert len({edit.of(text) for edit in found}) == len(found) >= 20
    for edit in found:
        before, after = text.splitlines(), edit.of(text).splitlines()
        assert len(before) == len(after)
        changed = [i for i, (one, two) in enumerate(zip(before, after, strict=True), 1) if one != two]
        assert changed == [edit.line]
        assert not any(word in before[edit.line - 1] for word in HARNESS)


def test_edits_of_a_line() -> None:
    text = "def f(x):\n    x = g(x, a=1)\n    return (x, 2)\n"
    lines = {edit.after.strip() for edit in edits(text, 99, 0)}
    assert lines == {
        *("x = g(x, a=2)", "x = g(x, a=0)", "x = g(x, )", "pass"),
        *("return (x, 3)", "return (x, 4)", "return (x, 1)", "return ( 2)", "return (2, x)"),
    }
