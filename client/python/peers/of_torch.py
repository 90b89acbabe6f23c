"""torch: the data sets that its data loader's tests load from are wrapped by `prebake.wrap`.

The tests are of an older release than the one that is installed: names that it no longer has stand for
nothing, and a test that goes on with one fails without Prebake too, and is not run.
"""

from __future__ import annotations

import types
from typing import Any

import asked

import prebake


def prepare() -> None:
    """Names that are gone."""
    import torch.utils.data

    for name in ("DataLoader2", "communication"):
        if not hasattr(torch.utils.data, name):
            setattr(torch.utils.data, name, types.SimpleNamespace())


def patch(module: Any) -> None:
    """Patches what a module of tests imported by name."""
    import torch.utils.data

    if getattr(module, "DataLoader", None) is not torch.utils.data.DataLoader:
        return
    module.DataLoader = _standing_in(torch.utils.data.DataLoader)
    module.TensorDataset = _wrapping(torch.utils.data.TensorDataset)


def _standing_in(cls: Any) -> Any:
    class DataLoader(cls):
        def __init__(self, dataset: Any, *args: Any, **kwargs: Any) -> None:
            super().__init__(_wrapped(dataset) if asked.on else dataset, *args, **kwargs)

    DataLoader.__module__, DataLoader.__qualname__ = cls.__module__, cls.__qualname__
    return DataLoader


def _wrapping(cls: Any) -> Any:
    def TensorDataset(*tensors: Any) -> Any:
        made = cls(*tensors)
        return _wrapped(made) if asked.on else made

    return TensorDataset


def _wrapped(dataset: Any) -> Any:
    asked.now.asks += 1
    try:
        return prebake.wrap(dataset)
    except prebake.Refused as refused:
        asked.now.refused.append(str(refused.code))
        return dataset
    except Exception:
        asked.crash("wrap")
        raise
