"""A data set taken apart at its transform.

A data set's `__getitem__` loads something, gives it to `self.transform` and returns what comes out, among
other things. To share what is before the random part of a transform, the data set is run with a stand-in for
its transform: that keeps what it is given, and returns a placeholder. Whatever the data set puts the
placeholder into is put together again later, with what the transform makes of what was kept.

That is right only if the data set does nothing with what the transform returns but hand it on. A placeholder
refuses whatever is done with it; `separable` compares both ways for one item, bit for bit, for what can be
done without asking it (`isinstance`).
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from prebake.compute.restart_signals import Inseparable
from prebake.reads.record import stat_of
from prebake.sources.lazy_fields import LazyFields, emptied

#: Levels of containers in an element that are searched for placeholders.
DEPTH_MAX = 8

#: Files of items that a copy was made to load, whose stats are kept.
FILES_MAX = 65_536

#: Classes that apply all of their `transforms` in turn.
_COMPOSITIONS = frozenset({"Compose"})
#: Packages whose compositions do more: their steps draw from one generator, even those that always apply.
_JOINED = frozenset({"albumentations"})


class Placeholder:
    """Stands for what a transform would have returned."""

    __slots__ = ("_place", "_key")

    def __init__(self, place: int, key: str | int | None = None) -> None:
        #: Which call of the transform, and which part of what it returns; None for all of it.
        object.__setattr__(self, "_place", place)
        object.__setattr__(self, "_key", key)

    def __getattr__(self, name: str) -> Any:
        raise Inseparable(f"it takes .{name} of what its transform returns")


def _touched(name: str) -> Callable[..., Any]:
    def touch(self: Any, *args: Any) -> Any:
        raise Inseparable(f"it uses {name} on what its transform returns")

    return touch


# Python looks these up in the class, past `__getattr__`. Truth and equality would answer silently.
_NAMES = (
    "__bool__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __len__ __iter__ __getitem__ __setitem__ "
    "__contains__ __call__ __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ "
    "__neg__ __invert__ __and__ __or__ __float__ __int__ __index__ __array__ __str__ __repr__ __format__ "
    "__enter__ __next__ __reduce_ex__ __copy__ __deepcopy__ __dir__ __setattr__ __matmul__ __mod__ __pow__"
)
for _name in _NAMES.split():
    setattr(Placeholder, _name, _touched(_name))


class Named(Placeholder):
    """Stands for what a transform of named arguments would have returned: a dictionary."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Placeholder:
        if type(key) is not str:
            raise Inseparable("it uses __getitem__ on what its transform returns")
        return Placeholder(object.__getattribute__(self, "_place"), key)


class Joint(Placeholder):
    """Stands for what a transform of several arguments would have returned: as many, to be taken apart."""

    __slots__ = ("_parts",)

    def __init__(self, place: int, parts: int) -> None:
        super().__init__(place)
        object.__setattr__(self, "_parts", parts)

    def __iter__(self) -> Iterator[Placeholder]:
        place, parts = (object.__getattribute__(self, name) for name in ("_place", "_parts"))
        return iter([Placeholder(place, part) for part in range(parts)])


class Parted:
    """A data set with a stand-in for its transform."""

    def __init__(
        self,
        dataset: Any,
        lazy: LazyFields,
        added: Sequence[Any] = (),
        whole: bool = False,
        files: Callable[[int], Sequence[str]] | None = None,
    ) -> None:
        """With `whole` the transform stays in its place. `added` are more steps, for a data set without.
        `files(i)` are those that item i is said to read, if that is said."""
        transform, place = (None, None) if whole else _transform(dataset)
        #: The steps of the transform, and what applies them, if it is one object.
        self.steps: list[Any] = [*(flat(transform) if transform is not None else []), *added]
        self._transform = transform
        #: What the stand-in was given during a load, in the loading thread.
        self._load = threading.local()
        self._dataset, self._lazy = dataset, lazy
        #: Makes a data set to load from: one for each load, since a file that one load opens and the data set
        #: keeps open is read by the next without anyone hearing of it.
        self._place = place
        #: The data set without its transform, which is no part of its identity.
        self.plain = lazy.empty(place(None), dataset) if place is not None else self.sent()
        self._files = files if not whole else None

    def sent(self) -> Any:
        """The data set, with its transform, as it is sent to another process."""
        return self._lazy.copied(self._dataset) if self._lazy else self._dataset

    def without(self, fields: Mapping[str, str]) -> Any:
        """The data set without its transform and some fields."""
        return emptied(self.plain, fields) if fields else self.plain

    def _keep(self, *args: Any, **kwargs: Any) -> Any:
        if bool(kwargs) == bool(args):
            raise Inseparable("it gives its transform both named and other arguments, or none")
        if kwargs and len(self.steps) != 1:
            raise Inseparable("it gives its transform named arguments, and that is made of several")
        kept = self._load.kept
        kept.append(kwargs or list(args))
        place = len(kept) - 1
        if len(args) > 1:
            return Joint(place, len(args))
        return Named(place) if kwargs else Placeholder(place)

    def load(self, i: int) -> Any:
        """Item i: what the transform would get (once for each time it is called), and the rest."""
        return self.load_together([i])[0]

    def load_together(self, indices: Sequence[int]) -> list[Any]:
        """Items as one data set loads them in turn: it may keep something from one for the next."""
        if self._transform is None and not self._is_copied():
            return [_whole(self._dataset[i]) for i in indices]
        dataset = self._copied(indices)
        before = dict(vars(dataset))
        try:
            loaded = [self._load_from(dataset, i) for i in indices]
        except Exception as error:
            if not self._lazy:
                raise
            raise Inseparable(f"an item loads from the one data set only: {error}") from error
        for name, value in before.items():
            # A copy was changed, where the job would have changed the data set. What is made at first use is
            # made by each of them.
            if value is not None and vars(dataset).get(name) is not value:
                self._load.copy = None
                raise Inseparable(f"it changes its own .{name} when an item is loaded")
        return loaded

    def _is_copied(self) -> bool:
        """Whether items are loaded from a copy also where no transform is taken out: what that opens at first
        use, and keeps, then is no part of what the data set is."""
        is_said = self._files is not None and type(getattr(self._dataset, "__dict__", None)) is dict
        return is_said or bool(self._lazy)

    def _copied(self, indices: Sequence[int]) -> Any:
        """A copy to load items from. Where it is said what items read it stays, with what it opened, for as
        long as these files are what they were."""
        if self._files is None:
            return self._copy()
        now = {path: stat_of(path) for i in indices for path in self._files(i)}
        copied, stats = getattr(self._load, "copy", None) or (None, {})
        is_other = any(stats.get(path, stat) != stat for path, stat in now.items())
        if copied is None or is_other or len(stats) > FILES_MAX:
            copied, stats = self._copy(), {}
        self._load.copy = copied, {**stats, **now}
        return copied

    def _copy(self) -> Any:
        if self._place is not None:
            return self._lazy.empty(self._place(self._keep), self._dataset)
        return self.sent() if self._lazy else copy.copy(self._dataset)

    def _load_from(self, dataset: Any, i: int) -> Any:
        if self._transform is None:
            return _whole(dataset[i])
        kept: list[Any] = []
        self._load.kept = kept
        try:
            element = dataset[i]
        finally:
            self._load.kept = []
        at: list[list[Any]] = []
        rest = _without(element, at, [], 0)
        at.sort(key=lambda found: found[0])
        parts = {(place, key) for place, key, _ in at}
        whole = {place for place, key in parts if key is None}
        if {place for place, _ in parts} != set(range(len(kept))) or len(parts) != len(at):
            raise Inseparable("it does not return all that its transform made, just once")
        if any(key is not None and place in whole for place, key in parts):
            raise Inseparable("it returns a part of what its transform made twice")
        return {"given": kept, "counts": [len(given) for given in kept], "rest": rest, "at": at}

    def forget(self) -> None:
        """Takes back the placeholders that the data set kept for itself in its tables."""
        for table in vars(self.plain).values():
            if type(table) is dict:
                for key in [key for key, value in table.items() if isinstance(value, Placeholder)]:
                    del table[key]
            elif type(table) is list:
                for i, value in enumerate(table):
                    if isinstance(value, Placeholder):
                        table[i] = None

    def apply(self, loaded: Any, step: Any) -> Any:
        """One step further with all that is given to the transform."""
        return {**loaded, "given": [_call(step, given) for given in loaded["given"]]}

    def finish(self, loaded: Any, rest: Sequence[Any]) -> Any:
        """The element, once the rest of the steps is applied."""
        element = loaded["rest"]
        steps = [self._last(rest)] if rest and self._transform is not None else rest
        results = []
        for given in loaded["given"]:
            named = type(given) is dict
            for step in steps:
                given = _call(step, given)
            results.append(given if named else given[0] if len(given) == 1 else tuple(given))
        for place, key, path in loaded["at"]:
            if type(key) is int and not _is_tuple_of(results[place], loaded["counts"][place]):
                raise Inseparable("its transform returns more or fewer values than it is given")
            element = _put(element, path, results[place] if key is None else results[place][key])
        return element

    def _last(self, rest: Sequence[Any]) -> Any:
        """What applies the rest of the steps as the transform itself would."""
        if rest[0] is self._transform:
            return self._transform
        whole: Any = self._transform
        last = copy.copy(whole)
        last.transforms = type(whole.transforms)(rest)
        return last


def _whole(element: Any) -> Any:
    """An element that is loaded as it is."""
    return {"given": [[element]], "counts": [1], "rest": None, "at": [[0, None, []]]}


def _is_tuple_of(value: Any, count: int) -> bool:
    return type(value) is tuple and len(value) == count


def _call(step: Any, given: Any) -> Any:
    if type(given) is dict:
        return step(**given)
    made = step(*given)
    return list(made) if len(given) > 1 and isinstance(made, tuple) else [made]


def _transform(dataset: Any) -> tuple[Any, Callable[[Any], Any] | None]:
    """A data set's transform, and what makes a copy of the data set with another in its place."""
    own, joint = _field(dataset, "transform"), _field(dataset, "transforms")
    if callable(own):

        def place(stand_in: Any) -> Any:
            made = copy.copy(dataset)
            vars(made)["transform"] = stand_in
            # torchvision keeps it in a second place too, for data sets that transform image and target.
            if joint is not None and getattr(joint, "transform", None) is own:
                vars(made)["transforms"] = copy.copy(joint)
                vars(made)["transforms"].transform = stand_in
            return made

        return own, place
    name = "transforms" if own is None and callable(joint) else _named(dataset) if joint is None else None
    if own is None and name is not None:

        def place_named(stand_in: Any) -> Any:
            made = copy.copy(dataset)
            vars(made)[name] = stand_in
            return made

        return _field(dataset, name), place_named
    return None, None


def _named(dataset: Any) -> str | None:
    """The one field that says in its name that it is a transform, as `image_transform` does."""
    fields = getattr(dataset, "__dict__", {})
    names = [
        name for name in fields if name.endswith(("_transform", "_transforms")) and callable(fields[name])
    ]
    return names[0] if len(names) == 1 and names[0] != "target_transform" else None


def _field(dataset: Any, name: str) -> Any:
    # A property or a method of this name is code of the data set's own.
    return getattr(dataset, "__dict__", {}).get(name)


def flat(transform: Any) -> list[Any]:
    """A composed transform's steps."""
    if isinstance(transform, (list, tuple)):
        return [step for each in transform for step in flat(each)]
    if type(transform).__module__.partition(".")[0] in _JOINED:
        return [transform]
    if type(transform).__name__ not in _COMPOSITIONS or not isinstance(
        getattr(transform, "transforms", None), (list, tuple)
    ):
        return [transform]
    steps: list[Any] = []
    for step in transform.transforms:
        steps += flat(step) if type(step) is type(transform) else [step]
    return steps


def _without(element: Any, at: list[list[Any]], path: list[Any], depth: int) -> Any:
    """An element with None for each placeholder; `at` gets which one was where: place, key and path."""
    if isinstance(element, Placeholder):
        at.append([object.__getattribute__(element, name) for name in ("_place", "_key")] + [path])
        return None
    if depth == DEPTH_MAX:
        return element
    if type(element) in (list, tuple):
        return type(element)(_without(each, at, [*path, i], depth + 1) for i, each in enumerate(element))
    if type(element) is dict:
        return {key: _without(each, at, [*path, key], depth + 1) for key, each in element.items()}
    return element


def _put(element: Any, path: Sequence[Any], value: Any) -> Any:
    """An element with a value at a path."""
    if not path:
        return value
    first, *rest = path
    if type(element) is dict:
        return {**element, first: _put(element[first], rest, value)}
    parts = list(element)
    parts[first] = _put(parts[first], rest, value)
    return type(element)(parts)
