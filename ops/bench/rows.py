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
    #: A/A: measured against itself, so that it must be 1.
    same: bool = False
    #: Elements a second of both sides of each pair, where that is what is compared.
    speeds: list[tuple[float, float]] = field(default_factory=list)

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
            "same": self.same,
            "speeds": [statistics.median(side) for side in zip(*self.speeds, strict=True)],
        }


def _interval(samples: list[float]) -> tuple[float, float]:
    # Seeded: the same samples have the same interval.
    numbers = random.Random(0)
    medians = sorted(statistics.median(numbers.choices(samples, k=len(samples))) for _ in range(RESAMPLES))
    outside = round(RESAMPLES * (1 - CONFIDENCE) / 2)
    return medians[outside], medians[-1 - outside]
