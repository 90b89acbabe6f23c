"""The counts as a table in Markdown, and as a line for each cache."""

from __future__ import annotations

from collections import Counter
from typing import Any

OUTCOMES = ("right", "error", "wrong", "hang")


def counts(trials: list[dict[str, Any]]) -> dict[str, Counter[str]]:
    """Of each cache, in the order in which they come."""
    found: dict[str, Counter[str]] = {}
    for trial in trials:
        found.setdefault(trial["cache"], Counter())[trial["outcome"]] += 1
    return found


def table(trials: list[dict[str, Any]]) -> str:
    """A row for each cache and a column for each kind of damage; a cell has what came of its trials."""
    kinds = list(dict.fromkeys(trial["kind"] for trial in trials))
    rows = [["cache", *kinds, "all"]]
    for cache in counts(trials):
        of_cache = [trial for trial in trials if trial["cache"] == cache]
        cells = [_cell([trial for trial in of_cache if trial["kind"] == kind]) for kind in kinds]
        rows.append([cache, *cells, _cell(of_cache)])
    rows.insert(1, ["---"] * len(rows[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def lines(trials: list[dict[str, Any]], versions: dict[str, dict[str, str]]) -> list[str]:
    """`name version: trials, right, error, wrong, hang`."""
    found = []
    for cache, count in counts(trials).items():
        version = next(iter(versions[cache].values()))
        counted = ", ".join(f"{count[outcome]} {outcome}" for outcome in OUTCOMES)
        found.append(f"{cache} {version}: {count.total()} trials, {counted}")
    return found


def _cell(trials: list[dict[str, Any]]) -> str:
    """Only what occurred."""
    count = Counter(trial["outcome"] for trial in trials)
    return ", ".join(f"{count[outcome]} {outcome}" for outcome in OUTCOMES if count[outcome])
