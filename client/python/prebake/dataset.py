"""A wrapped data set: what comes before the first random step is shared, the rest runs in the job."""

from __future__ import annotations

import copy
import operator
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from prebake.codec.collated import Asked, Collated, asked
from prebake.leases.client import Ahead, unseen
from prebake.leases.restart_signals import Again
from prebake.pipeline.pipeline import Pipeline
from prebake.pipeline.reuse import Reuse
from prebake.pipeline.source import Source, Step
from prebake.purity import tripwire
from prebake.reads.audit import hidden
from prebake.runtime import packages, patience
from prebake.runtime.daemon import native
from prebake.runtime.errors import Code, Refused
from prebake.runtime.refusals import not_cached
from prebake.runtime.transparent import Transparent
from prebake.world import within

#: Elements in a batch unless the caller says otherwise.
BATCH_SIZE = 50
#: Of an order that is told in advance: many times what is read ahead, and little to pass on.
EXPECTED_MAX = 8192

Result = TypeVar("Result")


class Dataset(Transparent):
    """A wrapped data set. Equal to the one it stands for; safe to pickle and to fork."""

    __slots__ = ("_numbered", "_pending", "_pipeline", "_subsets")

    _own = Transparent._own | {"_numbered", "_pending", "_pipeline", "_subsets"}

    def __new__(cls, source: Source, wrapped: Any = None, *_: Any) -> Dataset:
        made: Dataset = cls.bare(wrapped)
        return made

    def __init__(
        self,
        source: Source,
        wrapped: Any = None,
        subsets: Sequence[Any] = (),
        split: int | None = None,
        reuse: Reuse | None = None,
        token: str | None = None,
    ) -> None:
        self._pipeline = Pipeline(source, split, reuse, token)
        #: What waits for a probe in the meantime.
        self._pending: threading.Thread | None = None
        self._wrapped = wrapped
        #: Of a subset: itself, what that is a subset of, and so on. Their indices may change.
        self._subsets = subsets
        #: The same, given numbers that are no `int`, by their type.
        self._numbered: dict[type, Dataset] = {}

    @property
    def transforms(self) -> list[Step]:
        """The steps, shared ones first. Changing the list changes what is computed."""
        return self._pipeline.steps

    def __len__(self) -> int:
        if self._subsets:
            return len(self._subsets[0].indices)
        # As it is now: it may have grown.
        known = hasattr(type(self._wrapped), "__len__")
        return len(self._wrapped) if known else self._pipeline.source.count

    def __getitem__(self, i: int, *more: Any, **named: Any) -> Any:
        if more or named:
            if self._wrapped is None:
                raise TypeError("a data set of files is asked for one item, and for nothing else")
            # Only the data set knows what it makes of these.
            return self._wrapped.__getitem__(i, *more, **named)
        if native() is None and self._pipeline.source.original is not None or self._makes_batches():
            return self._wrapped[i]
        if self._is_odd(i):
            return self._wrapped[i]
        if type(i) is int and not self._subsets and 0 <= i < len(self):
            # As `_several` has it, at once.
            return self._at([i], [i], Asked.BY_OTHERS)[0]
        return self._several([i], Asked.BY_OTHERS)[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Several elements at once, as loaders ask for a batch."""
        if native() is None and self._pipeline.source.original is not None:
            if hasattr(type(self._wrapped), "__getitems__"):
                return self._wrapped.__getitems__(indices)
            return [self._wrapped[i] for i in indices]
        if self._makes_batches():
            return self._wrapped.__getitems__(indices)
        return self._several(indices, asked(sys._getframe(1)))

    def _several(self, indices: Sequence[int], by: Asked) -> list[Any]:
        plain = self._are_plain(indices)
        if not plain and any(map(self._is_odd, indices)):
            return [self[i] for i in indices]
        if plain:
            return self._at(indices, indices, by)
        given = [self._given(i) for i in indices]
        places = [self._in_source(each) for each in given]
        source, numbers = self._pipeline.source, set(map(type, given))
        if source.original is not None and any(operator.index(each) < 0 for each in given):
            # A subset that was changed since it was wrapped; see `wrap.py`.
            return [self._wrapped[i] for i in indices]
        if numbers == {int} or source.original is None or not hasattr(source, "given"):
            return self._at(indices, places, by)
        if len(numbers) > 1:
            return [self[i] for i in indices]
        number = numbers.pop()
        if not _is_number(number):
            why = f"it is asked for by {number.__qualname__}: by int(i) its items would be shared"
            not_cached(Refused(Code.DATASET, why))
            return [self._wrapped[i] for i in indices]
        return self._of(number)._at(given, places, by)

    def _of(self, number: type) -> Dataset:
        """The same of what is given numbers of another type."""
        found = self._numbered.get(number)
        if found is None:
            made = self._pipeline
            source = made.source.given(number)
            found = Dataset(source, source.dataset, (), made.split, copy.copy(made.reuse), made.token)
            found = self._numbered.setdefault(number, found)
        return found

    def _at(self, indices: Sequence[Any], places: Sequence[int], by: Asked) -> list[Any]:
        """Elements at places in the source; `indices` are what the data set is asked for itself."""
        hidden("a data set")

        def uncached() -> list[Any]:
            if self._pipeline.source.original is not None:
                return [self._wrapped[i] for i in indices]
            return self._pipeline.uncached(places)

        if self._is_pending():
            return uncached()
        # `__getitem__`, or one that it or a loader calls.
        self._pipeline.enter(within.of_request(1))
        noted = False
        try:
            found = self._at_once(places, by)
            if found is not None:
                return found
            noted = True
        except Exception:
            # It fails again below, where what was drawn is put back.
            noted = False
        following = places[-1] + 1 if places else 0
        return self._untripped(lambda: self._elements(indices, places, following, by, noted), uncached)

    def batches(
        self, order: Sequence[int] | None = None, size: int = BATCH_SIZE, *, writable: bool = True
    ) -> Iterator[Any]:
        """Batches in an order (indices; by default all of them in turn); the last may be short.

        Each is one NumPy array if every step is deterministic and the elements are arrays of one type and
        shape (over shared memory where they lie side by side), else a list of elements. Files edited before
        the call are seen; the order is known, so that other jobs' work on later batches is used.

        Arrays may be changed in place, which nobody else sees. With `writable=False` those of whole batches
        may not; then it costs nothing to know that the last reader did not.
        """
        order = self._order(range(len(self)) if order is None else order)
        before = None
        self._pipeline.enter(within.of_request())
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
            self._pipeline.enter(within.of_request())
            try:
                batch = self._pipeline.batch_at_once(order, start, end, writable)
            except Exception:
                batch = None
            if type(batch) is list:
                batch = _stacked(batch)
            if batch is None:
                batch = self._untripped(
                    lambda: self._batch(order, start, end, writable),  # noqa: B023
                    before=before,
                )
            # Only of the first batch: nothing of the user's ran since the epoch began.
            before = None
            yield batch

    def stats(self) -> dict[str, int]:
        """This process's elements by outcome (computed, reused, followed, bypassed) and bytes by tier."""
        found = self._pipeline.fill.stats()
        for each in self._numbered.values():
            more = each.stats()
            found = {name: found.get(name, 0) + more.get(name, 0) for name in {**found, **more}}
        return found

    @property
    def knows(self) -> str:
        """In words, how it is known what item i is."""
        return self._pipeline.source.knows

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
            except Again as reason:
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
        self, indices: Sequence[int], places: Sequence[int], following: int, by: Asked, noted: bool
    ) -> list[Any]:
        pipeline = self._pipeline
        if noted:
            # Once more they would be taken for those of another epoch.
            pipeline.renew()
        else:
            pipeline.renew_for(places)
        begun = pipeline.begin()
        if pipeline.source.original is not None and pipeline.is_alone():
            return [self._wrapped[i] for i in indices]
        ahead = unseen(range(pipeline.source.count), following, pipeline.fill.seen)
        mine: dict[int, Any] = {}
        elements: list[Any] | None = None
        if by is not Asked.BY_OTHERS and pipeline.runs_nothing():
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
            return self._pipeline.elements_at_once(places)
        return self._collated(places, by)

    def _collated(self, places: Sequence[int], by: Asked) -> list[Any] | None:
        """What stands for elements where a loader makes one batch of them."""
        batch = self._pipeline.collated_at_once(places, by is Asked.IN_WORKER)
        return None if batch is None else [Collated(batch)]

    def _batch(self, order: Sequence[int], start: int, end: int, writable: bool) -> Any:
        places, pipeline = order[start:end], self._pipeline
        renewed = pipeline.renew()
        begun = pipeline.begin()
        if renewed:
            pipeline.validate()
        ahead = unseen(order, end, pipeline.fill.seen)
        made = self._made(places, ahead, writable)
        pipeline.end(begun)
        return made

    def _made(self, places: Sequence[int], ahead: Ahead, writable: bool) -> Any:
        pipeline = self._pipeline
        if not pipeline.is_whole():
            found = pipeline.gather(places, ahead, validated=True)
            return pipeline.element_list(places, found)
        mine: dict[int, Any] = {}
        array = pipeline.fill.array(places, writable)
        if array is None:
            # What was computed here lies in shared memory too, where one native copy makes the batch.
            mine = pipeline.ensure(places, ahead)
            array = pipeline.fill.array(places, writable)
        if array is not None:
            return array
        found = pipeline.gather(places, ahead, got=mine, validated=True)
        return _stacked(pipeline.element_list(places, found))

    def _makes_batches(self) -> bool:
        """Whether a class of the user's own makes batches otherwise than of items."""
        dataset = getattr(self._pipeline.source, "dataset", None)
        cls = type(dataset)
        if not hasattr(cls, "__getitems__") or packages.owner(cls.__module__) is not None:
            return False
        why = f"{cls.__qualname__}.__getitems__ makes batches as a whole; without it, items would be shared"
        not_cached(Refused(Code.DATASET, why))
        return True

    def _is_odd(self, i: Any) -> bool:
        """Whether only the data set knows what it makes of an index: a slice, a negative number, or one
        past what it says its length is."""
        if self._wrapped is None or self._pipeline.source.original is None:
            return False
        try:
            return not 0 <= operator.index(i) < len(self)
        except TypeError:
            return True

    def _order(self, order: Sequence[int]) -> Sequence[int]:
        """Where in the source the items of an order are."""
        # Of a million items, looking at each here is half a second.
        if isinstance(order, range):
            ends: Sequence[Any] = (order[0], order[-1]) if order else ()
        else:
            ends = order = list(order)
        return order if self._are_plain(ends) else [self._place(i) for i in order]

    def _are_plain(self, indices: Sequence[Any]) -> bool:
        """Whether they are what items have in the source too."""
        if self._subsets or not set(map(type, indices)) <= {int}:
            return False
        return not indices or 0 <= min(indices) <= max(indices) < len(self)

    def _place(self, i: int) -> int:
        return self._in_source(self._given(i))

    def _given(self, i: Any) -> Any:
        """By what the innermost data set is asked for item i."""
        asked_for = operator.index(i)
        place = asked_for + len(self) if asked_for < 0 else asked_for
        if not 0 <= place < len(self):
            raise IndexError(f"item {i} of {len(self)}")
        # What equals no number may be one.
        given = i if place == asked_for else place
        for subset in self._subsets:
            given = subset.indices[operator.index(given)]
        return given

    def _in_source(self, given: Any) -> int:
        place = operator.index(given)
        return place + self._pipeline.source.count if place < 0 else place

    def __copy__(self) -> Dataset:
        """A copy of what is wrapped, wrapped alike."""
        made, wrapped, subsets = self._pipeline, copy.copy(self._wrapped), self._subsets
        source = made.source
        if subsets:
            subsets = [wrapped, *subsets[1:]]
        elif wrapped is not None:
            source = source.over(wrapped)
        return Dataset(source, wrapped, subsets, made.split, copy.copy(made.reuse))

    def __reduce__(self) -> Any:
        # Native handles belong to one process, and the class that shows is not the one to be made.
        made = self._pipeline
        own = made.source, self._wrapped, self._subsets, made.split, made.reuse, made.token
        return patience.reduced(Dataset, own)


def _stacked(found: list[Any]) -> Any:
    """One array of equal arrays; else the list."""
    first = found[0]
    if not hasattr(first, "dtype") or type(first).__module__ != "numpy":
        return found
    import numpy

    if all(
        type(each) is numpy.ndarray and each.dtype == first.dtype and each.shape == first.shape
        for each in found
    ):
        return numpy.stack(found)
    return found


def _is_number(kind: type) -> bool:
    """Whether values of a type are made of an `int`, and are it again."""
    numpy = sys.modules.get("numpy")
    return kind is bool or numpy is not None and issubclass(kind, numpy.integer)
