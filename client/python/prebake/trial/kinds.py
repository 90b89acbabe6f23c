"""Kinds of elements: what another branch of the code made is mostly of another kind.

A world is proven by a few elements. One that takes another way through the code may be another here all the
same: a rare item that looks something up which the others do not. Such an item mostly shows by its type. So
kinds are compared, each once: those of a data set before it is proven, those of a function as they are asked
for.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

#: Kinds of one function that are compared in a world: one of which each value is of its own has no kinds.
KINDS_MAX = 8
#: Items of a data set whose kinds are looked at before some are compared.
LOOKED_AT_MAX = 64
#: What of a layout says how much there is, and not what.
_AMOUNTS = frozenset({"len", "shape", "strides"})


@functools.lru_cache(maxsize=4096)
def of_layout(layout: str) -> str:
    """A layout without lengths and shapes: that of a list tells what its members are, not how many."""
    return json.dumps(_kind(json.loads(layout)), sort_keys=True)


def _kind(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _kind(each) for key, each in node.items() if key not in _AMOUNTS}
    if isinstance(node, list):
        # Members in a row that are alike count once.
        kinds = [_kind(each) for each in node]
        return [each for i, each in enumerate(kinds) if not i or each != kinds[i - 1]]
    return 0 if type(node) in (int, float) else node


def rarest_first(
    indices: Sequence[int], layouts: Callable[[Sequence[int]], Sequence[str] | None]
) -> list[int]:
    """Indices so ordered that one of each kind comes first, the rarest kind before all others."""
    looked_at = indices[:LOOKED_AT_MAX]
    kinds = dict(zip(looked_at, map(of_layout, layouts(looked_at) or ()), strict=False))
    if len(set(kinds.values())) < 2:
        return list(indices)
    count, nth = Counter(kinds.values()), Counter[str]()
    order = []
    for place, i in enumerate(indices):
        kind = kinds.get(i)
        if kind is None:
            order.append((len(indices), 0, place, i))
        else:
            order.append((nth[kind], count[kind], place, i))
            nth[kind] += 1
    return [i for *_, i in sorted(order)]
