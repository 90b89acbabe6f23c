"""What the stacks train on: what was named, in the layout the stacks expect, or what is made here."""

from __future__ import annotations

import math
import shutil
import struct
import wave
from pathlib import Path

import numpy
from PIL import Image

CLASSES = 10
#: Enough that a job's beginning does not hide what its batches cost; few enough for twenty stacks.
IMAGES, SOUNDS, LINES = 300, 300, 4_000
#: Of a made image: as large as a photograph of ImageNet.
SHAPE = (375, 500, 3)


def images(folder: Path, given: Path | None) -> Path:
    """JPEGs in one folder per class, in the order of their names."""
    files = (
        [] if given is None else sorted(p for p in given.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))
    )
    if given is not None and not files:
        raise FileNotFoundError(f"{given} holds no JPEG")
    files = files[:: max(1, len(files) // IMAGES)][:IMAGES]
    numbers = numpy.random.default_rng(7)
    for i in range(IMAGES if given is None else len(files)):
        into = folder / f"class{i * CLASSES // (len(files) or IMAGES)}"
        into.mkdir(parents=True, exist_ok=True)
        if given is None:
            noise = numbers.integers(0, 256, SHAPE, dtype=numpy.uint8)
            Image.fromarray(noise).save(into / f"{i:03}.jpg", quality=60)
        else:
            shutil.copy(files[i], into / f"{i:03}.jpg")
    return folder


def audio(folder: Path, given: Path | None) -> Path:
    """WAV files whose names begin with their class."""
    if given is not None:
        return given
    folder.mkdir()
    for i in range(SOUNDS):
        samples = [math.sin(n * (i + 20) / 300) * 20_000 for n in range(4_000)]
        with wave.open(str(folder / f"{i % CLASSES}_made_{i:03}.wav"), "wb") as file:
            file.setparams((1, 2, 8_000, len(samples), "NONE", ""))
            file.writeframes(struct.pack(f"<{len(samples)}h", *map(int, samples)))
    return folder


def text(file: Path, given: Path | None) -> Path:
    """Lines of text; of a folder, its first file."""
    if given is not None:
        return min(given.glob("*.txt")) if given.is_dir() else given
    numbers = numpy.random.default_rng(7)
    words = ["".join(chr(97 + c) for c in numbers.integers(0, 26, 5)) for _ in range(3_000)]
    lines = (" ".join(words[i] for i in numbers.integers(0, len(words), 12)) for _ in range(LINES))
    file.write_text("\n".join(lines) + "\n")
    return file
