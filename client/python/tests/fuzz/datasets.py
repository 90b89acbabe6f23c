"""The kinds of data sets: what an item is made of besides its own file, and what is kept between items."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Transform = Callable[[Any], Any]


class Folder:
    """An image and a number that the data set holds."""

    def __init__(self, root: Path, transform: Transform) -> None:
        self.root = Path(root)
        self.transform = transform
        self.files = sorted(self.root.glob("*/*.jpg"))
        self.extra = 0
        self.weights = np.arange(1000.0)

    def __len__(self) -> int:
        return len(self.files)

    def load(self, i: int) -> Any:
        return Image.open(self.files[i]).convert("RGB")

    def __getitem__(self, i: int) -> Any:
        x = self.load(i)
        x = self.transform(x) if self.transform else np.asarray(x)
        return x, int(self.weights[i]) + self.extra


class Labels(Folder):
    """Reads a file that all items share."""

    def __getitem__(self, i: int) -> Any:
        image = self.load(i)
        labels = json.loads((self.root / "labels.json").read_text())
        return {"x": self.transform(image), "y": labels[self.files[i].name] + self.extra, "i": i}


class Neighbours(Folder):
    """Reads another item's file, after its transform."""

    def __getitem__(self, i: int) -> Any:
        j = (i + 1) % len(self)
        return self.transform(self.load(i)), np.asarray(self.load(j)).mean()


class SidecarIfThere(Folder):
    """Asks whether a file is there."""

    def __getitem__(self, i: int) -> Any:
        path = self.files[i].with_suffix(".txt")
        extra = path.read_text() if path.exists() else "none"
        return self.transform(self.load(i)), extra


class SidecarTried(Folder):
    """Opens a file that may not be there."""

    def __getitem__(self, i: int) -> Any:
        try:
            extra = open(self.files[i].with_suffix(".txt")).read()  # noqa: SIM115
        except FileNotFoundError:
            extra = "none"
        return self.transform(self.load(i)), extra


class LazyIndex(Folder):
    """Reads a file with the first item, and keeps it."""

    _index: Any = None

    def __getitem__(self, i: int) -> Any:
        if self._index is None:
            self._index = json.loads((self.root / "labels.json").read_text())
        return self.transform(self.load(i)), self._index[self.files[i].name]


class Keeping(Folder):
    """Keeps each image that it loaded."""

    def __init__(self, root: Path, transform: Transform) -> None:
        super().__init__(root, transform)
        self.kept: dict[int, Any] = {}

    def __getitem__(self, i: int) -> Any:
        if i not in self.kept:
            self.kept[i] = self.load(i)
        return self.transform(self.kept[i]), i


class Counting(Folder):
    """Returns how often it was asked."""

    def __init__(self, root: Path, transform: Transform) -> None:
        super().__init__(root, transform)
        self.n = 0

    def __getitem__(self, i: int) -> Any:
        self.n += 1
        return self.transform(self.load(i)), self.n


class Epochs(Folder):
    """Is told of each epoch by its user, in an attribute that its class has."""

    epoch = 0

    def __getitem__(self, i: int) -> Any:
        return self.transform(self.load(i)), self.epoch


class RandomFile(Folder):
    """Draws which file an item is, for every other item."""

    def __getitem__(self, i: int) -> Any:
        return self.transform(self.load(random.randrange(len(self)) if i % 2 else i)), i


class InMemory(Folder):
    """Loads all when it is made; nothing is opened later."""

    def __init__(self, root: Path, transform: Transform) -> None:
        super().__init__(root, transform)
        self.data = [np.asarray(self.load(i)) for i in range(len(self))]

    def __getitem__(self, i: int) -> Any:
        return self.transform(Image.fromarray(self.data[i])), i


class Sizes(Folder):
    """Asks for a file's size."""

    def __getitem__(self, i: int) -> Any:
        return self.transform(self.load(i)), os.path.getsize(self.files[i])


class RealPaths(Folder):
    """Asks where a file's path leads."""

    def __getitem__(self, i: int) -> Any:
        return self.transform(self.load(i)), os.path.realpath(self.files[i])


def decode(path: str) -> Any:
    return Image.open(path).convert("RGB")


class Listed:
    """A list of paths and the steps after it: what `wrap` takes apart by itself, here put together."""

    def __init__(self, root: Path, transform: Any) -> None:
        self.files = [str(path) for path in sorted(root.glob("*/*.jpg"))]
        self.steps: Sequence[Transform] = [decode, *transform.transforms]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> Any:
        x: Any = self.files[i]
        for step in self.steps:
            x = step(x)
        return x


#: What a seed chooses from. Lists of files are what most jobs have, and twice as likely.
KINDS = [
    Folder,
    Labels,
    Neighbours,
    SidecarIfThere,
    SidecarTried,
    LazyIndex,
    Keeping,
    Counting,
    Epochs,
    RandomFile,
    InMemory,
    Sizes,
    RealPaths,
    Listed,
    Listed,
]
