"""diskcache: SQLite, and a file for each large value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import diskcache
from values import COUNT, make

PACKAGES = ("diskcache", "numpy")


def store(place: Path) -> None:
    """Makes and sets all."""
    read(place)


def read(place: Path) -> list[Any]:
    """Gets each, or makes and sets it."""
    found = []
    with diskcache.Cache(str(place / "cache")) as cache:
        for number in range(COUNT):
            value = cache.get(number)
            if value is None:
                value = make(number)
                cache.set(number, value)
            found.append(value)
    return found
