"""The files a job reads: small JPEGs in folders of classes, and a file of labels beside them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
from PIL import Image

COUNT = 14
CLASSES = 3
#: Height, width. Large enough that a file's middle lies behind its tables: with other bytes there, it can
#: still be decoded.
SHAPE = (30, 32)
QUALITY = 90
LABELS = "labels.json"


def make(folder: Path) -> None:
    """Writes them anew, whatever was edited, added or removed: each run starts from the same bytes."""
    if folder.exists():
        shutil.rmtree(folder)
    numbers = np.random.default_rng(7)
    names = [f"{i:02}.jpg" for i in range(COUNT)]
    for i, name in enumerate(names):
        path = folder / f"c{i % CLASSES}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = numbers.integers(0, 256, (*SHAPE, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path, quality=QUALITY)
    (folder / LABELS).write_text(json.dumps({name: i for i, name in enumerate(names)}))


def paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.jpg"))
