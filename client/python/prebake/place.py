"""Where in a job a stream runs: which of the loader's workers, and which of the job's ranks.

`get_worker_info` tells each worker of a loader its number, and streams part their work by it. It also tells a
seed that is another in each epoch.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

_WORKER = "torch.utils.data._utils.worker"
#: What tells a worker from others; and what is another one in each epoch.
FIELDS, SEEDS = ("id", "num_workers"), ("seed", "rng")
#: Where `get_worker_info` is.
ASKING = "get_worker_info", os.path.join("torch", "utils", "data", "_utils", "worker.py")


def place() -> tuple[int, ...]:
    """The worker's number and their count, the rank and the world's size; -1 and 0 where there are none."""
    info = getattr(sys.modules.get(_WORKER), "_worker_info", None)
    # Past what hears of it: who is told this is no element.
    worker = (-1, 0) if info is None else tuple(object.__getattribute__(info, name) for name in FIELDS)
    ranks = getattr(sys.modules.get("torch"), "distributed", None)
    if ranks is None or not ranks.is_available() or not ranks.is_initialized():
        return (*worker, -1, 0)
    return (*worker, ranks.get_rank(), ranks.get_world_size())


def listen(asked: Callable[[str], None]) -> None:
    """Has `asked` told from now on which fields are asked for of this worker, in this process."""
    module = sys.modules.get(_WORKER)
    info = getattr(module, "_worker_info", None)
    if info is not None and not hasattr(type(info), "_prebake_heard"):
        module._worker_info = _stand_in(info, _heard(type(info), asked))  # type: ignore[union-attr]


@functools.cache
def _heard(base: type, asked: Callable[[str], None]) -> type:
    def get(self: Any, name: str) -> Any:
        asked(name)
        return object.__getattribute__(self, name)

    return type(base.__name__, (base,), {"__getattribute__": get, "_prebake_heard": True})


def _stand_in(info: Any, cls: type) -> Any:
    made = cls.__new__(cls)
    # It is frozen, with slots or without: that depends on torch's version.
    for name in getattr(info, "__dataclass_fields__", None) or vars(info):
        object.__setattr__(made, name, object.__getattribute__(info, name))
    return made


class SeedAsked:
    """Whether a worker's seed, or a generator of it, was asked for."""

    def __init__(self) -> None:
        self.asked = False


@contextlib.contextmanager
def watched() -> Iterator[SeedAsked]:
    """Tells whether what runs inside asks for its worker's seed."""
    seen = SeedAsked()
    module = sys.modules.get(_WORKER)
    info = getattr(module, "_worker_info", None)
    if module is None or info is None:
        yield seen
        return
    stand_in = _stand_in(info, _class(type(info)))
    object.__setattr__(stand_in, "_prebake_seen", seen)
    module._worker_info = stand_in  # type: ignore[attr-defined]
    try:
        yield seen
    finally:
        if module._worker_info is stand_in:  # type: ignore[attr-defined]
            module._worker_info = info  # type: ignore[attr-defined]


@functools.cache
def _class(base: type) -> type:
    def get(self: Any, name: str) -> Any:
        if name in SEEDS:
            object.__getattribute__(self, "_prebake_seen").asked = True
        return object.__getattribute__(self, name)

    return type(base.__name__, (base,), {"__getattribute__": get, "_prebake_heard": True})
