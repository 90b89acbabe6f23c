"""Bake once, serve every job.

Jobs on one node that run the same preprocessing over the same data share one computation of it:

    ds = prebake.wrap(files, [decode, resize, prebake.random(augment)])
    for batch in ds.batches(order, 50): ...

    @prebake.cached(inputs=["path"])
    def vocabulary(path): ...

A job never fails, and never gets other bytes than it would have computed, because of Prebake: without a
daemon, or with `PREBAKE=off`, everything is computed in the job. `PREBAKE_DIR` names the daemon's folder.
"""

import contextlib
import importlib
from typing import TYPE_CHECKING

from prebake.cached import cached
from prebake.dataset import Dataset
from prebake.identity.code import fingerprint
from prebake.known.marks import pure, random, register, split
from prebake.memo import known_sources
from prebake.purity import said
from prebake.reads import audit_hook
from prebake.runtime import daemon
from prebake.runtime.errors import PrebakeWarning, Refused
from prebake.runtime.statistics import Stats
from prebake.wrap import wrap

__all__ = [
    "Dataset",
    "PrebakeWarning",
    "Refused",
    "Stats",
    "cached",
    "fingerprint",
    "pure",
    "random",
    "register",
    "split",
    "wrap",
]

said.keep_in(known_sources)

with contextlib.suppress(ImportError):
    # Here, where a job expects to wait, and not before its first batch.
    importlib.import_module("prebake._native")

if not daemon.off():
    audit_hook.listen_to_setup()

#: Shims that import their framework, loaded when first named.
_SHIMS = frozenset({"hf", "tf", "wds"})

if TYPE_CHECKING:
    from prebake import hf as hf
    from prebake import tf as tf
    from prebake import wds as wds

    __version__: str
else:
    # To a type checker any name would be here.
    def __getattr__(name: str) -> object:
        if name in _SHIMS:
            return importlib.import_module(f"prebake.{name}")
        if name == "__version__":
            # Slow to load, and rarely asked for.
            from importlib import metadata

            return metadata.version("prebake")
        raise AttributeError(f"module 'prebake' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What is public; folders of the package are not."""
    return sorted([*__all__, *_SHIMS, "__doc__", "__version__"])
