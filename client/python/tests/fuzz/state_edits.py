"""Edits of what a process holds: globals, classes, functions, variables, steps, the data set itself."""

from __future__ import annotations

import os
from typing import Any

import helper
import numpy as np
import settings
import steps
from target import Target


def configuration(job: Target) -> None:
    steps.CONFIG["scale"] += 1


def deep(job: Target) -> None:
    steps.CONFIG["deep"]["a"][2]["b"] += 1


def lookup_table(job: Target) -> None:
    """An array is written to in place."""
    steps.CONFIG["table"][:] = steps.CONFIG["table"][::-1].copy()
    steps.CONFIG["table"][3] = job.numbers.randrange(256)


def class_attributes(job: Target) -> None:
    steps.Constants.gamma += 1
    steps.Constants.size += 1


def inherited_attribute(job: Target) -> None:
    steps.Called.factor += 1


def step_method(job: Target) -> None:
    """A method of a step's class is exchanged."""

    def f(self: Any, a: Any) -> Any:
        return a.astype(np.float32) - 5

    steps.Holding.f = f  # type: ignore[method-assign]


def bound_method(job: Target) -> None:
    """The function of a method that is bound already."""

    def go(self: Any, x: Any) -> Any:
        return np.asarray(x).astype(np.float64) + 1000

    steps.Bound.go = go  # type: ignore[method-assign]


def helper_global(job: Target) -> None:
    helper.BIAS += 1


def helper_function(job: Target) -> None:
    helper.shift = job.numbers.choice([helper.invert, helper.mirror])


def module_global(job: Target) -> None:
    steps.FACTOR += 1


def array_global(job: Target) -> None:
    steps.THRESHOLDS[0] += 1


def object_global(job: Target) -> None:
    """A name is bound to another object."""
    steps.OPTIONS = steps.Options(a=job.numbers.randrange(99))


def object_field(job: Target) -> None:
    steps.OPTIONS.a += 1


def other_module(job: Target) -> None:
    settings.NUM += 1


def other_module_of_it(job: Target) -> None:
    settings.inner.VALUE += 1


def variable(job: Target) -> None:
    os.environ["FUZZ_OFFSET"] = str(job.numbers.randrange(99))


def cell(job: Target) -> None:
    steps.CELL["v"] += 1


def default(job: Target) -> None:
    steps.add_default.__kwdefaults__["offsets"][0] += 1


def bound_object(job: Target) -> None:
    steps.BOUND.c += 1


def held_array(job: Target) -> None:
    for step in job.steps_of(steps.Holding):
        step.array[2] += 1


def held_table(job: Target) -> None:
    for step in job.steps_of(steps.Holding):
        step.table[7] += 1


def held_nested(job: Target) -> None:
    for step in job.steps_of(steps.Holding):
        step.nested["x"]["y"][1] += 1


def held_otherwise(job: Target) -> None:
    """What a property returns, and what lies in a slot: no `__dict__` has it under the name that is read."""
    for behind in job.steps_of(steps.WithProperty):
        behind._v += 1
    for slotted in job.steps_of(steps.WithSlots):
        slotted.q += 1


def extra(job: Target) -> None:
    """A field of the data set."""
    if hasattr(job.raw, "extra"):
        job.raw.extra += 1


def epoch(job: Target) -> None:
    """A field that was its class's until then."""
    if hasattr(job.raw, "epoch"):
        job.raw.epoch += 1


def weights(job: Target) -> None:
    """A large array of the data set is written to in place."""
    if hasattr(job.raw, "weights"):
        job.raw.weights[job.numbers.randrange(len(job.raw))] += 5


def data_in_memory(job: Target) -> None:
    if hasattr(job.raw, "data"):
        job.raw.data[job.numbers.randrange(len(job.raw))] = job.raw.data[0] // 2
