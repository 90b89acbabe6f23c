"""A job that comes while the crowd is there: `python visitor_job.py CACHE INPUTS`, its round on its input.

It reads the wrapped data set, which is there, and a pipeline of its own of which others hold leases. It
proves every value, and the last line of its output tells how many it computed, JSON.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from pathlib import Path

import numpy as np
import steps

import prebake
from prebake import _native

#: One that takes so long says where it is: all that it does takes a few seconds.
LONG_SECONDS = 60.0


def main() -> None:
    """The command line."""
    faulthandler.dump_traceback_later(LONG_SECONDS)
    cache, inputs = map(Path, sys.argv[1:])
    round_ = int(sys.stdin.readline())
    paths = steps.inputs(inputs)
    wrapped = prebake.wrap(paths, [steps.make])
    wrong = sum(not np.array_equal(wrapped[i], steps.value(i)) for i in range(len(paths)))

    graph, pipeline = steps.held(round_)
    items = _native.connect(str(cache), "visitor", False).plan(graph).files(str(inputs), paths)
    everything, computed, bypassed = range(len(paths)), set[int](), list[int]()
    while left := [i for i in everything if i not in computed]:
        # Waits where all that is left is held by others.
        leased, bypassed = items.acquire(left, [])
        steps.put(items, leased, pipeline)
        # A job has what it computed, whether or not there was room to store it.
        computed.update(leased)
        if not leased:
            break
    for i in everything:
        found = items.get(i)
        if found is None:
            wrong += i not in computed and i not in bypassed
        else:
            wrong += not steps.is_right(found[0], i, pipeline)
    stats = wrapped.stats()
    print(
        json.dumps({"wrong": wrong, "computed": len(computed), "bypassed": len(bypassed), "wrapped": stats})
    )


if __name__ == "__main__":
    main()
