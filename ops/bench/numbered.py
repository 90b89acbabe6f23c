"""Elements of a few bytes, each of an item that is a number: as many entries as wanted, in seconds."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

from prebake import _native
from prebake.demo.daemon import PrivateDaemon
from prebake.identity import graph

#: Bytes of an element.
BYTES = 64
#: Items of one call: a client leases so many at a time.
AT_ONCE = 4_096
LAYOUT = f'{{"kind":"ndarray","dtype":"|u1","shape":[{BYTES}]}}'
#: What it is said to have cost to compute an element.
CPU_NS = 100_000


def connect(daemon: PrivateDaemon) -> Any:
    """A job of the daemon, in this process."""
    return _native.connect(str(daemon.folder / "cache"), "bench", False)


def plan(job: Any, number: int = 0) -> Any:
    """One of many collections."""
    return job.plan(pipeline(number))


def pipeline(number: int) -> str:
    """The graph of one of many collections."""
    step = {**graph.named_step("numbered"), "params": {"number": {"text": str(number)}}}
    return graph.chain([graph.arguments(), step])


def items(collection: Any, numbers: Sequence[int]) -> Any:
    """The items of these numbers; names are as long as those of files in folders."""
    named = [(hashlib.blake2s(b"%d" % n).digest(), f"part-{n // 1000:05}/{n:08}.tok") for n in numbers]
    return collection.named("/", named, True)


def fill(collection: Any, numbers: Sequence[int]) -> None:
    """Makes an entry for each; raises if one is not stored."""
    some = items(collection, numbers)
    value = os.urandom(BYTES)
    for first in range(0, len(numbers), AT_ONCE):
        places = range(first, min(first + AT_ONCE, len(numbers)))
        granted, bypassed = some.acquire(places, [], AT_ONCE)
        if bypassed or len(granted) < len(places):
            raise RuntimeError(f"not to be stored: {bypassed}, {len(granted)} of {len(places)} granted")
        for place in granted:
            if not some.put(place, LAYOUT, [value], CPU_NS, 0):
                raise RuntimeError(f"item {numbers[place]} was not stored")
        some.commit()


def find(some: Any) -> Any:
    """Has each of the items located; raises if an entry is not there."""
    for first in range(0, len(some), AT_ONCE):
        if some.acquire(range(first, min(first + AT_ONCE, len(some))), [], 1) != (
            [],
            {},
        ):
            raise RuntimeError("an entry is not there")
    return some
