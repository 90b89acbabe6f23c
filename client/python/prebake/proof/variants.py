"""Variants of a collection: what some worlds yield where others yield something else."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from prebake.encoding.digests import digest
from prebake.runtime import daemon

#: Variants of variants: each is what some world yields where all before it agree.
DEPTH_MAX = 4

CONTEXT = "prebake 2026 variant v1"


class Split(NamedTuple):
    """A variant of a graph: its key, and what differs, in words."""

    key: bytes
    why: str


class Planner:
    """Stands for a native job where items are opened: plans the variant of each graph, and notes what was
    planned last, which is what the items are of."""

    def __init__(self, job: Any, variants: Sequence[Split] = ()) -> None:
        self.job = job
        self.variants = list(variants)
        self.collection: Any = None

    def plan(self, graph_json: str) -> Any:
        self.collection = self.job.plan(varied(graph_json, self.variants))
        return self.collection

    def plan_once(self, graph_json: str) -> Any:
        """The same of a graph that this process asks for at every call of a function."""
        here = daemon.current()
        plan = here.plan_once if here is not None and here.job is self.job else self.job.plan
        self.collection = plan(varied(graph_json, self.variants))
        return self.collection


def varied(graph_json: str, variants: Sequence[Split]) -> str:
    """The graph of a variant: its output is another operator, for a reason that a leaf tells."""
    if not variants:
        return graph_json
    graph = json.loads(graph_json)
    output = next(each for each in graph["operators"] if each["id"] == graph["output"])
    keys = b"".join(variant.key for variant in variants)
    known = base64.b64decode(output.get("codeDigest", ""))
    output["codeDigest"] = base64.b64encode(digest(CONTEXT, known + keys)).decode()
    leaf = {
        "path": "world",
        "kind": "world",
        "digest": base64.b64encode(variants[-1].key[:16]).decode(),
        "shown": variants[-1].why[:200],
        "location": "",
    }
    output["leaves"] = [leaf, *output.get("leaves", [])]
    return json.dumps(graph)
