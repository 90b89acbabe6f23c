"""`prebake.wrap`: a data set whose deterministic part is shared with every job on the node."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any

from prebake.dataset import Dataset
from prebake.errors import Code, Refused, not_cached
from prebake.mapped import DatasetSource, Inputs, is_iterable_style, is_map_style
from prebake.source import FileSource, FolderSource, Step, paths
from prebake.stream import IterableDataset, SizedIterableDataset, is_stream, wrapped


def wrap(
    dataset: Any,
    transforms: Sequence[Step] | None = None,
    *,
    root: str | os.PathLike[str] | None = None,
    path: bool = True,
    inputs: Inputs | Sequence[str | os.PathLike[str]] | None = None,
) -> Any:
    """A data set with the same elements, computed once for all jobs on the node.

    `dataset` is one of:

    - a list of file paths. The first of `transforms` gets the path.
    - an object like torchvision's ImageFolder (`samples` or `imgs`, `loader`): item i is its file's content.
    - a subset (`torch.utils.data.Subset`) of anything that wrap takes: it shares with the whole. Of a
      `ConcatDataset` each part is wrapped.
    - any other object with `__getitem__` and `__len__`. Item i is the object itself (its code and what it
      holds), the number i, and the files that it reads for it: those that `inputs(i)` names, or else those
      that it is seen to open.
    - an object that is iterated (`torch.utils.data.IterableDataset`). Its elements are shared in the order in
      which it yields them, as far as what it asks for is the same: its lists, item by item, and the files
      that it is seen to open or that `inputs` names.

    What can be none of these is returned as it is, with a warning.

    The data set's own transform (`transform`, or `transforms`) is taken apart: the first random step (see
    `prebake.random`) and all after it run in the job, every time; what comes before is shared.

    `root` is the folder that file names are relative to (by default the data set's own, or the common one).
    With `path=False` a renamed or moved file is the same input; then no transform may look at the path.

    Raises `Refused` if `dataset` is no data set, or the arguments do not go together.
    """
    if type(dataset) is Dataset and transforms is None:
        return dataset
    if type(dataset) in (IterableDataset, SizedIterableDataset) and not transforms:
        return dataset
    if isinstance(dataset, (list, tuple)) and transforms:
        return _of_files(dataset, transforms, root, path)
    if _is_of_torch(dataset, "Subset"):
        return _of_subset(dataset, transforms, root, path, inputs)
    if _is_of_torch(dataset, "ConcatDataset") and inputs is None:
        parts = [wrap(each, transforms, root=root, path=path) for each in dataset.datasets]
        return _with(dataset, "datasets", parts)
    if not is_iterable_style(dataset) and inputs is None and _is_folder(dataset):
        return _of_folder(dataset, transforms, root, path)
    if is_iterable_style(dataset) or is_stream(dataset) and not is_map_style(dataset):
        return _of_stream(dataset, transforms, inputs)
    if not is_map_style(dataset):
        return _as_it_is(dataset, transforms)
    _refuse_two(dataset, transforms)
    source = DatasetSource(dataset, _folder(root), not path, inputs, transforms or ())
    return Dataset(source, dataset)


def _of_files(files: Any, transforms: Any, root: Any, path: bool) -> Dataset:
    if not all(issubclass(kind, (str, os.PathLike)) for kind in set(map(type, files))):
        raise Refused(Code.DATASET, "wrap takes a list of file paths; this list holds something else")
    return Dataset(FileSource(paths(files), list(transforms), _folder(root), not path))


def _as_it_is(dataset: Any, transforms: Any) -> Any:
    """A data set that cannot be shared: a job that wraps it goes on as without. Raises `Refused` on what is
    no data set, or if there are transforms, which a data set as it is would be without."""
    name = type(dataset).__qualname__
    what = "give it a list of file paths with the transforms, or an object with __getitem__ and __len__"
    if transforms or isinstance(dataset, (str, bytes)) or not hasattr(type(dataset), "__iter__"):
        raise Refused(Code.DATASET, f"wrap cannot see into a {name}: {what}")
    not_cached(Refused(Code.DATASET, f"wrap returns a {name} as it is: {what}"))
    return dataset


def _of_stream(dataset: Any, transforms: Any, inputs: Any) -> Any:
    if transforms:
        raise Refused(Code.DATASET, f"a {type(dataset).__qualname__} is iterated: apply the transforms in it")
    paths = [inputs] if isinstance(inputs, (str, os.PathLike)) else inputs or ()
    if callable(paths) or not all(isinstance(path, (str, os.PathLike)) for path in paths):
        raise Refused(
            Code.DATASET, "inputs of a data set that is iterated are the paths of the files it reads"
        )
    return wrapped(dataset, [os.fspath(path) for path in paths])


def _is_folder(dataset: Any) -> bool:
    """Whether it keeps its files as torchvision's folders do, and makes its items as they do."""
    if not (hasattr(dataset, "loader") and (hasattr(dataset, "samples") or hasattr(dataset, "imgs"))):
        return False
    for cls in type(dataset).__mro__:
        if "__getitem__" in vars(cls):
            known = cls.__module__ == "torchvision.datasets.folder"
            return known or not any(c.__module__ == "torchvision.datasets.folder" for c in cls.__mro__)
    return True


def _of_folder(dataset: Any, transforms: Any, root: Any, path: bool) -> Dataset:
    _refuse_two(dataset, transforms)
    return Dataset(FolderSource(dataset, transforms or (), _folder(root), not path), dataset)


def _refuse_two(dataset: Any, transforms: Any) -> None:
    own = [getattr(dataset, name, None) for name in ("transform", "transforms")]
    if transforms is not None and own != [None, None]:
        raise Refused(
            Code.DATASET, "the data set has a transform of its own; give the transforms in one place"
        )


def _is_of_torch(dataset: Any, name: str) -> bool:
    cls = type(dataset)
    return (cls.__module__, cls.__qualname__) == ("torch.utils.data.dataset", name)


def _of_subset(dataset: Any, transforms: Any, root: Any, path: bool, inputs: Inputs | None) -> Any:
    whole = wrap(dataset.dataset, transforms, root=root, path=path, inputs=inputs)
    if type(whole) is not Dataset:
        return _with(dataset, "dataset", whole)
    return Dataset(whole._pipeline.source, dataset, [dataset, *whole._subsets])


def _with(dataset: Any, name: str, value: Any) -> Any:
    """The same data set over another."""
    made = copy.copy(dataset)
    setattr(made, name, value)
    return made


def _folder(root: Any) -> str | None:
    return os.fspath(root) if root is not None else None
