"""Reasons to take a pipeline otherwise and make an item anew.

They are no `Exception`s: user code, which runs between raising and catching them, must not catch them.
"""

from __future__ import annotations

from typing import Any

from prebake.purity import tripwire


class Restart(BaseException):
    """What was begun is to be left, and begun again once the pipeline is cut otherwise."""


class Tripped(Restart):
    """Making an item drew random numbers from a generator that the process shares: nothing was stored of it.

    The generators were at `before`; `culprit` is what draws, for whoever knows the pipeline.
    """

    def __init__(self, generator: str, before: tripwire.Token, culprit: Any) -> None:
        super().__init__(generator)
        self.generator = generator
        self.before = before
        self.culprit = culprit


class Moved(Restart):
    """The cut was moved by another thread: what was made before it and what was done after it may not fit."""


class Inseparable(Restart):
    """A data set does more with what its transform returns than to hand it on."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
