"""Names a pipeline of three transforms, over and over. The last line of output is the answer, JSON: the
median round trip.
"""

from __future__ import annotations

import json
import statistics
import time

from prebake import _native
from prebake.demo import pipeline as demo_pipeline
from prebake.identity import graph
from prebake.identity.code import identify

#: Calls that are measured, and before.
PLANS, PLANS_BEFORE = 2_000, 100


def main() -> None:
    """The command line."""
    job = _native.connect(None, "bench", False)
    steps = (graph.step(each, identify(each)) for each in demo_pipeline.transforms("eval", 0))
    pipeline = graph.chain([graph.files(False), *steps])
    spent = []
    for _ in range(PLANS_BEFORE + PLANS):
        start = time.perf_counter_ns()
        job.plan(pipeline)
        spent.append(time.perf_counter_ns() - start)
    print(json.dumps({"p50_us": statistics.median(spent[PLANS_BEFORE:]) / 1e3}))


if __name__ == "__main__":
    main()
