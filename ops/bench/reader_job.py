"""Reads the elements in the ways it is told to: `python reader_job.py FOLDER`.

Each line of input is a way and a number, by which orders are shuffled; the answer is a line of JSON: how long
one pass took, and the sum of all bytes. What a way needs is made at its first pass and kept, as in a job.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from elements import BATCH, SHAPE, VALUES, element, files, mapped, touch

import prebake

#: What the figures may depend on.
PACKAGES = ("prebake", "numpy", "torch")
WORKERS = (0, 2)


class Mapped:
    """As people read a file of equal samples through torch."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / VALUES
        self._count = self._path.stat().st_size // int(np.prod(SHAPE))
        self._values: Any = None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, i: int) -> Any:
        import torch

        if self._values is None:
            # In each worker.
            self._values = np.memmap(self._path, np.uint8, "r", shape=(self._count, *SHAPE))
        return torch.from_numpy(self._values[i].copy())


class Ways:
    """The ways to read, by name; each yields batches."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loaders: dict[tuple[str, int], Any] = {}

    @functools.cached_property
    def _mapped(self) -> Any:
        return mapped(self._folder)

    @functools.cached_property
    def _cached(self) -> Any:
        return prebake.wrap(files(self._folder), [element])

    def of(self, name: str) -> Callable[[int], Iterable[Any]]:
        """A way by its name."""
        return getattr(self, name)

    def memmap(self, number: int) -> Iterable[Any]:
        """In order, where it lies."""
        return (self._mapped[start : start + BATCH] for start in range(0, len(self._mapped), BATCH))

    def memmap_gathered(self, number: int) -> Iterable[Any]:
        """In order, as NumPy gathers what does not lie side by side."""
        return (
            self._mapped[np.arange(start, min(start + BATCH, len(self._mapped)))]
            for start in range(0, len(self._mapped), BATCH)
        )

    def memmap_shuffled(self, number: int) -> Iterable[Any]:
        """Shuffled."""
        order = np.random.default_rng(number).permutation(len(self._mapped))
        return (self._mapped[order[start : start + BATCH]] for start in range(0, len(order), BATCH))

    def cached(self, number: int) -> Iterable[Any]:
        """In order, not to be written to."""
        return self._cached.batches(size=BATCH, writable=False)

    def cached_writable(self, number: int) -> Iterable[Any]:
        """In order, copy-on-write."""
        return self._cached.batches(size=BATCH)

    def cached_shuffled(self, number: int) -> Iterable[Any]:
        """Shuffled."""
        order = np.random.default_rng(number).permutation(len(self._cached))
        return self._cached.batches(order.tolist(), BATCH)

    def memmap_loader0(self, number: int) -> Iterable[Any]:
        """By torch's loader, shuffled, in the job."""
        return self._loaded("memmap", 0, number)

    def memmap_loader2(self, number: int) -> Iterable[Any]:
        """The same by two workers."""
        return self._loaded("memmap", 2, number)

    def cached_loader0(self, number: int) -> Iterable[Any]:
        """The same loader over the wrapped data set."""
        return self._loaded("cached", 0, number)

    def cached_loader2(self, number: int) -> Iterable[Any]:
        """The same by two workers."""
        return self._loaded("cached", 2, number)

    def _loaded(self, name: str, workers: int, number: int) -> Iterable[Any]:
        import torch
        from torch.utils.data import DataLoader

        torch.set_num_threads(1)
        if (name, workers) not in self._loaders:
            data = Mapped(self._folder) if name == "memmap" else self._cached
            self._loaders[name, workers] = DataLoader(
                data, batch_size=BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0
            )
        torch.manual_seed(number)
        return (batch.numpy() for batch in self._loaders[name, workers])

    def check(self) -> None:
        """Raises if anything was computed."""
        if "_cached" in vars(self) and self._cached.stats()["computed"]:
            raise RuntimeError(f"the cache was not warm: {self._cached.stats()}")


def versions() -> dict[str, str]:
    """Of what the figures may depend on, as far as it is installed."""
    found = {"python": sys.version.split()[0]}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def main() -> None:
    """The command line."""
    ways = Ways(Path(sys.argv[1]))
    print(json.dumps({"versions": versions()}), flush=True)
    for line in sys.stdin:
        name, number = line.split()
        start = time.perf_counter()
        total = touch(ways.of(name)(int(number)))
        seconds = time.perf_counter() - start
        ways.check()
        print(json.dumps({"seconds": seconds, "sum": total}), flush=True)


if __name__ == "__main__":
    main()
