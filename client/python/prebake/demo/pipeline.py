"""The two pipelines of the demonstration, as users write them with Pillow and NumPy."""

from __future__ import annotations

import io
import os
import random
import time
from typing import Any

import numpy as np
from PIL import Image

import prebake

#: Names the file that gets one byte for each decode, so that decodes are counted by the pipeline and not by
#: Prebake.
COUNT_FILE = "PREBAKE_DEMO_COUNT"
SIZE, RESIZED = 224, 256

#: CPU time of the random part in this process, to compare with what it must cost at least.
random_cpu_ns = 0


def decode(path: str) -> Any:
    """A JPEG file as an array."""
    if "PREBAKE_PROBE" not in os.environ:
        count = os.open(os.environ[COUNT_FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(count, b".")
        os.close(count)
    return np.asarray(Image.open(path).convert("RGB"))


def resize(image: Any) -> Any:
    """The shorter side to 256."""
    height, width = image.shape[:2]
    scale = RESIZED / min(height, width)
    size = (max(RESIZED, round(width * scale)), max(RESIZED, round(height * scale)))
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BILINEAR))


def centre_crop(image: Any) -> Any:
    """The middle 224 x 224."""
    top, left = (image.shape[0] - SIZE) // 2, (image.shape[1] - SIZE) // 2
    return np.ascontiguousarray(image[top : top + SIZE, left : left + SIZE])


class RandomResizedCropFlip:
    """A random part of the image at 224 x 224, flipped half of the time."""

    def __init__(self, seed: int) -> None:
        self.numbers = random.Random(seed)

    def __call__(self, image: Any) -> Any:
        global random_cpu_ns
        start = time.thread_time_ns()
        height, width = image.shape[:2]
        side = min(height, width, max(1, round((height * width * self.numbers.uniform(0.08, 1.0)) ** 0.5)))
        top, left = self.numbers.randint(0, height - side), self.numbers.randint(0, width - side)
        part = Image.fromarray(image[top : top + side, left : left + side])
        made = np.asarray(part.resize((SIZE, SIZE), Image.Resampling.BILINEAR))
        if self.numbers.random() < 0.5:
            made = made[:, ::-1]
        made = np.array(made)
        random_cpu_ns += time.thread_time_ns() - start
        return made


def warm_up() -> None:
    """Makes Pillow load its plugins and the allocator find its sizes, which are a process's first images'
    cost and not the pipeline's."""
    noise = np.random.default_rng(0).integers(0, 255, (500, 500, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, "JPEG")
    for _ in range(8):
        centre_crop(resize(np.asarray(Image.open(file).convert("RGB"))))


def transforms(pipeline: str, seed: int) -> list[Any]:
    """The transforms of a pipeline (`eval` or `train`) for a job's seed."""
    if pipeline == "eval":
        return [decode, resize, centre_crop]
    return [decode, prebake.random(RandomResizedCropFlip(seed))]
