"""Whether a pipeline's shared part was seen to be deterministic: asked once per pipeline and node.

The double-run probe (`probe.py`) takes a second or so, so that its verdict is an entry like any other, keyed
by what the pipeline is. Jobs that start together wait for the one that probes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from prebake import graph
from prebake.code import Identity
from prebake.errors import Code
from prebake.fill import Fill, nothing_ahead
from prebake.probe import Verdict, run

#: An item on which the user's own code fails says nothing about the others: so many times others are tried.
TRIES = 3


def verdict(
    known: Sequence[Identity],
    load: Callable[[int], Any],
    steps: Sequence[Callable[[Any], Any]],
    vouched: Collection[int],
    count: int,
) -> tuple[Verdict, list[int]]:
    """The verdict on `steps` after `load`, of a pipeline that is `known`, and the items it was probed with.
    Steps of `vouched` are taken at their word.
    """

    def probe(_: int) -> tuple[list[int], str]:
        for items in _pairs(count):
            # Values are each their item's own, so that steps may work in place.
            found = run(load, steps, items, in_place=True, vouched=vouched)
            if found.code is not Code.OPAQUE:
                break
        return items, found.json()

    def open_items(job: Any) -> Any:
        described = graph.chain([graph.arguments(), graph.named_step("prebake.probe")])
        digest = hashlib.blake2b(b"".join(each.digest for each in known), digest_size=32).digest()
        return job.plan(described).call("probe", digest, [])

    items, found = Fill(open_items, probe, 1).many([0], nothing_ahead)[0]
    return Verdict.from_json(found), items


def _pairs(count: int) -> Iterator[list[int]]:
    """Items to probe with: the second shows what the first leaves behind."""
    for i in range(min(TRIES, count)):
        yield sorted({i, (count // 2 + i) % count})
