"""Batches for torch's loaders. Where a loader's `default_collate` would copy each element of a batch into one
tensor, one native copy makes that tensor of what is cached; and what a worker has is not sent, but where it
lies: the process that trains copies it from memory that it has mapped.
"""

from __future__ import annotations

import sys
import types
import uuid
import weakref
from collections.abc import Sequence
from typing import Any, Protocol

from prebake import _job, values

Spans = Sequence[tuple[int, int, int]]


class Collated:
    """Stands in a list of elements for all of them: `default_collate` makes the batch of it."""

    __slots__ = ("batch",)

    def __init__(self, batch: Any) -> None:
        self.batch = batch


class Made(Protocol):
    """What makes items of a data set again, should they be evicted on their way."""

    def made(self, places: Sequence[int]) -> list[Any]:
        """Items after all of their steps."""


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

    def __init__(self, token: str, places: Sequence[int], boot_id: int, spans: Spans, layout: str) -> None:
        self._arguments = token, list(places), boot_id, spans, layout

    def __reduce__(self) -> Any:
        return _received, self._arguments


def is_asked_for(frame: types.FrameType) -> bool:
    """Whether what is returned to a frame is put together by torch's `default_collate`, and nothing else is
    done with it."""
    fetching = sys.modules.get("torch.utils.data._utils.fetch")
    collating = sys.modules.get("torch.utils.data._utils.collate")
    if fetching is None or collating is None:
        return False
    try:
        if frame.f_code is not fetching._MapDatasetFetcher.fetch.__code__:
            return False
        fetcher = frame.f_locals["self"]
        if not fetcher.auto_collation or fetcher.collate_fn is not collating.default_collate:
            return False
        # Torch's own way to make more types of elements known.
        collating.default_collate_fn_map.setdefault(Collated, _batch)
    except (AttributeError, KeyError):
        # Another version of torch, which is given the elements.
        return False
    return True


def in_worker() -> bool:
    """Whether this process is a worker of a loader: its batches go to another."""
    return sys.modules["torch.utils.data"].get_worker_info() is not None


def collate(elements: Sequence[Any]) -> Any:
    """As a loader does."""
    return sys.modules["torch.utils.data._utils.collate"].default_collate(elements)


def _batch(elements: Sequence[Collated], *, collate_fn_map: Any = None) -> Any:
    return elements[0].batch


def _received(token: str, places: list[int], boot_id: int, spans: Spans, layout: str) -> Any:
    """A worker's tensor, here."""
    connection = _job.connection()
    if connection is not None and connection.job.boot_id == boot_id:
        try:
            view = connection.job.gather(spans)
        except _job.native().Error as error:
            _job.failed(error)
        else:
            if view is not None:
                return values.decode_tensors(view, layout, len(places))
    # Evicted since, or its daemon is gone.
    maker = next(iter(_makers[token]))
    return collate(maker.made(places))
