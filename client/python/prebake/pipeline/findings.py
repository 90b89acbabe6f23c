"""What a process learnt of a pipeline while it ran, which holds however the pipeline is cut."""

from __future__ import annotations

from prebake.known import determinism
from prebake.runtime.errors import Code, Refused
from prebake.runtime.refusals import not_cached
from prebake.sources.source import Step

#: What was probed so often, as something else each time, and could never be shared, changes itself: no more
#: is tried.
FUTILE_MAX = 4
#: So many requests in a row found the pipeline changed. Each costs a description, and perhaps a probe, for
#: what no other request asks for: nothing is shared from then on.
CHANGED_MAX = 8
#: So many probes in a row, each of something else: what a probe imports may change it, as code does that
#: writes to a file when it is imported.
PROBES_MAX = 12


class Findings:
    """Of one pipeline."""

    def __init__(self) -> None:
        #: Steps that were seen to draw random numbers.
        self.drew: list[Step] = []
        #: Loading itself draws: nothing can be shared.
        self.loading_draws = False
        #: Probes in a row after which nothing could be shared; and probes in a row.
        self.futile = self.probes = 0
        #: Items in a row that the data set keeps in memory.
        self.kept_in_row = 0
        #: Requests in a row before which it was changed.
        self._changed = 0

    def is_random(self, step: Step) -> bool:
        """Whether a step is marked as random, or was seen to draw."""
        return determinism.is_random(step) or any(step is each for each in self.drew)

    def is_hopeless(self) -> bool:
        """Whether nothing of it is to be shared."""
        return (
            self.loading_draws
            or self.futile >= FUTILE_MAX
            or self._changed >= CHANGED_MAX
            or self.probes >= PROBES_MAX
        )

    def requested(self, changed: bool) -> None:
        """Takes note of a request, before which the pipeline was `changed`."""
        if self._changed >= CHANGED_MAX:
            return
        self._changed = self._changed + 1 if changed else 0
        if self._changed == CHANGED_MAX:
            why = "the steps, or files that they name, change between requests: each would be alone"
            not_cached(Refused(Code.CARRIES_STATE, why))
