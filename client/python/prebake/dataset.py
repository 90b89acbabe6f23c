"""A wrapped data set: what comes before the first random step is shared, the rest runs in the job."""

from __future__ import annotations

import copy
import operator
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from prebake.codec.collated import Asked, asked
from prebake.pipeline.pipeline import Pipeline
from prebake.pipeline.requests import Requests
from prebake.pipeline.reuse import Reuse
from prebake.runtime import packages, patience
from prebake.runtime.daemon import native
from prebake.runtime.errors import Code, Refused
from prebake.runtime.refusals import not_cached
from prebake.runtime.statistics import Statistics, Stats
from prebake.runtime.transparent import Transparent
from prebake.sources.source import Source, Step

if TYPE_CHECKING:
    from typing import Generic

    import numpy

    # To `isinstance` it is of the class of the one it stands for, and loaders take it as that.
    from torch.utils.data import Dataset as Standing
else:
    from prebake.runtime.transparent import Generic, Standing

T_co = TypeVar("T_co", covariant=True)

#: Elements in a batch unless the caller says otherwise.
BATCH_SIZE = 50


class Dataset(Transparent, Standing[T_co], Generic[T_co]):
    """A wrapped data set, as `wrap` makes it.

    It has the elements, the length, the attributes and, to `isinstance`, the class of the data set that it
    stands for. It is safe to pickle and to fork.

    Examples
    --------
    >>> from pathlib import Path
    >>> import prebake
    >>> def read(path: str) -> str:
    ...     return Path(path).read_text()
    >>> ds = prebake.wrap(sorted(Path("texts").glob("*.txt")), [read, str.lower])
    >>> isinstance(ds, prebake.Dataset), len(ds), ds[0], ds[-1]
    (True, 2, 'bake once', 'serve every job')
    """

    __slots__ = ("_numbered", "_requests", "_pipeline", "_subsets")

    _own = Transparent._own | {"_numbered", "_requests", "_pipeline", "_subsets"}

    def __new__(cls, source: Source, wrapped: Any = None, *_: Any) -> Dataset[T_co]:
        made: Dataset[T_co] = cls._bare(wrapped)
        return made

    def __init__(
        self,
        source: Source,
        wrapped: Any = None,
        subsets: Sequence[Any] = (),
        split: int | None = None,
        reuse: Reuse | None = None,
        token: str | None = None,
        statistics: Statistics | None = None,
    ) -> None:
        self._pipeline = Pipeline(source, split, reuse, token, statistics)
        self._requests = Requests(self._pipeline)
        self._wrapped = wrapped
        #: Of a subset: itself, what that is a subset of, and so on. Their indices may change.
        self._subsets = subsets
        #: The same, given numbers that are no `int`, by their type.
        self._numbered: dict[type, Dataset] = {}

    @property
    def transforms(self) -> list[Step]:
        """The steps, shared ones first. Changing the list changes what is computed.

        Returns
        -------
        list of callable
            The transforms; without any where the data set has none that can be taken apart.

        Examples
        --------
        >>> from pathlib import Path
        >>> import prebake
        >>> def read(path: str) -> str:
        ...     return Path(path).read_text()
        >>> ds = prebake.wrap(sorted(Path("texts").glob("*.txt")), [read, str.lower])
        >>> ds.transforms[1:] = [str.upper]
        >>> ds[0]
        'BAKE ONCE'
        """
        return self._pipeline.steps

    def __len__(self) -> int:
        if self._subsets:
            return len(self._subsets[0].indices)
        # As it is now: it may have grown.
        source, known = self._pipeline.source, hasattr(type(self._wrapped), "__len__")
        return source.length_of(self._wrapped) if known else source.count

    def __getitem__(self, i: int, *more: Any, **named: Any) -> T_co:
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

    def __getitems__(self, indices: Sequence[int]) -> list[T_co]:
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
            # Only sources that are numbered are asked.
            numbered: Any = made.source
            source = numbered.given(number)
            reuse, counted = copy.copy(made.reuse), copy.copy(made.statistics)
            found = Dataset(source, source.dataset, (), made.split, reuse, made.token, counted)
            found = self._numbered.setdefault(number, found)
        return found

    def _at(self, indices: Sequence[Any], places: Sequence[int], by: Asked) -> list[Any]:
        """Elements at places in the source; `indices` are what the data set is asked for itself."""
        return self._requests.elements(places, by, lambda: [self._wrapped[i] for i in indices])

    def batches(
        self, order: Sequence[int] | None = None, size: int = BATCH_SIZE, *, writable: bool = True
    ) -> Iterator[numpy.ndarray[Any, Any] | list[T_co]]:
        """Goes through the data set in batches.

        Files edited before the call are seen. The order is known, so that other jobs' work on later batches
        is used.

        Parameters
        ----------
        order
            The indices of items; without it all items in turn.
        size
            Elements in a batch; the last batch may be short.
        writable
            Whether arrays may be changed in place, which nobody else sees. If False, arrays of whole batches
            cannot be changed; then it costs nothing to know that the last reader did not.

        Yields
        ------
        numpy.ndarray or list
            An array of shape `(size, *element.shape)` if every step is deterministic and the elements are
            arrays of one type and shape; it lies in shared memory if the elements lie side by side. Else a
            list of `size` elements.

        Raises
        ------
        IndexError
            If `order` names an item that is not there.
        Exception
            What a step raises, as without Prebake.

        Examples
        --------
        >>> from pathlib import Path
        >>> import prebake
        >>> def read(path: str) -> str:
        ...     return Path(path).read_text()
        >>> ds = prebake.wrap(sorted(Path("texts").glob("*.txt")), [read, str.lower])
        >>> list(ds.batches(order=[1, 0, 1], size=2))
        [['serve every job', 'bake once'], ['serve every job']]
        """
        order = self._order(range(len(self)) if order is None else order)
        yield from self._requests.batches(order, size, writable)

    def stats(self) -> Stats:
        """Elements by outcome and bytes by tier, since the data set was wrapped or its steps were changed.

        What copies of it did counts, and what other processes did that have it by fork or by pickle, such as
        a loader's workers.

        Returns
        -------
        Stats
            Each count, also where it is zero.

        Examples
        --------
        >>> from pathlib import Path
        >>> import prebake
        >>> def read(path: str) -> str:
        ...     return Path(path).read_text()
        >>> ds = prebake.wrap(sorted(Path("texts").glob("*.txt")), [read])
        >>> texts = list(ds)
        >>> counts = ds.stats()
        >>> counts["computed"] + counts["reused"] + counts["bypassed"] == len(texts)
        True
        """
        return self._pipeline.statistics.read()

    @property
    def knows(self) -> str:
        """In words, how it is known what item i is.

        Returns
        -------
        str
            A sentence for a person.

        Examples
        --------
        >>> from pathlib import Path
        >>> import prebake
        >>> prebake.wrap(sorted(Path("texts").glob("*.txt")), [Path.read_text]).knows
        'item i is the content of file i'
        """
        return self._pipeline.source.knows

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
        reuse, counted = copy.copy(made.reuse), copy.copy(made.statistics)
        return Dataset(source, wrapped, subsets, made.split, reuse, None, counted)

    def __reduce__(self) -> Any:
        # Native handles belong to one process, and the class that shows is not the one to be made.
        made = self._pipeline
        own = (
            made.source,
            self._wrapped,
            self._subsets,
            made.split,
            made.reuse,
            made.token,
            made.statistics,
        )
        return patience.reduced(Dataset, own)


def _is_number(kind: type) -> bool:
    """Whether values of a type are made of an `int`, and are it again."""
    numpy = sys.modules.get("numpy")
    return kind is bool or numpy is not None and issubclass(kind, numpy.integer)
