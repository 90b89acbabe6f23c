"""Settings that a job switches on and off around what it does, of which an identity knows nothing: under
`torch.autocast` a step yields another type, with another number of threads other last bits.

They are parts of the world (`world.py`), compared before every batch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

#: Modules and the functions of theirs that tell a setting.
SETTINGS: tuple[tuple[str, str], ...] = (
    ("torch", "is_grad_enabled"),
    ("torch", "is_inference_mode_enabled"),
    ("torch._C", "_is_any_autocast_enabled"),
    ("torch", "get_num_threads"),
    ("torch", "are_deterministic_algorithms_enabled"),
    ("torch", "get_float32_matmul_precision"),
)


def values() -> Iterator[tuple[str, Any]]:
    """The settings of modules that are imported, by name."""
    for name, attribute in SETTINGS:
        module = sys.modules.get(name)
        # One that is being imported by another thread has none yet.
        tells = None if module is None else getattr(module, attribute, None)
        if callable(tells):
            yield f"{name}.{attribute}", tells()
