"""Whether a pipeline's shared part was seen to be deterministic: asked once per pipeline and node.

The double-run probe (`probe.py`) takes a second or so, so that its verdict is an entry like any other, keyed
by what the pipeline is. Jobs that start together wait for the one that probes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from prebake.identity import graph
from prebake.identity.code import Identity
from prebake.leases.client import found_once
from prebake.probe.analysis import Verdict
from prebake.probe.probe import run
from prebake.reads.record import Record
from prebake.runtime import patience
from prebake.runtime.errors import Code

#: An item on which the user's own code fails says nothing about the others: so many times others are tried.
TRIES = 3
#: Items beside those that are looked at closely: an item may take another way through the code than most.
OTHERS_MAX = 64

Result = TypeVar("Result")


def verdict(
    known: Sequence[Identity],
    load: Callable[[int], Any],
    steps: Sequence[Callable[[Any], Any]],
    vouched: Collection[int],
    count: int,
    others: Sequence[int] = (),
) -> tuple[Verdict, list[int]]:
    """The verdict on `steps` after `load`, of a pipeline that is `known`, and the items it was probed with:
    of `count`, and of some `others` if they are cheap. Steps of `vouched` are taken at their word. Raises
    `Pending` if it takes longer than a loader waits.
    """
    limit = patience.seconds()
    if limit is None:
        others = others or others_of(count)
        return _verdict(known, load, steps, vouched, list(_pairs(count)), others)
    pair = next(_pairs(count), [])
    key = b"".join(each.digest for each in known)
    return patience.within(
        limit, key, lambda loaded: _verdict(known, loaded, steps, vouched, [pair]), load, pair
    )


def others_of(count: int) -> range:
    """Items of so many that are looked at beside those that are probed, if they are cheap."""
    return range(0, count, max(1, count // OTHERS_MAX))


def _verdict(
    known: Sequence[Identity],
    load: Callable[[int], Any],
    steps: Sequence[Callable[[Any], Any]],
    vouched: Collection[int],
    pairs: Sequence[list[int]],
    others: Sequence[int] = (),
) -> tuple[Verdict, list[int]]:
    def probe() -> tuple[list[int], str]:
        for items in pairs:
            # Values are each their item's own, so that steps may work in place.
            # Of so few items that they are probed one by one, others may be as dear as these.
            beside = others if len(items) > 1 else ()
            found = run(load, steps, items, in_place=True, vouched=vouched, others=beside)
            if found.code is not Code.OPAQUE or not found.lasting:
                break
        if not found.lasting:
            raise _Passing(items, found)
        return items, found.json()

    try:
        items, found = _once("probe", known, probe)
    except _Passing as passing:
        return passing.verdict, passing.items
    return Verdict.from_json(found), items


class _Passing(BaseException):
    """A verdict that is not kept: the next job may find another. No error of the user's."""

    def __init__(self, items: list[int], verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.items = items
        self.verdict = verdict


def reading(known: Sequence[Identity], make: Callable[[int], list[Record]]) -> int:
    """How many of a pipeline's first steps open files of their own, as the transforms of some libraries do:
    an item's files are known once these have run. `make` makes an item: what loading and each step opened.
    """

    def look() -> int:
        # Once before, since what a first run opens (a module, a table) belongs to no item.
        make(0)
        loading, *steps = make(0)
        return max(
            (i + 1 for i, step in enumerate(steps) if step.reads.keys() - loading.reads.keys()), default=0
        )

    return _once("reading", known, look)


def _once(what: str, known: Sequence[Identity], find: Callable[[], Result]) -> Result:
    """What is found out about a pipeline, by the first job that asks."""

    def open_items(job: Any) -> Any:
        described = graph.chain([graph.arguments(), graph.named_step(f"prebake.{what}")])
        digest = hashlib.blake2b(b"".join(each.digest for each in known), digest_size=32).digest()
        return job.plan(described).call(what, digest, [])

    # Whatever draws meanwhile is no step: those run in other processes.
    found: Result = found_once(open_items, find)
    return found


def _pairs(count: int) -> Iterator[list[int]]:
    """Items to probe with: the second shows what the first leaves behind."""
    for i in range(min(TRIES, count)):
        yield sorted({i, (count // 2 + i) % count})
    if count <= TRIES:
        # One of so few may be in all pairs.
        yield from ([i] for i in range(count))
