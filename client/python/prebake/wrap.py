"""`prebake.wrap`: a data set whose deterministic part is shared with every job on the node."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from prebake import graph, snapshot
from prebake._job import native
from prebake.code import Identity
from prebake.errors import Code, Refused, warn_once
from prebake.fill import Fill, unseen
from prebake.marks import Random, is_random

Transform = Callable[[Any], Any]

#: Elements in a batch unless the caller says otherwise.
BATCH_SIZE = 50


def wrap(
    dataset: Any,
    transforms: Sequence[Transform] | None = None,
    *,
    root: str | os.PathLike[str] | None = None,
    path: bool = True,
) -> Dataset:
    """A map-style data set with the same elements, computed once for all jobs on the node.

    `dataset` is a list of file paths, or an object like torchvision's ImageFolder (`samples` or `imgs`,
    `loader`). The first of `transforms` gets the path, or for an ImageFolder what its loader made of it. The
    first random transform (see `prebake.random`) and all after it run in the job, every time; what comes
    before is shared.

    `root` is the folder that file names are relative to (by default the data set's own, or the common one).
    With `path=False` a renamed or moved file is the same input; then no transform may look at the path.

    Raises `Refused` if `dataset` is of another kind.
    """
    if isinstance(dataset, (list, tuple)):
        return _of_files(dataset, transforms, root, path)
    if hasattr(dataset, "loader") and (hasattr(dataset, "samples") or hasattr(dataset, "imgs")):
        return _of_folder(dataset, transforms, root, path)
    raise Refused(
        Code.DATASET,
        f"wrap cannot see into a {type(dataset).__qualname__}: give it a list of file paths with the "
        "transforms, or an object with .samples and .loader like torchvision's ImageFolder",
    )


def _of_files(files: Any, transforms: Any, root: Any, path: bool) -> Dataset:
    if not all(isinstance(file, (str, os.PathLike)) for file in files):
        raise Refused(Code.DATASET, "wrap takes a list of file paths; this list holds something else")
    if not transforms:
        raise Refused(
            Code.DATASET, "wrap needs the transforms: the first gets the path, the last makes the element"
        )
    return Dataset([os.fspath(file) for file in files], list(transforms), root, path)


def _of_folder(dataset: Any, transforms: Any, root: Any, path: bool) -> Dataset:
    own = getattr(dataset, "transform", None)
    if transforms is None:
        transforms = _steps(own)
    elif own is not None:
        raise Refused(
            Code.DATASET, "the data set has a transform of its own; give the transforms in one place"
        )
    if _overrides(dataset):
        raise Refused(
            Code.DATASET, f"{type(dataset).__qualname__} makes its items in a way that wrap cannot see"
        )
    samples = dataset.samples if hasattr(dataset, "samples") else dataset.imgs
    wrapped = Dataset(
        [os.fspath(file) for file, _ in samples],
        [dataset.loader, *transforms],
        root if root is not None else getattr(dataset, "root", None),
        path,
    )
    wrapped.wrapped = dataset
    wrapped.targets = [target for _, target in samples]
    wrapped.target_transform = getattr(dataset, "target_transform", None)
    return wrapped


def _steps(transform: Any) -> list[Transform]:
    """A composed transform's steps. Only `Compose` applies all of its `transforms` in order."""
    if transform is None:
        return []
    if isinstance(transform, (list, tuple)):
        return list(transform)
    if type(transform).__name__ == "Compose" and hasattr(transform, "transforms"):
        return [step for each in transform.transforms for step in _steps(each)]
    return [transform]


def _overrides(dataset: Any) -> bool:
    """Whether a subclass of torchvision's folder makes its items its own way."""
    for cls in type(dataset).__mro__:
        if "__getitem__" in vars(cls):
            known = cls.__module__ == "torchvision.datasets.folder"
            return not known and any(c.__module__ == "torchvision.datasets.folder" for c in cls.__mro__)
    return False


class Dataset:
    """A wrapped data set. Equal to applying the transforms to every file; safe to pickle and to fork."""

    def __init__(self, files: list[str], transforms: list[Transform], root: Any, path: bool) -> None:
        self.files = files
        self.transforms = transforms
        #: The class or value of each file, handed through beside the element.
        self.targets: list[Any] | None = None
        self.target_transform: Transform | None = None
        #: The data set that this one stands for, if it is more than a list; its attributes are found here
        #: too.
        self.wrapped: Any = None
        self._root = os.fspath(root) if root is not None else None
        self._path_ignored = not path
        self._fill = self._make_fill()

    def _make_fill(self) -> Fill:
        self._cut = next(
            (i for i, each in enumerate(self.transforms) if is_random(each)), len(self.transforms)
        )
        #: What the transforms were when the collection was opened; None while it is not.
        self._known: list[Identity] | None = None
        #: What they held when that was last seen to be so.
        self._held: list[Any] = []
        return Fill(self._open, self._deterministic, len(self.files), self._unchanged)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> Any:
        i = self._index(i)
        self._renew()
        return self._element(i, self._fill.get(i))

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Several elements at once, as loaders ask for a batch."""
        indices = [self._index(i) for i in indices]
        following = indices[-1] + 1 if indices else 0
        self._renew()
        found = self._fill.many(indices, unseen(range(len(self)), following, self._fill.seen))
        return [self._element(i, value) for i, value in zip(indices, found, strict=True)]

    def batches(self, order: Sequence[int] | None = None, size: int = BATCH_SIZE) -> Iterator[Any]:
        """Batches in an order (indices; by default all of them in turn); the last may be short.

        Each is one NumPy array if every transform is deterministic and the elements are arrays of one type
        and shape (over shared memory where they lie side by side), else a list of elements. Files edited
        before the call are seen; the order is known, so that other jobs' work on later batches is used.
        """
        order = range(len(self)) if order is None else [self._index(i) for i in order]
        self._refresh()
        for start in range(0, len(order), size):
            yield self._batch(order, start, min(len(order), start + size))

    def _batch(self, order: Sequence[int], start: int, end: int) -> Any:
        indices = list(order[start:end])
        ahead = unseen(order, end, self._fill.seen)
        if self._renew():
            self._fill.validate()
        if self._cut < len(self.transforms) or self.targets is not None:
            found = self._fill.many(indices, ahead, validated=True)
            return [self._element(i, value) for i, value in zip(indices, found, strict=True)]
        mine: dict[int, Any] = {}
        array = self._fill.array(indices)
        if array is None:
            # What was computed here lies in shared memory too, where one native copy makes the batch.
            mine = self._fill.ensure(indices, ahead, read_back=True)
            array = self._fill.array(indices)
        return array if array is not None else _stacked(self._fill.many(indices, ahead, mine, validated=True))

    def stats(self) -> dict[str, int]:
        """This process's elements by outcome (computed, reused, followed, bypassed) and bytes by tier."""
        return self._fill.stats()

    def _refresh(self) -> None:
        """At the start of an epoch: looks at the inputs again, and at the transforms' own state."""
        if native() is None:
            return
        self._renew(closely=True)
        self._fill.validate()

    def _renew(self, closely: bool = False) -> bool:
        """Leaves the collection if the transforms are others than it was opened for; whether it did."""
        if self._unchanged(closely):
            return False
        self._fill.reset()
        return True

    def _unchanged(self, closely: bool) -> bool:
        if self._known is None:
            return True
        held = snapshot.take(self._shared())
        if not closely and snapshot.same(held, self._held):
            return True
        try:
            unchanged = graph.identities(self._shared()) == self._known
        except Exception:
            # It cannot be known any more; opening the collection anew says why.
            return False
        if unchanged:
            self._held = held
        return unchanged

    def _shared(self) -> list[Transform]:
        """The transforms whose results are shared."""
        return self.transforms[: self._cut]

    def _open(self, job: Any) -> Any:
        self._known = None
        if not self._cut:
            raise Refused(Code.RANDOM, "every transform is random, so nothing can be shared")
        held, known = snapshot.take(self._shared()), graph.identities(self._shared())
        collection = job.plan(graph.of_files(self._shared(), self._path_ignored, known))
        self._held, self._known = held, known
        if collection.bypass:
            warn_once(f"bypass {collection.bypass}", f"not cached: {collection.bypass}")
            return None
        return collection.files(self._base(), self.files)

    def _base(self) -> str:
        if self._root is not None:
            return self._root
        if not self.files:
            return os.curdir
        return os.path.commonpath([os.path.dirname(os.path.abspath(file)) for file in self.files])

    def _index(self, i: int) -> int:
        place = operator.index(i)
        place += len(self) if place < 0 else 0
        if not 0 <= place < len(self):
            raise IndexError(f"item {i} of {len(self)}")
        return place

    def _deterministic(self, i: int) -> Any:
        value: Any = self.files[i]
        for transform in self._shared():
            value = transform(value)
        return value

    def _element(self, i: int, value: Any) -> Any:
        for transform in self.transforms[self._cut :]:
            value = transform.function(value) if isinstance(transform, Random) else transform(value)
        if self.targets is None:
            return value
        target = self.targets[i]
        return value, target if self.target_transform is None else self.target_transform(target)

    def __getattr__(self, name: str) -> Any:
        wrapped = vars(self).get("wrapped")
        if wrapped is None or name.startswith("_"):
            raise AttributeError(f"{type(self).__qualname__} has no attribute {name!r}")
        return getattr(wrapped, name)

    def __getstate__(self) -> dict[str, Any]:
        # Native handles belong to one process.
        return {name: value for name, value in vars(self).items() if name not in ("_fill", "_known", "_held")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._fill = self._make_fill()


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
