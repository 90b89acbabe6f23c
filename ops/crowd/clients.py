"""Many clients in one process: each acts when its time has come, until the run ends.

A process of the crowd says `ready` when all of its clients have begun. It ends after its time, or when its
standard input does, which is when whoever started it is gone. The last line of output is what it counted,
JSON.
"""

from __future__ import annotations

import heapq
import json
import random
import select
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol


class Client(Protocol):
    """One of them."""

    def act(self) -> float:
        """Does one thing, and says in how many seconds the next is due."""

    def end(self) -> None:
        """Closes what it has open."""


#: What all clients of this process counted.
counts: Counter[str] = Counter()
#: The first few things that were wrong, in words.
findings: list[str] = []
FINDINGS_MAX = 5


def find(what: str, told: object) -> None:
    """Counts something that is wrong."""
    counts[what] += 1
    if len(findings) < FINDINGS_MAX:
        findings.append(f"{what}: {told}")


def run(make: Callable[[int], Client], numbers: Sequence[int], seconds: float) -> None:
    """Begins the clients of these numbers and lets them act. An error here is a fault of the harness."""
    clients = [make(number) for number in numbers]
    for client in clients:
        client.act()
    print("ready", flush=True)
    until = time.monotonic() + seconds
    # Spread over their first seconds: all at once would be a load that no crowd of jobs is.
    due = [(time.monotonic() + random.random(), place) for place in range(len(clients))]
    heapq.heapify(due)
    while (now := time.monotonic()) < until:
        at, place = due[0]
        if at > now:
            if select.select([sys.stdin], [], [], min(at - now, until - now))[0]:
                break
            continue
        pause = clients[place].act()
        heapq.heapreplace(due, (time.monotonic() + pause, place))
    for client in clients:
        client.end()
    print(json.dumps({"counts": counts, "findings": findings}), flush=True)
