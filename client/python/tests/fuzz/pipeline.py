"""Draws a pipeline: steps on images, then on arrays, some of them random."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import steps

Step = Callable[[Any], Any]

ON_IMAGES = [steps.look_up, steps.call_helper]
ON_ARRAYS = [
    steps.add_nested,
    steps.scale_by_global,
    steps.add_option,
    steps.add_chained,
    steps.add_variable,
    steps.call_inner,
    steps.add_constant,
    steps.call_bound,
    steps.add_remembered,
    steps.add_default,
]


def draw(numbers: random.Random) -> steps.Compose:
    """A pipeline of two to a dozen steps; the same for the same state of the generator."""
    chosen: list[Step] = [steps.shrink] if numbers.random() < 0.5 else []
    images = [step for step in ON_IMAGES if numbers.random() < 0.3]
    chosen = images + chosen if numbers.random() < 0.5 else chosen + images
    arrays = [step for step in ON_ARRAYS if numbers.random() < 0.2]
    arrays.append(numbers.choice(_held(numbers)))
    if numbers.random() < 0.2:
        arrays.append(steps.PythonNoise())
    if numbers.random() < 0.2:
        arrays.append(steps.NumpyNoise())
    numbers.shuffle(arrays)
    return steps.Compose([*chosen, steps.to_array, *arrays])


def _held(numbers: random.Random) -> Sequence[Step]:
    """Steps that are made, by all the ways to hold something; one of them is in each pipeline."""
    return [
        steps.Holding(numbers.randint(0, 9)),
        steps.WithProperty(),
        steps.WithSlots(),
        steps.BOUND.go,
        steps.closure(steps.CELL),
        functools.partial(steps.add_default, offsets=[4, 5]),
        steps.to_array,
    ]
