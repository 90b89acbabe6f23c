"""Elements asked for of a pipeline: at once where all are there, and begun again where it is to be cut
otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from prebake.codec.collated import Asked, Collated
from prebake.codec.stacked import stacked
from prebake.compute.restart_signals import Restart
from prebake.leases.read_order import Ahead, unseen
from prebake.pipeline.pipeline import Pipeline
from prebake.purity import tripwire
from prebake.reads.open_records import hidden
from prebake.runtime import patience
from prebake.runtime.daemon import native
from prebake.world import within

#: Of an order that is told in advance: many times what is read ahead, and little to pass on.
EXPECTED_MAX = 8192

Result = TypeVar("Result")


class Requests:
    """What one data set asks its pipeline for."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        #: What waits for a probe in the meantime.
        self._pending: threading.Thread | None = None

    def elements(self, places: Sequence[int], by: Asked, itself: Callable[[], list[Any]]) -> list[Any]:
        """Elements at places in the source; `itself` asks the data set for them, if there is one that has all
        of them as they are."""
        hidden("a data set")

        def uncached() -> list[Any]:
            has_all = self._pipeline.source.original is not None
            return itself() if has_all else self._pipeline.uncached(places)

        if self._is_pending():
            return uncached()
        # `__getitem__`, or one that it or a loader calls, and what that calls.
        self._pipeline.enter(within.of_request(2))
        noted = False
        try:
            found = self._at_once(places, by)
            if found is not None:
                return found
            noted = True
        except Exception:
            # It fails again below, where what was drawn is put back.
            noted = False
        return self._untripped(lambda: self._elements(places, by, noted, itself), uncached)

    def batches(self, order: Sequence[int], size: int, writable: bool) -> Iterator[Any]:
        """Batches in an order of places in the source; see `Dataset.batches`, which goes through these."""
        before = None
        self._pipeline.enter(within.of_request(1))
        if native() is not None:
            hidden("a data set")
            if not self._begins_at_once():
                before = tripwire.state()
                self._untripped(self._begin_epoch, before=before)
        told = 0
        for start in range(0, len(order), size):
            end = min(len(order), start + size)
            if start >= told:
                self._pipeline.expect(order[start : start + EXPECTED_MAX], writable)
                told = start + EXPECTED_MAX * 7 // 8
            self._pipeline.enter(within.of_request(1))
            try:
                batch = self._pipeline.warm.batch(order, start, end, writable)
            except Exception:
                batch = None
            if type(batch) is list:
                batch = stacked(batch)
            if batch is None:
                batch = self._untripped(
                    lambda: self._batch(order, start, end, writable),  # noqa: B023
                    before=before,
                )
            # Only of the first batch: nothing of the user's ran since the epoch began.
            before = None
            yield batch

    def _begins_at_once(self) -> bool:
        """Begins an epoch, if that draws nothing for sure: then what generators are at is not asked for."""
        try:
            return self._pipeline.begin_at_once()
        except Exception:
            return False

    def _begin_epoch(self) -> None:
        """Inputs are looked at again, and the steps' own state."""
        self._pipeline.renew(closely=True)
        self._pipeline.begin()
        self._pipeline.validate()

    def _untripped(
        self,
        make: Callable[[], Result],
        plain: Callable[[], Result] | None = None,
        before: tripwire.Token | None = None,
    ) -> Result:
        """What `make` makes, once the pipeline is cut as it has to be; if it fails, what `plain` does.

        `before` is how the generators are now, if that is known.
        """
        before = tripwire.state() if before is None else before
        while True:
            try:
                return make()
            except Restart as reason:
                # All of it is made anew, so that random steps draw what they drew for it before.
                tripwire.restore(before)
                self._pipeline.again(reason)
            except patience.Pending as pending:
                tripwire.restore(before)
                self._pending = pending.thread
                if plain is not None:
                    break
                pending.thread.join()
                self._is_pending()
            except Exception:
                if plain is None:
                    raise
                # Elements after the one that failed were begun already. As without a cache it is raised by
                # the first that fails, with the generators as they are then: a job may go on.
                tripwire.restore(before)
                break
        # After the handlers: what it raises would be told as raised in one.
        return plain()

    def _is_pending(self) -> bool:
        """Whether a probe goes on. What was found meanwhile is taken up."""
        if self._pending is None:
            return False
        if self._pending.is_alive():
            return True
        self._pending = None
        self._pipeline.restart()
        return False

    def _elements(
        self, places: Sequence[int], by: Asked, noted: bool, itself: Callable[[], list[Any]]
    ) -> list[Any]:
        pipeline = self._pipeline
        if noted:
            # Once more they would be taken for those of another epoch.
            pipeline.renew()
        else:
            pipeline.renew_for(places)
        begun = pipeline.begin()
        if pipeline.source.original is not None and pipeline.is_alone():
            return itself()
        following = places[-1] + 1 if places else 0
        ahead = unseen(range(pipeline.source.count), following, pipeline.client.seen)
        mine: dict[int, Any] = {}
        elements: list[Any] | None = None
        if by is not Asked.BY_OTHERS and pipeline.warm.runs_nothing():
            mine = pipeline.ensure(places, ahead)
            elements = self._collated(places, by)
        if elements is None:
            elements = pipeline.element_list(places, pipeline.gather(places, ahead, mine))
        pipeline.end(begun)
        return elements

    def _at_once(self, places: Sequence[int], by: Asked) -> list[Any] | None:
        """Elements, or what stands for them where a loader has them collated, if all are there and nothing of
        the user's has to run."""
        self._pipeline.renew_for(places)
        if by is Asked.BY_OTHERS:
            return self._pipeline.warm.elements(places)
        return self._collated(places, by)

    def _collated(self, places: Sequence[int], by: Asked) -> list[Any] | None:
        """What stands for elements where a loader makes one batch of them."""
        batch = self._pipeline.warm.collated(places, by is Asked.IN_WORKER)
        return None if batch is None else [Collated(batch)]

    def _batch(self, order: Sequence[int], start: int, end: int, writable: bool) -> Any:
        places, pipeline = order[start:end], self._pipeline
        renewed = pipeline.renew()
        begun = pipeline.begin()
        if renewed:
            pipeline.validate()
        ahead = unseen(order, end, pipeline.client.seen)
        made = self._made(places, ahead, writable)
        pipeline.end(begun)
        return made

    def _made(self, places: Sequence[int], ahead: Ahead, writable: bool) -> Any:
        pipeline = self._pipeline
        if not pipeline.is_whole():
            found = pipeline.gather(places, ahead, validated=True)
            return pipeline.element_list(places, found)
        mine: dict[int, Any] = {}
        array = pipeline.client.array(places, writable)
        if array is None:
            # What was computed here lies in shared memory too, where one native copy makes the batch.
            mine = pipeline.ensure(places, ahead)
            array = pipeline.client.array(places, writable)
        if array is not None:
            return array
        found = pipeline.gather(places, ahead, got=mine, validated=True)
        return stacked(pipeline.element_list(places, found))
