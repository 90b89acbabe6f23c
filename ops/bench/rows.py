"""Measured figures: samples, their median and spread, and the bar they are held against."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

#: Resamples of a bootstrap: the ends of a 95 % interval are then steady to a few percent of its width.
RESAMPLES = 2_000
CONFIDENCE = 0.95


@dataclass
class Row:
    """One figure. A sample is one pair's ratio, or one measurement where there is nothing to pair it with."""

    id: str
    #: What the figure is of, for people.
    of: str
    #: Which way is better: `higher` or `lower`.
    better: str
    #: What the median must reach; None if it is only reported.
    bar: float | None = None
    samples: list[float] = field(default_factory=list)
    #: Of what it was measured with, where that is not what the benchmark runs by.
    versions: dict[str, str] = field(default_factory=dict)

    def add(self, samples: Iterable[float]) -> Row:
        """This row with more samples."""
        self.samples += samples
        return self

    def figures(self) -> dict[str, Any]:
        """The median, the 95 % bootstrap interval of the median, and the extremes."""
        low, high = _interval(self.samples)
        return {
            "id": self.id,
            "of": self.of,
            "value": statistics.median(self.samples),
            "low": low,
            "high": high,
            "min": min(self.samples),
            "max": max(self.samples),
            "better": self.better,
            "pairs": len(self.samples),
            "bar": self.bar,
            "versions": self.versions,
        }


def _interval(samples: list[float]) -> tuple[float, float]:
    # Seeded: the same samples have the same interval.
    numbers = random.Random(0)
    medians = sorted(statistics.median(numbers.choices(samples, k=len(samples))) for _ in range(RESAMPLES))
    outside = round(RESAMPLES * (1 - CONFIDENCE) / 2)
    return medians[outside], medians[-1 - outside]


def table(rows: list[dict[str, Any]]) -> str:
    """All rows for people, and whether each meets its bar."""
    head = f"{'row':26}{'median':>9}{'95 % interval':>20}{'min - max':>20}{'n':>4}{'bar':>9}  {'met':5}of"
    return "\n".join([head, *(_line(row) for row in rows)])


def _line(row: dict[str, Any]) -> str:
    interval = f"{row['low']:.3f} - {row['high']:.3f}"
    extremes = f"{row['min']:.3f} - {row['max']:.3f}"
    bar = "" if row["bar"] is None else f"{'>=' if row['better'] == 'higher' else '<='} {row['bar']:g}"
    return (
        f"{row['id']:26}{row['value']:9.3f}{interval:>20}{extremes:>20}{row['pairs']:4}{bar:>9}  "
        f"{_met(row):5}{row['of']}"
    )


def _met(row: dict[str, Any]) -> str:
    """`yes` or `NO` by the median; with `?` if the bar lies within the interval, so that another run may say
    otherwise."""
    if row["bar"] is None:
        return ""
    higher = row["better"] == "higher"
    met = row["value"] >= row["bar"] if higher else row["value"] <= row["bar"]
    return ("yes" if met else "NO") + ("?" if row["low"] <= row["bar"] <= row["high"] else "")
