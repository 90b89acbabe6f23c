"""`prebake.wrap`: a data set whose deterministic part is shared with every job on the node."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, overload

from prebake.dataset import Dataset
from prebake.known.marks import Split
from prebake.pipeline.reuse import Reuse, uncounted
from prebake.reads import object_store
from prebake.runtime.errors import Code, Refused
from prebake.runtime.refusals import not_cached
from prebake.sources.mapped import DatasetSource, Inputs, is_iterable_style, is_map_style
from prebake.sources.source import FileSource, FolderSource, Listed, Source, Step, are_names, paths
from prebake.stream import IterableDataset, is_stream

T_co = TypeVar("T_co", covariant=True)
Stream = TypeVar("Stream", bound=Iterable[Any])
#: Files that are read, beside those that are seen to be opened.
Paths = Sequence[str | os.PathLike[str]]


class MapStyle(Protocol[T_co]):
    """A data set that is asked for item i."""

    def __getitem__(self, index: int, /) -> T_co: ...


class Sized(MapStyle[T_co], Protocol[T_co]):
    """A data set that is asked for item i, and how many it has."""

    def __len__(self) -> int: ...


@overload
def wrap(
    dataset: Sized[T_co],
    transforms: Split | None = None,
    *,
    root: str | os.PathLike[str] | None = None,
    path: bool = True,
    inputs: Inputs | Paths | None = None,
    reuse: int = 1,
) -> Dataset[T_co]: ...
@overload
def wrap(
    dataset: Stream,
    transforms: None = None,
    *,
    root: str | os.PathLike[str] | None = None,
    path: bool = True,
    inputs: str | os.PathLike[str] | Paths | None = None,
    reuse: int = 1,
) -> Stream: ...
@overload
def wrap(
    dataset: MapStyle[T_co],
    transforms: Split | None = None,
    *,
    root: str | os.PathLike[str] | None = None,
    path: bool = True,
    inputs: Inputs | Paths | None = None,
    reuse: int = 1,
) -> Dataset[T_co]: ...
@overload
def wrap(
    dataset: MapStyle[Any],
    transforms: Sequence[Step],
    *,
    root: str | os.PathLike[str] | None = None,
    path: bool = True,
    inputs: Inputs | Paths | None = None,
    reuse: int = 1,
) -> Dataset[Any]: ...
def wrap(
    dataset: Any,
    transforms: Sequence[Step] | Split | None = None,
    *,
    root: str | os.PathLike[str] | None = None,
    path: bool = True,
    inputs: Any = None,
    reuse: int = 1,
) -> Any:
    """A data set with the same elements, computed once for all jobs on the node.

    The data set's own transform (`transform`, or `transforms`) is taken apart: the first random step (see
    `prebake.random`) and all after it run in the job, every time; what comes before is shared.

    Parameters
    ----------
    dataset
        One of:

        - a list of file paths. The first of `transforms` gets the path.
        - an object like torchvision's ImageFolder (`samples` or `imgs`, `loader`): item i is its file's
          content.
        - a subset (`torch.utils.data.Subset`) of anything that wrap takes: it shares with the whole. Of a
          `ConcatDataset` each part is wrapped.
        - any other object with `__getitem__` and `__len__`. Item i is the object itself (its code and what it
          holds), the number i, and the files that it reads for it: those that `inputs(i)` names, or else
          those that it is seen to open.
        - an object that is iterated (`torch.utils.data.IterableDataset`). Its elements are shared in the
          order in which it yields them, as far as what it asks for is the same: its lists, item by item, and
          the files that it is seen to open or that `inputs` names.
    transforms
        The steps from an item to an element, each given what the one before returned. A data set that has
        transforms of its own takes none, or a `split` alone.
    root
        The folder that file names are relative to; by default the data set's own, or the common one, which
        then counts too.
    path
        If False, a renamed or moved file is the same input; then no transform may look at the path.
    inputs
        The files that are read for item i, as a function of i; of what is iterated, their paths.
    reuse
        How many times (in so many epochs) what the random part makes of an item is given before it is made
        anew. It draws nothing in between: a run is then not bit for bit what it is without. By default
        nothing random is ever given twice.

    Returns
    -------
    Dataset or the type of `dataset`
        A `Dataset`; of what is iterated, a data set that looks like it. What cannot be shared at all is
        returned as it is, with a warning.

    Raises
    ------
    Refused
        R30, if `dataset` is no data set, or the arguments do not go together.

    Examples
    --------
    >>> from pathlib import Path
    >>> import prebake
    >>> def read(path: str) -> str:
    ...     return Path(path).read_text()
    >>> ds = prebake.wrap(sorted(Path("texts").glob("*.txt")), [read, str.split])
    >>> len(ds), ds[0]
    (2, ['Bake', 'once'])
    """
    if reuse < 1:
        raise Refused(Code.DATASET, f"what is random is used once or more often, not {reuse} times")
    steps, split = _parted(transforms)
    return _wrap(dataset, steps, _How(_folder(root), path, inputs, split, reuse))


class _How(NamedTuple):
    """What is asked for beside the transforms; see `wrap`."""

    root: str | None
    path: bool
    inputs: Any
    split: int | None
    reuse: int

    def of(self, source: Source, dataset: Any = None, subsets: Sequence[Any] = ()) -> Dataset:
        return Dataset(source, dataset, subsets, self.split, self._reuse(source))

    def _reuse(self, source: Source) -> Reuse | None:
        if self.reuse == 1:
            return None
        try:
            return Reuse(self.reuse, source.count)
        except OSError as error:
            not_cached(uncounted(error))
            return None


def _parted(transforms: Any) -> tuple[list[Step] | None, int | None]:
    """The transforms without where they are cut, and that."""
    given = [transforms] if isinstance(transforms, Split) else transforms
    if given is None:
        return None, None
    split = next((each.at for each in given if isinstance(each, Split)), None)
    steps = [each for each in given if not isinstance(each, Split)]
    return (None if split is not None and not steps else steps), split


def _wrap(dataset: Any, steps: list[Step] | None, how: _How) -> Any:
    if issubclass(type(dataset), (Dataset, IterableDataset)) and steps is None:
        return dataset
    # What stands for a list is one too.
    lists: Any = (list, tuple)
    if isinstance(dataset, lists) and steps:
        return _of_files(dataset, steps, how)
    if _is_of_torch(dataset, "Subset"):
        return _of_subset(dataset, steps, how)
    if _is_of_torch(dataset, "ConcatDataset") and how.inputs is None:
        return _with(dataset, "datasets", [_wrap(each, steps, how) for each in dataset.datasets])
    iterated = is_iterable_style(dataset) or is_stream(dataset) and not is_map_style(dataset)
    if iterated and not _is_folder(dataset):
        return _of_stream(dataset, steps, how)
    if how.inputs is None and _is_folder(dataset):
        _refuse_two(dataset, steps)
        return how.of(FolderSource(dataset, steps or (), how.root, not how.path), dataset)
    if not is_map_style(dataset):
        return _as_it_is(dataset, steps)
    _refuse_two(dataset, steps)
    return how.of(DatasetSource(dataset, how.root, not how.path, how.inputs, steps or ()), dataset)


def _of_files(given: Any, steps: list[Step], how: _How) -> Dataset:
    listed = list(given)
    taken = object_store.absolute(listed)
    if taken is None:
        names: Any = (str, os.PathLike)
        if not all(issubclass(kind, names) for kind in set(map(type, listed))):
            raise Refused(Code.DATASET, "wrap takes a list of file paths; this list holds something else")
        if not are_names(listed):
            return how.of(DatasetSource(Listed(listed), how.root, not how.path, how.inputs, steps))
        listed = paths(listed)
    return how.of(FileSource(listed, steps, how.root, not how.path, taken))


def _as_it_is(dataset: Any, steps: Any) -> Any:
    """A data set that cannot be shared: a job that wraps it goes on as without. Raises `Refused` on what is
    no data set, or if there are transforms, which a data set as it is would be without."""
    name = type(dataset).__qualname__
    what = "give it a list of file paths with the transforms, or an object with __getitem__ and __len__"
    if steps or isinstance(dataset, (str, bytes)) or not hasattr(type(dataset), "__iter__"):
        raise Refused(Code.DATASET, f"wrap cannot see into a {name}: {what}")
    not_cached(Refused(Code.DATASET, f"wrap returns a {name} as it is: {what}"))
    return dataset


def _of_stream(dataset: Any, steps: Any, how: _How) -> Any:
    name = type(dataset).__qualname__
    if steps or how.split is not None or how.reuse != 1:
        raise Refused(Code.DATASET, f"a {name} is iterated and taken as a whole: apply the transforms in it")
    given = [how.inputs] if isinstance(how.inputs, (str, os.PathLike)) else how.inputs or ()
    if callable(given) or not all(isinstance(each, (str, os.PathLike)) for each in given):
        raise Refused(Code.DATASET, f"a {name} is iterated: its inputs are the paths of the files it reads")
    return IterableDataset(dataset, [os.fspath(each) for each in given])


def _is_folder(dataset: Any) -> bool:
    """Whether it keeps its files as torchvision's folders do, and makes its items as they do."""
    try:
        named = [hasattr(dataset, name) for name in ("loader", "samples", "imgs")]
    except Exception:
        # Its own code answers, and has none.
        return False
    if not (named[0] and any(named[1:])):
        return False
    for cls in type(dataset).__mro__:
        if "__getitem__" in vars(cls):
            known = cls.__module__ == "torchvision.datasets.folder"
            return known or not any(c.__module__ == "torchvision.datasets.folder" for c in cls.__mro__)
    return True


def _refuse_two(dataset: Any, steps: Any) -> None:
    own = [getattr(dataset, name, None) for name in ("transform", "transforms")] if steps is not None else []
    if steps is not None and own != [None, None]:
        raise Refused(
            Code.DATASET, "the data set has a transform of its own; give the transforms in one place"
        )


def _is_of_torch(dataset: Any, name: str) -> bool:
    cls = type(dataset)
    return (cls.__module__, cls.__qualname__) == ("torch.utils.data.dataset", name)


def _of_subset(dataset: Any, steps: Any, how: _How) -> Any:
    whole = _wrap(dataset.dataset, steps, how)
    if not issubclass(type(whole), Dataset) or _counts_from_end(dataset.indices):
        return _with(dataset, "dataset", whole)
    made = whole._pipeline
    subsets, counted = [dataset, *whole._subsets], copy.copy(made.statistics)
    return Dataset(made.source, dataset, subsets, made.split, made.reuse, None, counted)


def _counts_from_end(indices: Any) -> bool:
    """Whether a subset asks for items by negative numbers: what those give, only the data set knows."""
    try:
        # Arrays and tensors have their own, which takes a thousandth of the time.
        least = indices.min if hasattr(indices, "min") else lambda: min(indices)
        return bool(len(indices) and least() < 0)
    except Exception:
        # Of whatever kind they are: then it is asked as it is.
        return True


def _with(dataset: Any, name: str, value: Any) -> Any:
    """The same data set over another."""
    made = copy.copy(dataset)
    setattr(made, name, value)
    return made


def _folder(root: Any) -> str | None:
    return os.fspath(root) if root is not None else None
