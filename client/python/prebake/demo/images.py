"""Photo-like JPEGs, made from a seed: for a demonstration without data of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageFilter

#: Sizes as they are common in ImageNet (width, height) and how often.
SIZES = [
    ((500, 375), 10),
    ((500, 333), 5),
    ((375, 500), 4),
    ((500, 400), 1),
    ((800, 600), 1),
    ((250, 200), 1),
]
#: The camera's compromise: about 110 kB for 500 x 375.
QUALITY = 92


def make(folder: Path, count: int, seed: int = 0) -> None:
    """Writes `count` images into a folder; the same for the same seed."""
    numbers = np.random.default_rng(seed)
    sizes = [size for size, times in SIZES for _ in range(times)]
    for i in range(count):
        size = sizes[int(numbers.integers(len(sizes)))]
        _photo(numbers, size).save(folder / f"image-{i:05d}.jpg", quality=QUALITY)


def _photo(numbers: Any, size: tuple[int, int]) -> Image.Image:
    """Soft large shapes, sharper small ones and grain: spectra fall off as a photograph's do."""
    width, height = size
    total = np.zeros((height, width, 3), np.float32)
    for cells, weight in ((4, 90.0), (12, 50.0), (40, 28.0), (130, 14.0)):
        coarse = numbers.normal(size=(cells, cells, 3)).astype(np.float32)
        for channel in range(3):
            plane = Image.fromarray(coarse[:, :, channel]).resize(size, Image.Resampling.BICUBIC)
            total[:, :, channel] += weight * np.asarray(plane)
    # Brightness varies more than colour does.
    total = 0.3 * total + 1.1 * total.mean(axis=2, keepdims=True)
    total += numbers.normal(scale=8.0, size=total.shape)
    image = Image.fromarray(np.clip(total + 120.0, 0, 255).astype(np.uint8))
    return image.filter(ImageFilter.SHARPEN)
