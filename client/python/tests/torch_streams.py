"""Streams as users of torch write them, for test_torch_streams.py: jobs of their own."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from streams import draw, numbers
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import prebake


class Texts(IterableDataset):
    """One tensor for each text; each worker takes its share."""

    def __init__(self, files: list[str]) -> None:
        self.files = files

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        share, shares = (0, 1) if info is None else (info.id, info.num_workers)
        for i, path in enumerate(self.files):
            if i % shares == share:
                yield {"text": torch.tensor(numbers(path)), "at": i}


class Seeded(Texts):
    """Draws by its worker's seed, which is another in each epoch."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        shift = 0 if info is None else info.seed % 7
        for each in super().__iter__():
            yield {**each, "shift": shift}


class Noisy(Texts):
    def __iter__(self) -> Iterator[Any]:
        for each in super().__iter__():
            yield {**each, "noise": _DRAWS["draw"](1000)}


_DRAWS = {"draw": draw}


class Stateful(Texts):
    """Says how far it is."""

    def __init__(self, files: list[str]) -> None:
        super().__init__(files)
        self.at = 0

    def __iter__(self) -> Iterator[Any]:
        while self.at < len(self.files):
            self.at += 1
            yield torch.tensor(numbers(self.files[self.at - 1]))
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class ItsOwnIterator(Stateful):
    """Cannot be put back twice."""

    def __iter__(self) -> Any:
        self.put_back = False
        return self

    def __next__(self) -> Any:
        if self.at == len(self.files):
            self.at = 0
            raise StopIteration
        self.at += 1
        return torch.tensor(numbers(self.files[self.at - 1]))

    def load_state_dict(self, state: dict[str, int]) -> None:
        assert not vars(self).get("put_back"), "put back twice"
        super().load_state_dict(state)
        self.put_back = True


class InItsIterator(Texts):
    """Its iterator says how far it is."""

    def __iter__(self) -> Any:
        return iter(ItsOwnIterator(self.files))


def plain(batch: Any) -> Any:
    if isinstance(batch, dict):
        return {name: plain(each) for name, each in batch.items()}
    return [str(batch.dtype), batch.tolist()] if isinstance(batch, torch.Tensor) else batch


def stopped(data: Any, workers: int) -> list[Any]:
    """Some batches, and the rest from another loader."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    first = StatefulDataLoader(data, batch_size=4, num_workers=workers)
    found = []
    for batch in first:
        found.append(plain(batch))
        if len(found) == 2:
            break
    state = first.state_dict()
    second = StatefulDataLoader(data, batch_size=4, num_workers=workers)
    second.load_state_dict(state)
    return [*found, repr(state), *(plain(batch) for batch in second)]


def main() -> None:
    """A job by its task (JSON): prints what it saw in two epochs, and what was said."""
    task = json.loads(os.environ["PREBAKE_TEST_TASK"])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        data = globals()[task["kind"]](list(task["files"]))
        data = prebake.wrap(data) if task["wrapped"] else data
        assert isinstance(data, IterableDataset) and len(data.files) == len(task["files"])
        torch.manual_seed(3)
        random.seed(3)
        if task.get("stopped"):
            found = stopped(data, task["workers"])
        else:
            how = multiprocessing.get_context(task["how"]) if task["workers"] else None
            loader = DataLoader(
                data,
                task["size"],
                num_workers=task["workers"],
                multiprocessing_context=how,
                # To begin workers anew in each epoch takes spawned ones many seconds.
                persistent_workers=task.get("how") == "spawn",
            )
            found = [[plain(batch) for batch in loader] for _ in range(2)]
            found.append([random.random(), float(torch.rand(1))])
    messages = [str(each.message) for each in said if issubclass(each.category, prebake.PrebakeWarning)]
    print(json.dumps({"found": found, "said": messages}))
