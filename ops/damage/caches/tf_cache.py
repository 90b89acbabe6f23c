"""tf.data's `cache(filename)`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from values import COUNT, make

PACKAGES = ("tensorflow-cpu", "numpy")


def store(place: Path) -> None:
    """Goes through all."""
    (place / "cache").mkdir(exist_ok=True)
    read(place)


def read(place: Path) -> list[Any]:
    """Goes through all again."""
    data = made().cache(str(place / "cache" / "values"))
    return [value.numpy() for value in data]


def made() -> Any:
    """The data set that is cached."""
    return tf.data.Dataset.range(COUNT).map(
        lambda number: tf.numpy_function(_element, [number], tf.uint8, stateful=False)
    )


def _element(number: np.int64) -> Any:
    return make(int(number))
