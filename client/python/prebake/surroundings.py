"""What a value's results depend on beside itself: versions, variables and files it names, flags of the
process.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from prebake import calls, classes, packages
from prebake.encoder import Encoder


def _cpus() -> str:
    """As many threads as Polars will start."""
    return os.environ.get("POLARS_MAX_THREADS") or str(len(os.sched_getaffinity(0)))


#: Flags of a process that change what installed code yields: distribution, module, attributes, value if
#: unloaded.
FLAGS: tuple[tuple[str, str, str, Any], ...] = (
    ("pillow", "PIL.ImageFile", "LOAD_TRUNCATED_IMAGES", False),
    ("torch", "torch", "get_default_dtype", "torch.float32"),
    # Its tables come in so many pieces, on which the last bit of a sum depends.
    ("polars", "polars", "thread_pool_size", _cpus),
)
#: Words in the names of variables that hold secrets.
SECRETS = ("KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH")


def surround(encoder: Encoder) -> None:
    """Writes them, and a leaf for each."""
    encoder.emit("tables", f"{calls.VERSION} {classes.VERSION}".encode())
    for owner in sorted(packages.required(frozenset(encoder.packages))):
        encoder.packages.setdefault(owner.name, owner.version)
    for name, version in sorted(encoder.packages.items()):
        _named(encoder, "version", f"package {name}", version)
    for name, value in sorted(encoder.variables.items()):
        # The value counts, but what is a secret is shown to nobody.
        secret = any(word in name.upper() for word in SECRETS)
        _named(encoder, "environment", f"[env] {name}", value, shown=not secret)
    for path, content in sorted(encoder.files.items()):
        # Where the file lies does not count, only what it holds; its name is in the code.
        _named(encoder, "environment", f"[file] {path}", content)
    for (distribution, module, attribute, _), value in zip(FLAGS, flags(), strict=True):
        if distribution in encoder.packages:
            _named(encoder, "environment", f"[process] {module}.{attribute}", value)


def flags() -> tuple[str, ...]:
    """The flags' values now. Those of modules that are not loaded are as they will be."""
    found = []
    for _, module, attribute, unloaded in FLAGS:
        loaded = sys.modules.get(module)
        value = unloaded if loaded is None else getattr(loaded, attribute, unloaded)
        found.append(str(value() if callable(value) else value))
    return tuple(found)


def _named(encoder: Encoder, kind: str, name: str, value: Any, shown: bool = True) -> None:
    start = len(encoder.out)
    encoder.text(kind, name)
    encoder.value(value)
    encoder.path.append(f" {name}")
    encoder.leaf(start, value if shown else object, kind)
    encoder.path.pop()
