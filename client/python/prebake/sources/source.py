"""What item i of a data set is, and how it is loaded.

A source yields what the first step of a pipeline gets. Its operators come first in the pipeline's graph, and
its items are known natively: by file, or by number with the files that are read for it.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from prebake.codec.collated import collate
from prebake.identity import graph
from prebake.identity.code import Identity
from prebake.probe.analysis import Verdict
from prebake.reads import external_inputs, object_store
from prebake.runtime import packages
from prebake.runtime.errors import Code, Refused
from prebake.runtime.working_folder import working_folder
from prebake.sources.placeholder import flat

#: One more step of a pipeline.
Step = Callable[..., Any]


class Source(Protocol):
    """Where a pipeline begins."""

    @property
    def count(self) -> int:
        """Items of it."""
        ...

    @property
    def floor(self) -> int:
        """The least number of steps that are worth sharing: 1 if loading costs nothing."""
        ...

    @property
    def root(self) -> str | None:
        """What file names are relative to; None for the folder that all have in common."""
        ...

    @property
    def folder(self) -> str:
        """The folder that the files are in, if the first step is given paths that tell of it; else
        empty."""
        ...

    @property
    def knows(self) -> str:
        """In words, how it is known what item i is."""
        ...

    @property
    def original(self) -> Any:
        """The data set whose items these are, if there is one that has all of them as they are."""
        ...

    @property
    def objects(self) -> dict[int, str]:
        """Items that are objects of a store, by number: their URLs."""
        ...

    @property
    def common(self) -> list[str]:
        """Files that all items read."""
        ...

    @property
    def steps(self) -> list[Step]:
        """What is done with what was loaded."""
        ...

    @property
    def bare(self) -> bool:
        """Whether elements are what the last step returns, and nothing else."""
        ...

    @property
    def plain(self) -> bool:
        """Whether nothing of the user's runs to make an element of what the last step returns."""
        ...

    @property
    def numbered(self) -> Any:
        """What gives items their numbers: while it is equal, item i is the same item."""
        ...

    def refresh(self) -> None:
        """Looks at the data set anew: its user may have changed it."""
        ...

    def shared(self) -> list[Any]:
        """The objects that loading runs, which must not change unseen."""
        ...

    def identities(self) -> list[Identity]:
        """What those are. Raises `Refused`."""
        ...

    def probed(self, steps: Sequence[Step]) -> tuple[Callable[[int], Any], list[Step]]:
        """Loading and steps, as they are sent to a probe: what is given to the first, and all that run."""
        ...

    def accept(self, found: Verdict, items: Sequence[int]) -> int:
        """How many of the steps may be shared, of what a probe found. Raises `Refused`; -1 is none at all."""
        ...

    def kept(self, found: Verdict, items: Sequence[int]) -> list[str]:
        """Files that a probe found to be read once in a process, and that are no item's own."""
        ...

    def operators(self, known: Sequence[Identity]) -> list[graph.Json]:
        """Its part of the graph."""
        ...

    def open(self, collection: Any) -> Any:
        """The native items of a collection."""
        ...

    def open_unread(self, collection: Any) -> Any:
        """Items without what they read, where that is still to be found out."""
        ...

    def load(self, i: int) -> Any:
        """What the first step gets for item i."""
        ...

    def apply(self, value: Any, step: Step) -> Any:
        """One step further."""
        ...

    def parts(self, value: Any) -> list[Any]:
        """The values of the user's in what loading or a step made."""
        ...

    def finish(self, i: int, value: Any, rest: Sequence[Step]) -> Any:
        """The element of item i, from what the shared steps made of it."""
        ...

    def collated(self, indices: Sequence[int], values: Any) -> Any:
        """The batch that torch's `default_collate` makes of the elements, if they are plain, from what it
        makes of the steps' values."""
        ...

    def reads(self, i: int) -> list[str] | None:
        """The files that item i reads; None if that is found out by running it."""
        ...

    def join(self) -> None:
        """Leaves the transform of a data set in its place from now on."""
        ...

    def over(self, dataset: Any) -> Source:
        """The same of another data set of its kind; only of those that have one."""
        ...

    def length_of(self, dataset: Any) -> int:
        """How many items a data set has now. What it opens to tell is none of what it holds."""
        ...

    def leave_out(self, fields: Mapping[str, str]) -> Mapping[str, str]:
        """Loads items without these fields of a data set, too; returns all that are left out."""
        ...


class FileSource:
    """Files: item i is the content of file i, and the first step gets its path."""

    floor = 1
    bare = True
    plain = True
    original = None
    common: list[str] = []  # noqa: RUF012
    knows = "item i is the content of file i"

    def __init__(
        self, files: list[str], steps: list[Step], root: str | None, path_ignored: bool, taken: Any = None
    ) -> None:
        """`taken` are the same files as `remote.absolute` takes them, if they were taken."""
        self.files = files
        self.steps = steps
        self.count = len(files)
        self.root = root
        self.path_ignored = path_ignored
        self._find_objects(taken)

    def _find_objects(self, taken: Any = None) -> None:
        #: As they are, for native items; None if they are not that simple.
        self._taken = object_store.absolute(self.files) if taken is None else taken
        self.objects = {} if self._taken is not None else object_store.objects(self.files)
        if self.objects:
            self.knows = "item i is object i by URL, etag, version and size, or the content of file i"
        self.folder = "" if self.path_ignored or self.objects else self._folder()

    def _folder(self) -> str:
        if self.root is not None:
            # Names count below what is said to be the root.
            return ""
        if self._taken is not None:
            return str(self._taken.folder)
        return os.path.normpath(os.path.join(working_folder(), above(self.files))) if self.files else ""

    def refresh(self) -> None:
        pass

    def over(self, dataset: Any) -> Source:
        raise AssertionError("files are of no data set")

    def length_of(self, dataset: Any) -> int:
        return len(dataset)

    def leave_out(self, fields: Mapping[str, str]) -> Mapping[str, str]:
        return {}

    def join(self) -> None:
        raise AssertionError("files have nothing to be parted")

    def shared(self) -> list[Any]:
        return []

    def identities(self) -> list[Identity]:
        return []

    def probed(self, steps: Sequence[Step]) -> tuple[Callable[[int], Any], list[Step]]:
        return self.load, list(steps)

    def accept(self, found: Verdict, items: Sequence[int]) -> int:
        other = [*found.unhooked, *found.listed]
        if other:
            raise Refused(Code.UNDECLARED, f"the steps read {other[0]}, which is none of the files")
        return found.deterministic_until

    def kept(self, found: Verdict, items: Sequence[int]) -> list[str]:
        return found.shared

    def operators(self, known: Sequence[Identity]) -> list[graph.Json]:
        return [graph.files(self.path_ignored)]

    def open(self, collection: Any) -> Any:
        if self.objects:
            return external_inputs.mixed(collection, self.root, self.files, self.objects)
        return collection.files(self.root, self._taken or self.files)

    def __getstate__(self) -> dict[str, Any]:
        # What is native belongs to one process; in another it is taken from the list.
        return {**self.__dict__, "_taken": None}

    def open_unread(self, collection: Any) -> Any:
        raise AssertionError("what files read is known")

    def load(self, i: int) -> Any:
        return self.files[i]

    def apply(self, value: Any, step: Step) -> Any:
        return step(value)

    def parts(self, value: Any) -> list[Any]:
        return [value]

    def finish(self, i: int, value: Any, rest: Sequence[Step]) -> Any:
        for step in rest:
            value = step(value)
        return value

    def collated(self, indices: Sequence[int], values: Any) -> Any:
        return values

    def reads(self, i: int) -> list[str] | None:
        return [self.files[i]]

    @property
    def numbered(self) -> Any:
        return self.files


class FolderSource(FileSource):
    """A data set like torchvision's ImageFolder: file i is loaded and transformed, and has a target."""

    bare = False

    def __init__(self, dataset: Any, added: Sequence[Step], root: str | None, path_ignored: bool) -> None:
        self.dataset = dataset
        self._added = list(added)
        self._is_rooted = root is not None
        own = root if root is not None else getattr(dataset, "root", None)
        super().__init__([], [], os.fspath(own) if own is not None else None, path_ignored)
        self.refresh()

    def refresh(self) -> None:
        dataset = self.dataset
        samples = dataset.samples if hasattr(dataset, "samples") else dataset.imgs
        self.files = paths([file for file, _ in samples])
        self.count = len(self.files)
        self._find_objects()
        own = getattr(dataset, "transform", None)
        self.steps = [dataset.loader, *(flat(own) if own is not None else []), *self._added]
        whole = not self._added and hasattr(type(dataset), "__getitem__")
        self.original = dataset if whole else None
        self._targets = [target for _, target in samples]

    def _folder(self) -> str:
        module = getattr(self.dataset.loader, "__module__", None) or ""
        if self._is_rooted or packages.owner(module) is not None:
            # What packages have looks at the content.
            return ""
        return (
            super()._folder()
            if self.root is None
            else os.path.normpath(os.path.join(working_folder(), self.root))
        )

    def over(self, dataset: Any) -> FolderSource:
        """The same of another data set of its kind."""
        made = copy.copy(self)
        made.dataset = dataset
        made.refresh()
        return made

    def shared(self) -> list[Any]:
        return [self.dataset]

    def finish(self, i: int, value: Any, rest: Sequence[Step]) -> Any:
        target, transform = self._targets[i], getattr(self.dataset, "target_transform", None)
        value = super().finish(i, value, rest)
        return value, target if transform is None else transform(target)

    @property
    def plain(self) -> bool:
        return getattr(self.dataset, "target_transform", None) is None

    def collated(self, indices: Sequence[int], values: Any) -> Any:
        return [values, collate([self._targets[i] for i in indices])]


class Listed:
    """Names of files of which the texts do not tell all: as a data set, whose items are what was listed."""

    def __init__(self, names: list[Any]) -> None:
        self.names = [os.fspath(each) if _is_path(type(each)) else each for each in names]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: int) -> Any:
        return self.names[i]


def are_names(listed: list[Any]) -> bool:
    """Whether files are known by their names below the folder that all are in, as they are written: nothing
    but texts and plain paths, no two of which can be the same file by another spelling."""
    if not all(kind is str or _is_path(kind) for kind in set(map(type, listed))):
        return False
    texts = paths(listed)
    if object_store.objects(texts):
        return True
    # What all begin with does not count.
    start = len(above(texts))
    return not _may_be_others([text[start:] for text in texts])


def _may_be_others(names: list[str]) -> bool:
    """Whether a name is absolute, or has a part that leads nowhere or back."""
    # One text of all is looked through in a tenth of the time that each takes by itself.
    all_names = "/" + "/\0/".join(names) + "/"
    return any(detour in all_names for detour in ("//", "/./", "/../"))


def above(texts: list[str]) -> str:
    """What all paths begin with, up to a bar."""
    prefix = os.path.commonprefix([min(texts, default=""), max(texts, default="")])
    return prefix[: prefix.rfind("/") + 1]


def _is_path(kind: type) -> bool:
    """Whether it is one of Python's own paths, which tells no more than its text."""
    return kind.__module__.startswith("pathlib")


def paths(files: Sequence[Any]) -> list[str]:
    """Paths as they are given to the operating system. Raises `TypeError` if one is none."""
    listed = list(files)
    return listed if object_store.are_files(listed) else list(map(os.fspath, listed))
