"""Where in a job a stream runs: which of the loader's workers, and which of the job's ranks.

`get_worker_info` tells each worker of a loader its number, and streams part their work by it. It also tells a
seed that is another in each epoch.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
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
    if info is None or hasattr(type(info), "_prebake_heard"):
        return
    cls: Any = _heard(type(info), asked)
    stand_in = cls.__new__(cls)
    # It is frozen, with slots or without: that depends on torch's version.
    for name in getattr(info, "__dataclass_fields__", None) or vars(info):
        object.__setattr__(stand_in, name, getattr(info, name))
    module._worker_info = stand_in  # type: ignore[union-attr]


@functools.cache
def _heard(base: type, asked: Callable[[str], None]) -> type:
    def get(self: Any, name: str) -> Any:
        asked(name)
        return object.__getattribute__(self, name)

    return type(base.__name__, (base,), {"__getattribute__": get, "_prebake_heard": True})
