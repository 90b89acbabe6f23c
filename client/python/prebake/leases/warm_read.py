"""Items that are there, several at once, where nothing of the user's has to run for them.

Each way of reading answers None where it cannot; whoever asks then goes the long way, item by item, which
also tells what is wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from prebake.codec import values
from prebake.codec.collated import Sent
from prebake.runtime import daemon


class WarmRead(NamedTuple):
    """Native items as they were opened, and the connection that they were opened by."""

    items: Any
    connection: daemon.Connection

    def tensor(self, indices: Sequence[int]) -> Any:
        """As the one tensor that torch's `default_collate` makes of them. Inputs are looked at now."""
        found = _unless_refused(lambda: self.items.batch(indices, fits=values.has_tensors))
        return None if found is None else values.decode_tensors(*found)

    def sent(self, indices: Sequence[int], made_by: tuple[str, str]) -> Sent | None:
        """The same for another process of the user, by where they lie."""
        found = _unless_refused(lambda: self.items.spans(indices, fits=values.has_tensors))
        # Another thread may have made them anew, of another layout.
        if found is None or not values.has_tensors(found[1]):
            return None
        return Sent(made_by, indices, self.connection.job.boot_id, *found)

    def values(self, indices: Sequence[int], validated: bool = False) -> list[Any] | None:
        """One by one. Inputs are looked at now, unless they were."""
        arrays: list[Any] | None = _unless_refused(
            lambda: self.items.arrays(indices, validated, values.array_form)
        )
        if arrays is not None:
            return arrays
        if len(set(indices)) < len(indices):
            # Each is given a value of its own.
            return None
        if len(indices) > 1 and self.items.missing(indices):
            # Those before the first that is missing would be read twice, and counted so.
            return None
        found = map(self.items.get, indices, itertools.repeat(validated))
        elements = _unless_refused(lambda: list(itertools.takewhile(_is_there, found)))
        if elements is None or len(elements) < len(indices):
            return None
        try:
            return [values.decode(layout, view) for view, layout in elements]
        except Exception:
            # The class that one is of may be another one here.
            return None


def _is_there(element: Any) -> bool:
    return element is not None


def _unless_refused(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except daemon.native().Error:
        return None
