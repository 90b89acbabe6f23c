"""Batches for torch's loaders. Where a loader's `default_collate` would copy each element of a batch into one
tensor, one native copy makes that tensor of what is cached; and what a worker has is not sent, but where it
lies: the process that trains copies it from memory that it has mapped.
"""

from __future__ import annotations

import enum
import sys
import types
import uuid
import weakref
from collections.abc import Sequence
from typing import Any, Protocol

from prebake.codec import values
from prebake.runtime import daemon

Spans = Sequence[tuple[int, int, int]]

#: Where torch's loaders are made.
_FETCH, _COLLATE, _WORKER = (f"torch.utils.data._utils.{name}" for name in ("fetch", "collate", "worker"))


class Collated:
    """Stands in a list of elements for all of them: `default_collate` makes the batch of it."""

    __slots__ = ("batch",)

    def __init__(self, batch: Any) -> None:
        self.batch = batch


class Made(Protocol):
    """What makes items of a data set again, should they be evicted on their way."""

    def identity(self) -> str:
        """Of what it makes of items now."""
        ...

    def made(self, indices: Sequence[int]) -> list[Any]:
        """Items after all of their steps."""
        ...


#: By token, which is the same in a loader's workers. A data set that is copied as a whole keeps its own.
_makers: dict[str, weakref.WeakSet[Made]] = {}


def token_of(maker: Made, token: str | None) -> str:
    """What names it, in this process and in those it is sent to."""
    for gone in [each for each, makers in _makers.items() if not makers]:
        del _makers[gone]
    token = uuid.uuid4().hex if token is None else token
    _makers.setdefault(token, weakref.WeakSet()).add(maker)
    return token


class Sent:
    """A tensor on its way from a worker: where in the daemon's memory its bytes lie."""

    __slots__ = ("_arguments",)

    def __init__(
        self, made_by: tuple[str, str], places: Sequence[int], boot_id: int, spans: Spans, layout: str
    ) -> None:
        """`made_by` are the token and the identity of what makes the items."""
        self._arguments = made_by, list(places), boot_id, spans, layout

    def __reduce__(self) -> Any:
        return _received, self._arguments


class Asked(enum.Enum):
    """Who puts together what is returned, and where."""

    BY_OTHERS = enum.auto()
    #: Torch's `default_collate`, for whoever asked.
    HERE = enum.auto()
    #: The same, for the process that a worker sends its batches to.
    IN_WORKER = enum.auto()


def asked(frame: types.FrameType) -> Asked:
    """By whom what is returned to a frame is put together. It is given nothing but elements, unless it is
    certain that torch's own code, as it came, makes one tensor of them and does nothing else."""
    fetching = sys.modules.get(_FETCH)
    if fetching is None or frame.f_code.co_name != "fetch":
        # Before anything else is looked up: it is asked for each item.
        return Asked.BY_OTHERS
    collating, working = sys.modules.get(_COLLATE), sys.modules.get(_WORKER)
    if collating is None or working is None:
        return Asked.BY_OTHERS
    try:
        if frame.f_code is not fetching._MapDatasetFetcher.fetch.__code__:
            return Asked.BY_OTHERS
        fetcher, known = frame.f_locals["self"], collating.default_collate_fn_map
        # Torch's own way to make more types of elements known, which a job may have used for others.
        known.setdefault(Collated, _batch)
        own = [
            fetcher.collate_fn,
            collating.collate,
            *(each for kind, each in known.items() if kind is not Collated),
        ]
        if not fetcher.auto_collation or not all(map(_is_own, own)) or known[Collated] is not _batch:
            return Asked.BY_OTHERS
        if fetcher.collate_fn.__qualname__ != "default_collate":
            return Asked.BY_OTHERS
        caller = frame.f_back
        if caller is not None and caller.f_code is working._worker_loop.__code__:
            return Asked.IN_WORKER
        # Elsewhere torch would make the tensor on another device by default, if the job says so.
        return Asked.HERE if sys.modules["torch"].empty(0).is_cpu else Asked.BY_OTHERS
    except (AttributeError, KeyError):
        # Another version of torch, which is given the elements.
        return Asked.BY_OTHERS


def _is_own(function: Any) -> bool:
    """Whether a function of torch's collating is what it was when torch was imported."""
    return type(function) is types.FunctionType and function.__globals__ is vars(sys.modules[_COLLATE])


def collate(elements: Sequence[Any]) -> Any:
    """As a loader does."""
    return sys.modules["torch.utils.data._utils.collate"].default_collate(elements)


def _batch(elements: Sequence[Collated], *, collate_fn_map: Any = None) -> Any:
    return elements[0].batch


def _received(made_by: tuple[str, str], places: list[int], boot_id: int, spans: Spans, layout: str) -> Any:
    """A worker's tensor, here."""
    connection = daemon.connection()
    if connection is not None and connection.job.boot_id == boot_id:
        try:
            view = connection.job.gather(spans)
        except daemon.native().Error as error:
            daemon.failed(error)
        else:
            found = None if view is None else values.decode_tensors(view, layout, len(places))
            if found is not None:
                return found
    # Evicted since, or its daemon is gone. Copies of the data set may have been changed since they were made.
    token, identity = made_by
    maker = next((each for each in _makers.get(token, ()) if each.identity() == identity), None)
    if maker is None:
        raise RuntimeError(
            "a worker's batch was evicted on its way, and its data set was changed here after the worker had "
            "begun: make the loader after the change"
        )
    import torch

    # As in the worker, whatever tensors are made on by default here.
    with torch.device("cpu"):
        return collate(maker.made(places))
