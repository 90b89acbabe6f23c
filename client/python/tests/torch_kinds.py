"""Data sets and pipelines as users of torch write them, for test_torch.py and its second processes."""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.datasets import ImageFolder, VisionDataset, VOCSegmentation
from torchvision.transforms import v2

import prebake


def note_decode() -> None:
    """One byte for each decode, of any process."""
    count = os.open(os.environ["PREBAKE_TEST_DECODES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(count, b".")
    os.close(count)


@prebake.pure
def load(path: str) -> Image.Image:
    # Reached so that the bookkeeping is no part of the fingerprint.
    sys.modules[__name__].note_decode()
    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


class Noise:
    """Draws from NumPy's and Python's generators, as augmentations from before torch had its own do."""

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        noise = np.random.randn(*image.shape).astype(np.float32)
        return image + torch.from_numpy(noise) * random.random()


class Pairs(VisionDataset):
    """Images with masks beside them, transformed together."""

    def __init__(self, root: str, transforms: Any = None) -> None:
        super().__init__(root, transforms=transforms)
        self.files = sorted(str(path) for path in Path(root).glob("*/*.jpg"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> Any:
        image = tv_tensors.Image(load(self.files[i]))
        mask = tv_tensors.Mask(image[:1] > 128)
        return self.transforms(image, mask) if self.transforms is not None else (image, mask)


def old(size: int) -> Any:
    return v1.Compose(
        [
            v1.Resize((size, size)),
            v1.RandomCrop(24),
            v1.RandomHorizontalFlip(),
            v1.ColorJitter(0.4, 0.4),
            v1.ToTensor(),
            Noise(),
        ]
    )


def new(size: int) -> Any:
    return v2.Compose(
        [
            v2.ToImage(),
            v2.Resize((size, size), antialias=True),
            v2.RandomResizedCrop(24, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            Noise(),
        ]
    )


def fixed(size: int) -> Any:
    return v2.Compose([v2.ToImage(), v2.Resize((size, size)), v2.ToDtype(torch.float32, scale=True)])


def joint(size: int) -> Any:
    return v2.Compose([v2.Resize((size, size)), v2.RandomCrop(24), v2.RandomHorizontalFlip(0.5)])


def segmented(size: int) -> Any:
    return v2.Compose([v2.ToImage(), *joint(size).transforms])


def tensors() -> TensorDataset:
    numbers = torch.arange(40 * 12, dtype=torch.float32).reshape(40, 12)
    return TensorDataset(numbers, numbers[:, 0].bool(), numbers.to(torch.bfloat16))


def dataset(kind: str, root: str, size: int = 32) -> Any:
    """A data set of a kind. `root` has images in class folders, and a VOCdevkit."""
    if kind == "tensors":
        return tensors()
    if kind == "joint":
        return Pairs(root + "/images", joint(size))
    if kind == "voc":
        return VOCSegmentation(root, image_set="train", transforms=segmented(size))
    transform = {"old": old, "new": new, "fixed": fixed}[kind](size)
    return ImageFolder(root + "/images", transform, loader=load)


def seed(number: int) -> None:
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number)


def seed_worker(_: int) -> None:
    # As PyTorch's notes on reproducibility say.
    number = torch.initial_seed() % 2**32
    np.random.seed(number)
    random.seed(number)


def digest(value: Any) -> str:
    """Of all there is to see of a batch: types too."""
    text = hashlib.sha256()
    _digest(value, text)
    return text.hexdigest()


def _digest(value: Any, text: Any) -> None:
    text.update(type(value).__qualname__.encode())
    if isinstance(value, torch.Tensor):
        text.update(f"{value.dtype}{tuple(value.shape)}{value.stride()}".encode())
        text.update(value.as_subclass(torch.Tensor).contiguous().view(torch.uint8).numpy().tobytes())
    elif isinstance(value, (list, tuple)):
        for each in value:
            _digest(each, text)
    elif isinstance(value, dict):
        _digest(list(value.items()), text)
    else:
        text.update(repr(value).encode())


def epochs(data: Any, loader: Any = DataLoader, count: int = 2, number: int = 7, **options: Any) -> list[Any]:
    """Digests of the batches of some epochs, shuffled, all seeds set."""
    seed(number)
    options = {"batch_size": 8, "shuffle": True, "worker_init_fn": seed_worker, **options}
    batches = loader(data, generator=torch.Generator().manual_seed(number), **options)
    return [[digest(batch) for batch in batches] for _ in range(count)]


def main() -> None:
    """A job of its own, by its task (JSON): prints what it saw, and what it said."""
    task = json.loads(sys.argv[1])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        data = dataset(task["kind"], task["root"])
        data = prebake.wrap(data) if task.get("wrapped", True) else data
        found = epochs(data, **task.get("options", {}))
    messages = [str(each.message) for each in said if issubclass(each.category, prebake.PrebakeWarning)]
    print(json.dumps({"found": found, "said": messages}))
