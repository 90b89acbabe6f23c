"""Any map-style data set as a source: item i is the data set itself, the number i and the files it reads.

Which files those are is declared (`inputs=fn(i)`), or found out by watching the item being loaded
(`discovery.py`).
"""

from __future__ import annotations

import copy
import functools
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from prebake.compute.restart_signals import Inseparable
from prebake.encoding.digests import digest
from prebake.execution import executed
from prebake.identity import graph
from prebake.identity.code import Identity, identify
from prebake.memo.probe_cache import others_of
from prebake.probe.analysis import Verdict
from prebake.reads.record import PATHS_MAX
from prebake.runtime import packages
from prebake.runtime.errors import Code, Refused
from prebake.sources.lazy_fields import Before, LazyFields
from prebake.sources.placeholder import Parted
from prebake.sources.source import Step

#: Files that hold many items, which libraries read in C and often keep open: where a data set names one, all
#: of its items read it.
CONTAINERS = frozenset(
    {".h5", ".hdf5", ".npy", ".npz", ".parquet", ".arrow", ".feather", ".db", ".sqlite", ".tar", ".zip"}
)

Inputs = Callable[[int], Any]
_CONTEXT = "prebake 2026 numbers v1"


class DatasetSource:
    """A data set with `__getitem__` and `__len__`."""

    floor = 0
    bare = False
    folder = ""
    plain = False

    def __init__(
        self,
        dataset: Any,
        root: str | None,
        path_ignored: bool,
        inputs: Inputs | None,
        added: Sequence[Step] = (),
    ) -> None:
        self.dataset = dataset
        self._added = list(added)
        self._whole = False
        self.root = root if root is not None else _folder(dataset)
        self.path_ignored = path_ignored
        self._inputs = inputs
        #: Of which type the numbers are that it is given: NumPy's are no `int` in what is computed with them.
        self._number: type = int
        self.knows = (
            "item i is the number i and the files that inputs(i) names"
            if inputs is not None
            else "item i is the number i and the files that loading it opens"
        )
        self.common: list[str] = []
        self.objects: dict[int, str] = {}
        self._lazy = LazyFields(dataset)
        self._before: Before | None = None
        self.refresh()
        if self.common:
            self.knows += f", and {', '.join(self.common)}, which all items read"

    @property
    def numbered(self) -> Any:
        return self.count

    def refresh(self) -> None:
        self.count = self.length_of(self.dataset)
        declared = None if self._inputs is None else self._declared
        self._parted = Parted(self.dataset, self._lazy, self._added, self._whole, declared)
        self.common = sorted(_containers(self.dataset))
        self.original = None if self._added else self.dataset
        self.steps: list[Step] = self._parted.steps

    def length_of(self, dataset: Any) -> int:
        return self._lazy.length(dataset) if dataset is self.dataset else len(dataset)

    def _declared(self, i: int) -> Sequence[str]:
        try:
            return self.reads(i) or ()
        except Refused:
            # The item is not shared, and why is said where it is asked for.
            return ()

    def join(self) -> None:
        """Leaves the transform in its place from now on, and loads items from the data set itself."""
        self._parted.forget()
        self._whole = True
        self._lazy = LazyFields(self.dataset, is_whole=True)

    def __prebake_token__(self) -> Any:
        # In a probe: whether loading changes it, beside what it opens.
        return self._parted.without(self.opened())

    def leave_out(self, fields: Mapping[str, str]) -> Mapping[str, str]:
        if not self._whole and self._lazy.leave_out(fields):
            self.refresh()
        return self._lazy.fields()

    def use_one(self) -> None:
        """In a probe: loads all items from the one data set, and sees what fills fields that are empty."""
        self._lazy = LazyFields(self.dataset, is_whole=True)
        self._before = Before(self.dataset)
        self.refresh()

    def opened(self) -> dict[str, str]:
        """Of these fields, those that hold readers, and how they were before."""
        return {} if self._before is None else self._before.opened()

    def disturbances(self) -> Iterator[None]:
        """Has these readers as if they had been used otherwise, each time in another way."""
        return iter(()) if self._before is None else self._before.disturbances()

    def close(self) -> dict[str, str]:
        """Has the fields as they were, and items loaded without from now on."""
        opened = {} if self._before is None else self._before.close()
        if opened and not self._whole:
            self._lazy = LazyFields(self.dataset)
            self.leave_out(opened)
        return opened

    def keep(self) -> None:
        """Takes what the fields hold for a part of what the data set is."""
        self._before = None

    def __getstate__(self) -> dict[str, Any]:
        # Parted again where it is restored: what stands in for the transform belongs to one process.
        made = ("_parted", "steps", "common", "original")
        state = {name: value for name, value in vars(self).items() if name not in made}
        return {**state, "dataset": self._parted.sent()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.refresh()

    def over(self, dataset: Any) -> DatasetSource:
        """The same of another data set of its kind."""
        made = copy.copy(self)
        made.dataset = dataset
        made._lazy = LazyFields(dataset)
        made.refresh()
        return made

    def given(self, number: type) -> DatasetSource:
        """The same, given numbers of another type."""
        made = copy.copy(self)
        made._number = number
        made.refresh()
        return made

    def shared(self) -> list[Any]:
        # Not the copy that is loaded from: what the user assigns, that would not see.
        return [self.dataset]

    def identities(self) -> list[Identity]:
        known = identify(self._parted.plain, f"the data set ({type(self.dataset).__qualname__})")
        if self._number is int:
            return [known]
        name = f"{self._number.__module__}.{self._number.__qualname__}"
        return [known._replace(digest=digest(_CONTEXT, known.digest + name.encode()))]

    def probed(self, steps: Sequence[Step]) -> tuple[Callable[[int], Any], list[Step]]:
        return _itself, [Loading(self), *(functools.partial(_apply, self, s) for s in steps)]

    def accept(self, found: Verdict, items: Sequence[int]) -> int:
        if (
            found.code is Code.OPAQUE
            and not found.deterministic_until
            and self._parted.steps
            and not self._whole
            and found.lasting
        ):
            # Perhaps for want of its transform.
            raise Inseparable(found.reason)
        fix = "name the files of an item with wrap(..., inputs=fn)"
        if found.listed:
            raise Refused(Code.UNDECLARED, f"loading an item lists the folder {found.listed[0]}; {fix}")
        declared = {os.path.realpath(path) for i in items for path in self.reads(i) or self.common}
        if found.unhooked:
            others = (path for i in others_of(self.count) for path in self._declared(i))
            declared.update(map(os.path.realpath, others))
        unseen = [path for path in found.unhooked if os.path.realpath(path) not in declared]
        if unseen:
            raise Refused(Code.UNDECLARED, f"compiled code reads {unseen[0]}; {fix}")
        if self._inputs is None and not found.reads_proven and not found.unhooked:
            raise Refused(
                Code.UNDECLARED, f"what loading an item reads cannot be known: {found.reason}; {fix}"
            )
        if found.holds_unseen and (kept := self.kept(found, items)):
            # To see what is kept of it an item is made in the job, which may move it on.
            raise Refused(
                Code.UNDECLARED,
                f"loading an item keeps {kept[0]} for later ones, where it cannot be seen; {fix}",
            )
        return found.deterministic_until - 1

    def kept(self, found: Verdict, items: Sequence[int]) -> list[str]:
        declared = {os.path.realpath(path) for i in items for path in self.reads(i) or self.common}
        return [path for path in found.shared if os.path.realpath(path) not in declared]

    def operators(self, known: Sequence[Identity]) -> list[graph.Json]:
        return [graph.files(self.path_ignored), graph.step(self._parted.plain, known[0])]

    def open(self, collection: Any) -> Any:
        return collection.places(self.root, self.count, unread=False)

    def open_unread(self, collection: Any) -> Any:
        """Items that are their number alone."""
        return collection.places(self.root, self.count, unread=True)

    def load(self, i: int) -> Any:
        return self._parted.load(self._number(i))

    def load_together(self, indices: Sequence[int]) -> list[Any]:
        """Items in turn, as the job's one data set loads them."""
        return self._parted.load_together(list(map(self._number, indices)))

    def apply(self, value: Any, step: Step) -> Any:
        return self._parted.apply(value, step)

    def parts(self, value: Any) -> list[Any]:
        return [value["rest"], *itertools.chain.from_iterable(value["given"])]

    def finish(self, i: int, value: Any, rest: Sequence[Step]) -> Any:
        return self._parted.finish(value, rest)

    def collated(self, indices: Sequence[int], values: Any) -> Any:
        raise AssertionError("only its own code knows what else is in an element")

    def reads(self, i: int) -> list[str] | None:
        if self._inputs is None:
            return None
        try:
            with executed.unwatched():
                # What it returns is a part of what the item is.
                declared = _paths(self._inputs(i))
        except Refused:
            raise
        except Exception as error:
            raise Refused(Code.DATASET, f"inputs(i) raises {type(error).__name__}") from error
        return [*self.common, *declared]


def _itself(i: int) -> int:
    return i


class Loading:
    """Loading as the first step of a probe."""

    def __init__(self, source: DatasetSource) -> None:
        self.source = source

    def __call__(self, i: int) -> Any:
        return self.source.load(i)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.source.use_one()

    def opened(self, is_same: Callable[[], bool]) -> dict[str, str]:
        """Fields of the data set into which loading put readers, and how they were. From now on items are
        loaded without, as the job loads them then. None if items are not the same, as `is_same` tells, where
        the readers were used otherwise before: they give one thing after the other."""
        try:
            if not all(is_same() for _ in self.source.disturbances()):
                self.source.keep()
        except Exception:
            self.source.keep()
        return self.source.close()

    def together(self, indices: Sequence[int]) -> list[Any]:
        """Items in turn, as the job's one data set loads them."""
        return self.source.load_together(indices)


def _apply(source: DatasetSource, step: Step, value: Any) -> Any:
    return source.apply(value, step)


def _paths(declared: Any) -> list[str]:
    if isinstance(declared, (str, os.PathLike)):
        declared = [declared]
    if isinstance(declared, Iterable):
        paths = list(itertools.islice(declared, PATHS_MAX))
        if all(isinstance(path, (str, os.PathLike)) for path in paths) and len(paths) < PATHS_MAX:
            names = [os.fspath(path) for path in paths]
            # Neither names a file, and both are errors where a path is asked for.
            if all(name and b"\0" not in os.fsencode(name) for name in names):
                return names
    raise Refused(
        Code.DATASET, f"inputs(i) has to return a path or several, not {type(declared).__qualname__}"
    )


def _folder(dataset: Any) -> str:
    """What the files of a data set are named relative to: its own root, if it says one."""
    for name in ("root", "root_dir", "data_dir", "path"):
        value = getattr(dataset, "__dict__", {}).get(name)
        if isinstance(value, (str, os.PathLike)) and os.path.isdir(value):
            return os.fspath(value)
    return os.curdir


def _containers(dataset: Any) -> set[str]:
    fields = getattr(dataset, "__dict__", {}).values()
    paths = [Path(value) for value in fields if isinstance(value, (str, os.PathLike))]
    found = {str(path) for path in paths if path.suffix.lower() in CONTAINERS and path.is_file()}
    # LMDB keeps its pages in a folder, beside a lock that changes with every reader.
    return found | {str(path / "data.mdb") for path in paths if (path / "data.mdb").is_file()}


def is_iterable_style(dataset: Any) -> bool:
    """Whether it is a stream of torch's, even if it has `__getitem__` as all of torch's data sets do."""
    torch = sys.modules.get("torch.utils.data")
    return torch is not None and isinstance(dataset, torch.IterableDataset)


def is_map_style(dataset: Any) -> bool:
    """Whether `wrap` can take it item by item."""
    cls = type(dataset)
    return (
        hasattr(cls, "__getitem__")
        and hasattr(cls, "__len__")
        and packages.owner(cls.__module__) is not packages.PYTHON
    )
