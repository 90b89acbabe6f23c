"""The report's form, and when it says that it says nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import pytest
import report
from rows import Row

RUN = {"size": "small", "not_run": {"ffcv": "it does not build"}}
#: What every row says, by the issue's form.
KEYS = {"id", "value", "low", "high", "better", "pairs", "versions"}


def figures(**changed: Any) -> dict[str, Any]:
    """A row of three pairs."""
    return Row(
        **{"id": "a", "of": "what", "better": "higher", "samples": [0.99, 1.0, 1.01], **changed}
    ).figures()


def test_the_report_is_a_list_of_rows(tmp_path: Path) -> None:
    out = tmp_path / "made" / "bench.json"
    report.write(out, [figures(), figures(id="b", versions={"peer": "1"})], RUN)
    rows = json.loads(out.read_text())
    assert [row["id"] for row in rows] == ["a", "b"]
    assert all(row.keys() >= KEYS and row["pairs"] == 3 for row in rows)
    assert rows[1]["versions"] == {"peer": "1"}
    run = json.loads((out.parent / "bench-run.json").read_text())
    assert run["size"] == "small" and run["void"] == []


def test_what_was_not_run_is_listed_with_its_reason(tmp_path: Path) -> None:
    text = report.write(tmp_path / "bench.json", [figures()], RUN)
    assert "ffcv: it does not build" in text
    assert text == (tmp_path / "bench.md").read_text()
    assert "void" not in text


@pytest.mark.parametrize("samples", [[1.03, 1.03, 1.03], [0.97, 0.97, 0.97]])
def test_a_run_whose_a_a_row_is_off_is_void_and_still_shown(tmp_path: Path, samples: list[float]) -> None:
    rows = [figures(id="same", same=True, samples=samples), figures(id="other")]
    text = report.write(tmp_path / "bench.json", rows, RUN)
    assert "void: same is" in text and "| other |" in text
    assert len(json.loads((tmp_path / "bench.json").read_text())) == 2
    assert json.loads((tmp_path / "bench-run.json").read_text())["void"]


def test_a_a_rows_within_two_percent_void_nothing() -> None:
    assert report.void([figures(same=True, samples=[1.02, 1.02]), figures(samples=[3.0])]) == []


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"bar": 0.9}, "yes"),
        ({"bar": 0.995}, "NO?"),
        ({"bar": 2.0}, "NO"),
        ({"bar": 1.1, "better": "lower"}, "yes"),
        ({"bar": 0.5, "better": "lower"}, "NO"),
        ({}, ""),
    ],
)
def test_a_bar_is_met_only_if_the_whole_interval_clears_it(changed: dict[str, Any], says: str) -> None:
    assert report.met(figures(**changed)) == says


def test_speeds_are_medians_of_both_sides() -> None:
    row = figures(speeds=[(100.0, 10.0), (300.0, 30.0), (200.0, 20.0)])
    assert row["speeds"] == [200.0, 20.0]
    assert "| a | 200 | 20 |" in report.markdown([row], {**RUN, "void": []})
