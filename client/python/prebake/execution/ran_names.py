"""How files of code that ran and variables that were read stand among the names of what an element was made
of, and what they hold.
"""

from __future__ import annotations

import os
from typing import Any

from prebake.runtime import store_clients, worker_rank
from prebake.world import user_sources

#: How a variable and a file of code stand among the names of what an element was made of.
VARIABLE, CODE = "variable:", "code:"

#: Stand among variables, though none of a process can have such a name: whether it is a worker of a loader,
#: and which. No part of a world: most elements are the same in all workers.
IN_WORKER, WORKER = "=in a worker", "=worker"


def shown(name: str) -> str:
    """What a variable, or a file of code, holds."""
    if name.startswith(CODE):
        with store_clients.own():
            return user_sources.source(name.removeprefix(CODE))
    variable = name.removeprefix(VARIABLE)
    if variable in (IN_WORKER, WORKER):
        worker = worker_rank.place()[: len(worker_rank.FIELDS)]
        return str(worker if variable == WORKER else worker[0] >= 0)
    value = os.environ.get(variable)
    return "absent" if value is None else f"={value}"


def is_name(name: Any) -> bool:
    """Whether a name among those of what an element was made of is that of code or of a variable."""
    return type(name) is str and name.startswith((VARIABLE, CODE))
