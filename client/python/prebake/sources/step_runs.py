"""How an item is made: loaded, and given to one step after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prebake.execution import executed
from prebake.known import marks
from prebake.purity import tripwire
from prebake.sources.source import Source, Step


class StepRuns:
    """A source and the steps after it; `split` is how many of them their user vouches for."""

    def __init__(self, source: Source, steps: Sequence[Step], split: int | None) -> None:
        self._source, self._steps, self._split = source, steps, split

    def load(self, i: int, end: int) -> Any:
        """Item i after the first steps, from nothing that is cached."""
        return self.run(self._source.load(i), 0, end)

    def run(self, value: Any, start: int, end: int) -> Any:
        """A value after the steps from one to another."""
        for step in self._steps[start:end]:
            value = self.apply(value, step)
        return value

    def apply(self, value: Any, step: Step) -> Any:
        """One step further. For what runs in a step that its user vouches for, he does too."""
        if self._split is None and not marks.is_pure(step):
            return self._source.apply(value, step)
        with executed.unwatched():
            return self._source.apply(value, step)

    def culprit(self, i: int, end: int) -> Any:
        """The step that draws random numbers for item i, or the source if loading does; None if neither."""
        if not self._source.floor and tripwire.draws(lambda: self._source.load(i)):
            return self._source
        value = self._source.load(i)
        for step in self._steps[:end]:
            made: list[Any] = []
            given = value
            if tripwire.draws(lambda: made.append(self._source.apply(given, step))):  # noqa: B023
                return step
            value = made[-1]
        return None
