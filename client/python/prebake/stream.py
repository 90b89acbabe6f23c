"""Wrapped streams: data sets that are iterated, and generator functions."""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from prebake.encoding.digests import digest
from prebake.identity.code import Identity, identify
from prebake.reads import tracked_inputs
from prebake.reads.open_records import hidden
from prebake.runtime import daemon, packages, patience
from prebake.runtime.errors import Code, Refused
from prebake.runtime.refusals import not_cached
from prebake.runtime.transparent import Transparent
from prebake.streams.chain import Chain
from prebake.streams.stream import CONTEXT

if TYPE_CHECKING:
    from typing import Generic

    # To `isinstance` it is of the class of the one it stands for, and loaders take it as that.
    from torch.utils.data import IterableDataset as Standing
else:
    from prebake.runtime.transparent import Generic, Standing

T_co = TypeVar("T_co", covariant=True)

#: How a data set says that it can be put back to where it was: it counts what it gave.
_STATEFUL = ("state_dict", "load_state_dict", "__next__")


class IterableDataset(Transparent, Standing[T_co], Generic[T_co]):
    """A wrapped data set that is iterated. Equal to the one it stands for; safe to pickle and to fork."""

    __slots__ = ("_stream", "_alone")

    _own = Transparent._own | {"_stream", "_alone"}

    def __new__(cls, wrapped: Any, inputs: Sequence[str] = ()) -> IterableDataset:
        made: IterableDataset = cls._bare(wrapped)
        return made

    def __init__(self, wrapped: Any, inputs: Sequence[str] = ()) -> None:
        self._stream = _Iterated(wrapped, inputs)
        #: Whether it was found that it cannot be shared.
        self._alone = any(hasattr(wrapped, name) for name in _STATEFUL)
        self._wrapped = wrapped
        if self._alone:
            name = type(wrapped).__qualname__
            not_cached(Refused(Code.CARRIES_STATE, f"a {name} counts what it gave, so that it has to run"))

    def __iter__(self) -> Iterator[T_co]:
        if not self._alone and self._may_have_state():
            self._alone = True
            name = type(self._wrapped).__qualname__
            why = f"a {name} makes its iterator itself, which may count what it gave for torchdata's loader"
            not_cached(Refused(Code.CARRIES_STATE, why))
        elements = None if self._alone else shared(self._stream, self._refused)
        if elements is not None:
            return elements
        made = iter(self._wrapped)
        # Loaders that keep where they are look whether it is its own iterator.
        found: Any = self if made is self._wrapped else made
        return found

    def _may_have_state(self) -> bool:
        """Whether its iterator may say how far it is to a loader that asks. A generator says nothing."""
        asked = "torchdata.stateful_dataloader" in sys.modules
        return asked and not inspect.isgeneratorfunction(type(self._wrapped).__iter__)

    def _refused(self) -> None:
        self._alone = True

    def __reduce__(self) -> Any:
        return patience.reduced(IterableDataset, (self._wrapped, self._stream.inputs))

    def __copy__(self) -> Any:
        return IterableDataset(copy.copy(self._wrapped), self._stream.inputs)


def is_stream(dataset: Any) -> bool:
    """Whether it is a class of elements to be iterated, any number of times."""
    cls = type(dataset)
    return (
        hasattr(cls, "__iter__")
        and not hasattr(cls, "__next__")
        and packages.owner(cls.__module__) is not packages.PYTHON
    )


def shared(stream: Any, refused: Callable[[], None] = lambda: None) -> Iterator[Any] | None:
    """A stream's elements, shared as far as they can be; None if they cannot. `refused` is told if that is
    found out later."""
    if daemon.native() is None or daemon.connection() is None:
        return None
    hidden("a stream")
    try:
        chain = Chain(stream)
    except Exception as error:
        # Looking at an odd object can raise anything; the job must not.
        not_cached(error)
        return None
    return _elements(chain, refused)


def _elements(chain: Chain, refused: Callable[[], None]) -> Iterator[Any]:
    try:
        yield from chain.elements()
    finally:
        if chain.refused is not None:
            refused()


class _Iterated:
    """A data set as a stream: the lists that it may go through are its fields."""

    path_lists: frozenset[str] = frozenset()

    def __init__(self, dataset: Any, inputs: Sequence[str]) -> None:
        self._dataset = dataset
        self.inputs = inputs
        self._plain = tracked_inputs.Plain()
        self._lock = threading.RLock()
        self._pid = os.getpid()

    def __reduce__(self) -> Any:
        return _Iterated, (self._dataset, self.inputs)

    def roots(self) -> list[Any]:
        return [self._dataset]

    def lists(self) -> dict[str, list[Any]]:
        fields = getattr(self._dataset, "__dict__", {})
        return self._plain.among(fields)

    def identity(self) -> Identity:
        plain, lists = self._dataset, self.lists()
        if lists:
            plain = copy.copy(plain)
            # Which fields are lists to go through is a part of it, and a list is none of another kind.
            vars(plain).update({name: tracked_inputs.Tracked for name in lists})
        return identify(plain, f"the data set ({type(self._dataset).__qualname__})")

    def begin(self, lists: dict[str, Any]) -> Iterator[Any]:
        return iter(self._dataset)

    @contextlib.contextmanager
    def given(self, lists: dict[str, Any]) -> Iterator[None]:
        if self._pid != os.getpid():
            # Another thread of the parent may have held it.
            self._lock, self._pid = threading.RLock(), os.getpid()
        with self._lock:
            fields = vars(self._dataset) if lists else {}
            before = {name: fields[name] for name in lists if name in fields}
            fields.update(lists)
            try:
                yield
            finally:
                for name, value in before.items():
                    if fields.get(name) is lists[name]:
                        fields[name] = value


class Called:
    """A call of a generator function as a stream: the lists that it may go through are its arguments.

    `inputs` are the files that it reads, beside those that it is seen to; `path_lists` the arguments whose
    items are such files.
    """

    def __init__(
        self,
        function: Any,
        bound: inspect.BoundArguments,
        inputs: Sequence[str],
        path_lists: frozenset[str],
    ) -> None:
        self._function = function
        self._bound = bound
        self.inputs = inputs
        self.path_lists = path_lists
        self._plain = tracked_inputs.Plain()

    def roots(self) -> list[Any]:
        return [self._function, self._bound.arguments]

    def lists(self) -> dict[str, list[Any]]:
        return self._plain.among(self._bound.arguments)

    def identity(self) -> Identity:
        name = getattr(self._function, "__qualname__", type(self._function).__qualname__)
        given = {**self._bound.arguments, **{name: tracked_inputs.Tracked for name in self.lists()}}
        function = identify(self._function, name, arguments=given)
        arguments = identify(given, f"{name} arguments")
        function.reached.update(arguments.reached)
        return function._replace(
            digest=digest(CONTEXT, function.digest + arguments.digest),
            packages={**function.packages, **arguments.packages},
        )

    def begin(self, lists: dict[str, Any]) -> Iterator[Any]:
        bound = copy.copy(self._bound)
        bound.arguments = {**bound.arguments, **lists}
        return iter(self._function(*bound.args, **bound.kwargs))

    def given(self, lists: dict[str, Any]) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()
