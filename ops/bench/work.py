"""What the jobs of a comparison make: inputs, and the steps that lead from one to its element.

`raw`     files that are elements, so that every peer reads the same bytes, whatever it decodes with
`seeds`   files that name elements of random bytes, as the other warm rows have them
`eval`    the demonstration's pipeline over JPEGs: decode, resize, crop
`train`   its other one: decode, then a random crop and flip
`text`    paragraphs, each as many int32 tokens as it has words: ragged
`audio`   WAV files, each as float32 spectra of its frames: ragged
"""

from __future__ import annotations

import os
import wave
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from elements import SHAPE, element

#: Of a vocabulary as language models have it.
TOKENS = 50_257
#: 32 ms of 8 kHz, half of it new in each frame.
FRAME, HOP = 256, 128
#: The kinds of work whose inputs are JPEGs.
PHOTOGRAPHS = ("eval", "train")
SUFFIXES = {
    "raw": (".bin",),
    "seeds": (".txt",),
    "eval": (".jpg", ".jpeg"),
    "train": (".jpg", ".jpeg"),
    "text": (".txt",),
    "audio": (".wav",),
}


def raw(path: str) -> Any:
    """The file's bytes, an image."""
    return np.frombuffer(Path(path).read_bytes(), np.uint8).reshape(SHAPE)


def tokens(path: str) -> Any:
    """One number for each word."""
    words = Path(path).read_bytes().split()
    return np.array([zlib.crc32(word) % TOKENS for word in words], np.int32)


def spectra(path: str) -> Any:
    """Magnitudes, (frames, FRAME // 2 + 1)."""
    with wave.open(path) as sound:
        samples = np.frombuffer(sound.readframes(sound.getnframes()), np.int16)
    frames = np.lib.stride_tricks.sliding_window_view(samples, FRAME)[::HOP]
    return np.abs(np.fft.rfft(frames * np.hanning(FRAME))).astype(np.float32)


def steps(name: str) -> list[Callable[[Any], Any]]:
    """The steps of a kind of work."""
    if name in PHOTOGRAPHS:
        # What it needs is not in every peer's environment.
        from prebake.demo import pipeline

        # Pillow's plugins are no cost of the first image's.
        pipeline.warm_up()
        return pipeline.transforms(name, seed=os.getpid())
    return [{"raw": raw, "seeds": element, "text": tokens, "audio": spectra}[name]]


class Work:
    """The inputs of a folder, and how an element is made of one."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.files = sorted(str(path) for path in folder.iterdir() if path.suffix.lower() in SUFFIXES[name])
        self.steps = steps(name)

    def make(self, path: str) -> Any:
        """The element of one input."""
        value: Any = path
        for step in self.steps:
            value = step(value)
        return value


def make_raw(folder: Path, count: int) -> None:
    """Inputs of `raw`: random bytes."""
    folder.mkdir()
    numbers = np.random.default_rng(0)
    for i in range(count):
        (folder / f"{i:05}.bin").write_bytes(numbers.bytes(int(np.prod(SHAPE))))


def make_text(source: Path, folder: Path, most: int) -> None:
    """Inputs of `text`: the first paragraphs of a folder's text files."""
    folder.mkdir()
    paragraphs = (
        line
        for path in sorted(source.rglob("*.txt"))
        for line in path.read_bytes().splitlines()
        if line.split()
    )
    for i, paragraph in zip(range(most), paragraphs, strict=False):
        (folder / f"{i:05}.txt").write_bytes(paragraph)


class Touched(NamedTuple):
    """What one pass read."""

    count: int
    size: int
    sum: int


def touch(batches: Iterable[Any]) -> Touched:
    """Reads every byte. The sum is of all words, which no order and no batch size changes. A batch is an
    array of equal elements, or a list of ragged ones."""
    count = size = total = 0
    for batch in batches:
        count += len(batch)
        for array in batch if isinstance(batch, list) else [batch]:
            size += array.nbytes
            # Images have whole words of eight bytes; what is ragged, of four.
            word = np.uint64 if array.dtype == np.uint8 else np.uint32
            total += int(array.reshape(-1).view(word).sum(dtype=np.uint64))
    return Touched(count, size, total % 2**64)
