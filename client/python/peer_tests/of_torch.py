"""torch: the data sets that its data loader's tests load from are wrapped by `prebake.wrap`.

The tests are of an older release than the one that is installed: one that wants what is gone fails without
Prebake too, and is not run.
"""

from __future__ import annotations

from typing import Any

import asked

import prebake


def prepare() -> None:
    """Nothing: the tests import what they use by name."""


def patch(module: Any) -> None:
    """Patches what a module of tests imported by name."""
    import torch.utils.data

    if getattr(module, "DataLoader", None) is not torch.utils.data.DataLoader:
        return
    module.DataLoader = _standing_in(torch.utils.data.DataLoader)
    module.TensorDataset = _wrapping(torch.utils.data.TensorDataset)


def _standing_in(loader: Any) -> Any:
    class DataLoader(loader):
        def __init__(self, dataset: Any, *args: Any, **kwargs: Any) -> None:
            super().__init__(_wrapped(dataset) if asked.on else dataset, *args, **kwargs)

        def __class_getitem__(cls, item: Any) -> Any:
            return loader[item]

    DataLoader.__module__, DataLoader.__qualname__ = loader.__module__, loader.__qualname__
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
        asked.now.refused.append(f"{refused.code} {refused}"[:200])
        return dataset
    except Exception:
        asked.crash("wrap")
        raise
