"""joblib.Memory: a folder for each call, found by its arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joblib
from values import COUNT, make

PACKAGES = ("joblib", "numpy")


def store(place: Path) -> None:
    """Calls all."""
    read(place)


def read(place: Path) -> list[Any]:
    """Calls all again."""
    cached = joblib.Memory(str(place / "cache"), verbose=0).cache(make)
    return [cached(number) for number in range(COUNT)]
