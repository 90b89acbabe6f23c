"""What a pipeline can give at once: items that are there, where nothing of the user's has to run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from prebake.codec import values
from prebake.leases.warm_read import WarmRead
from prebake.pipeline.cut import Cut
from prebake.pipeline.shared_items import SharedItems
from prebake.runtime import daemon
from prebake.sources.source import Source


class WarmPath:
    """Of one pipeline, until it is restarted. Each way of asking answers None where it cannot give all."""

    def __init__(self, source: Source, cut: Cut, items: SharedItems, token: str) -> None:
        """`token` names the same pipeline in other processes."""
        self._source, self._cut, self._token = source, cut, token
        self._subgraph, self._collection = items.subgraph, items.client.collection

    def batch(self, order: Sequence[int], start: int, end: int, writable: bool) -> Any:
        """Items of an order as one array, or as a list where no array can be made of them, of inputs as they
        were last looked at; if everything is as it was. No generator is looked at: nothing can draw."""
        # Written out: each call costs as much as the rest, once what is read has driven Python from the
        # processor's caches.
        cut, steps, held = self._cut, self._cut.steps, self._subgraph.held
        ready = self._collection.ready
        if ready is None or ready.connection.lost:
            ready = self._collection.warm_read()
        whole = not cut.is_due and cut.position == len(steps) and self._source.bare
        if ready is None or held is None or not whole or not held.look.holds(steps) or not held.others_hold():
            return None
        try:
            return ready.items.array(order, start, end, writable, values.stacked_form)
        except daemon.native().Error:
            # They are there, but no array. What is not there is asked for at once, not looked at one by one:
            # it may come meanwhile, and would be made of its elements here.
            return ready.values(order[start:end], validated=True)

    def elements(self, indices: Sequence[int]) -> list[Any] | None:
        """Items' elements. Inputs are looked at now."""
        ready = self._ready()
        found = None if ready is None else ready.values(indices)
        if found is None:
            return None
        return [self._source.finish(i, value, ()) for i, value in zip(indices, found, strict=True)]

    def collated(self, indices: Sequence[int], sent: bool) -> Any:
        """What torch's `default_collate` makes of items' elements; if it is to be `sent`, what becomes that
        in another process."""
        ready = self._ready() if indices else None
        if ready is None:
            return None
        made = ready.sent(indices, (self._token, self._subgraph.opened_as())) if sent else None
        if made is None:
            # Also what is on disk, which a worker reads before it is wanted.
            made = ready.tensor(indices)
        return None if made is None else self._source.collated(indices, made)

    def runs_nothing(self) -> bool:
        """Whether an element that is there needs nothing of the user's to run."""
        return self._ready() is not None

    def is_open(self) -> bool:
        """Whether all is open, and a look tells that it is what it was opened as: then nothing of the user's
        has to run for an epoch to begin."""
        opened = self._collection.warm_read()
        if opened is None or self._cut.is_due or opened.connection is not daemon.current():
            return False
        # A child that was forked past Python has its parent's.
        if opened.connection.pid != os.getpid():
            return False
        return self._subgraph.is_as_watched(self._cut.position)

    def _ready(self) -> WarmRead | None:
        plain = not self._cut.is_due and self._cut.is_at_end() and self._source.plain
        return self._collection.warm_read() if plain else None
