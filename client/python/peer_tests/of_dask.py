"""dask: `tokenize` in its tests is `prebake.fingerprint` of all that is tokenized.

Told to be deterministic, it refuses by `TokenizationError`; else what it would refuse is never the same.
"""

from __future__ import annotations

from typing import Any

import asked


def prepare() -> None:
    """Nothing: the tests import the function by name."""


def patch(module: Any) -> None:
    """Patches what a module of tests imported by name."""
    import dask
    from dask.tokenize import tokenize as tokenize_of

    if getattr(module, "tokenize", None) is not tokenize_of:
        return

    def tokenize(*args: Any, **kwargs: Any) -> Any:
        if not asked.on:
            return tokenize_of(*args, **kwargs)
        strict = kwargs.pop("ensure_deterministic", None)
        if strict is None:
            strict = dask.config.get("tokenize.ensure-deterministic") or False
        value = (args, kwargs) if kwargs or len(args) != 1 else args[0]
        return asked.identity(value, _refusal if strict else lambda _: None)

    module.tokenize = tokenize


def _refusal(refused: Any) -> BaseException:
    from dask.tokenize import TokenizationError

    said = "Cannot tokenize: cannot be deterministically hashed; see dask.array.ufunc, use that instead"
    return TokenizationError(f"{said}: {refused}")
