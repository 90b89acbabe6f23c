"""The report of a run: rows for machines, a table for people, and what the run was made under.

The rows are the judged form: a list. What holds of the run as a whole lies beside it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: How far what is measured against itself may be from 1: beyond, the machine was not quiet, and no other
#: figure of the run can be believed to a few percent either.
SAME_WITHIN = 0.02
VOID = "void"


def void(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Why the run says nothing: each A/A row that is not within 1 +- 0.02; empty if it counts."""
    return [
        f"{row['id']} is {row['value']:.3f}, not within 1 ± {SAME_WITHIN}"
        for row in rows
        if row["same"] and not 1 - SAME_WITHIN <= row["value"] <= 1 + SAME_WITHIN
    ]


def met(row: dict[str, Any]) -> str:
    """`yes` only if the whole 95 % interval is on the good side of the bar; else `NO`, with `?` if the bar
    lies within the interval, so that another run may say otherwise. Empty without a bar."""
    if row["bar"] is None:
        return ""
    higher = row["better"] == "higher"
    if row["low"] >= row["bar"] if higher else row["high"] <= row["bar"]:
        return "yes"
    return "NO?" if row["low"] <= row["bar"] <= row["high"] else "NO"


def write(out: Path, rows: Sequence[dict[str, Any]], run: dict[str, Any]) -> str:
    """Writes `out` (the list of rows), `-run.json` (the rest) and `.md` beside it; returns the Markdown."""
    out.parent.mkdir(parents=True, exist_ok=True)
    run = {**run, VOID: void(rows)}
    text = markdown(rows, run)
    out.write_text(json.dumps(rows, indent=2))
    out.with_name(f"{out.stem}-run.json").write_text(json.dumps(run, indent=2))
    out.with_suffix(".md").write_text(text)
    return text


def markdown(rows: Sequence[dict[str, Any]], run: dict[str, Any]) -> str:
    """The report for people."""
    head = [
        "# What Prebake costs and gains",
        "",
        *(
            [f"**This run is {VOID}: {'; '.join(run[VOID])}.** Its rows are shown all the same.", ""]
            if run[VOID]
            else []
        ),
        "Medians of pairs that ran by turns, with the 95 % bootstrap interval. A bar is met only if the",
        "whole interval clears it; `?`: the bar lies within it.",
        "",
        "| row | median | 95 % interval | min - max | pairs | bar | met | of |",
        "| --- | ---: | --- | --- | ---: | --- | --- | --- |",
        *(_line(row) for row in rows),
        "",
    ]
    speeds = [row for row in rows if row["speeds"]]
    if speeds:
        head += [
            "## Elements a second",
            "",
            "| row | Prebake | the other |",
            "| --- | ---: | ---: |",
            *(f"| {row['id']} | {row['speeds'][0]:,.0f} | {row['speeds'][1]:,.0f} |" for row in speeds),
            "",
        ]
    if run["not_run"]:
        head += ["## Not run", "", *(f"- {name}: {reason}" for name, reason in run["not_run"].items()), ""]
    facts = {name: value for name, value in run.items() if name not in {"not_run", VOID}}
    head += ["## The run", "", *(f"- {name}: {_fact(value)}" for name, value in facts.items()), ""]
    return "\n".join(head)


def _line(row: dict[str, Any]) -> str:
    bar = "" if row["bar"] is None else f"{'>=' if row['better'] == 'higher' else '<='} {row['bar']:g}"
    return (
        f"| {row['id']} | {row['value']:.3f} | {row['low']:.3f} - {row['high']:.3f} "
        f"| {row['min']:.3f} - {row['max']:.3f} | {row['pairs']} "
        f"| {bar} | {met(row)} | {row['of']} |"
    )


def _fact(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
