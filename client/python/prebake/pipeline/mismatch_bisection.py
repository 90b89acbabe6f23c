"""Which subgraph of a pipeline is to blame for a hit that does not reproduce (see `verify`)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from prebake.codec import values
from prebake.known import determinism
from prebake.leases.client import LeaseClient
from prebake.proof.verify import difference
from prebake.runtime.errors import Refused
from prebake.sources.source import Source, Step


def tolerance(steps: Iterable[Any]) -> float | None:
    """By how much numbers may differ after the steps: what one may change, later ones take over."""
    return max(filter(None, map(determinism.tolerance, steps)), default=None)


def blamed(
    source: Source, steps: list[Step], i: int, intermediate: tuple[int, LeaseClient] | None
) -> tuple[int | None, str]:
    """After how many of the steps item i is not the same twice, or not what is stored, if that can be told;
    and what more there is to say. `intermediate`: how many are before the intermediate cut, and its items."""
    first, second = _stages(source, steps, i), _stages(source, steps, i)

    def differs(cut: int, one: values.Encoded, other: values.Encoded) -> bool:
        return bool(difference(one, other, tolerance([*source.shared(), *steps[:cut]])))

    for cut in sorted(first.keys() & second.keys()):
        if differs(cut, first[cut], second[cut]):
            return cut, " between two runs"
    more = ", though two runs agree: something it depends on changed unseen"
    if intermediate is None or intermediate[0] not in first:
        return None, more
    cut, client = intermediate
    value = client.stored(i)
    return (cut if value is not None and differs(cut, _copied(value), first[cut]) else None), more


def _stages(source: Source, steps: list[Step], i: int) -> dict[int, values.Encoded]:
    """Item i after each of the steps, by how many they are, as far as that can be stored."""
    stages, value = {}, source.load(i)
    for cut in range(len(steps) + 1):
        value = source.apply(value, steps[cut - 1]) if cut else value
        if cut >= source.floor:
            with contextlib.suppress(Refused):
                stages[cut] = _copied(value)
    return stages


def _copied(value: Any) -> values.Encoded:
    """A value as an element, copied: later steps may work in place."""
    layout, parts = values.encode(value)
    return values.Encoded(layout, [bytes(part) for part in parts])
