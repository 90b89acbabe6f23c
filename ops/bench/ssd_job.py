"""Reads all elements once, as a fresh job: `python ssd_job.py FOLDER WAY SEED [SEGMENTS]`.

The last line of output is the answer, JSON: the bytes, how long it took from after the imports to the last
byte touched, and for what the cache serves the sum of all words. `direct` ways read the segments' own files
past the page cache, in a few threads as deep as their number says: what the disk gives.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from elements import BATCH, SHAPE, element, files, touch

import prebake

#: What one read asks for, as large as a block; of shuffled ones, as large as an element.
READ_BYTES = 4 << 20
ELEMENT_BYTES = int(np.prod(SHAPE))
#: What direct reads have to begin and end at.
ALIGNMENT = 4096


def direct(segments: Path, depth: int, seed: int | None) -> Iterator[Any]:
    """The segments' files by reads of a block in order, or of the pages of an element each, shuffled."""
    paths = sorted(segments.rglob("*.arrow"))
    opened = [os.open(path, os.O_RDONLY | os.O_DIRECT) for path in paths]
    step = READ_BYTES if seed is None else ELEMENT_BYTES
    places = [
        (file, start)
        for file, path in zip(opened, paths, strict=True)
        for start in range(0, path.stat().st_size - step, step)
    ]
    if seed is not None:
        random.Random(seed).shuffle(places)
    # Pages that are used again, one more than are read into.
    buffers = [mmap.mmap(-1, READ_BYTES) for _ in range(depth + 1)]

    def read(number: int) -> Any:
        file, start = places[number]
        begin = start // ALIGNMENT * ALIGNMENT
        length = -(-(start + step - begin) // ALIGNMENT) * ALIGNMENT
        into = memoryview(buffers[number % len(buffers)])[:length]
        if os.preadv(file, [into], begin) != length:
            raise RuntimeError("a segment's file is shorter than it was")
        return np.frombuffer(into, np.uint8)[start - begin :][: step // 8 * 8]

    with ThreadPoolExecutor(depth) as pool:
        waiting = [pool.submit(read, number) for number in range(min(depth, len(places)))]
        for number in range(len(places)):
            yield waiting.pop(0).result()
            if number + depth < len(places):
                waiting.append(pool.submit(read, number + depth))


def main() -> None:
    """The command line."""
    folder, way, seed, *segments = sys.argv[1:]
    shuffled = way.endswith("_shuffled")
    start = time.perf_counter()
    if way.startswith("direct"):
        depth = int(way.removeprefix("direct").removesuffix("_shuffled"))
        size = 0
        for part in direct(Path(segments[0]), depth, int(seed) if shuffled else None):
            touch([part])
            size += part.nbytes
        print(json.dumps({"bytes": size, "seconds": time.perf_counter() - start}))
        return
    wrapped = prebake.wrap(files(Path(folder)), [element])
    order = list(range(len(wrapped)))
    if shuffled:
        random.Random(int(seed)).shuffle(order)
    total = touch(wrapped.batches(order, BATCH))
    seconds = time.perf_counter() - start
    if wrapped.stats()["computed"] or wrapped.stats()["bypassed"]:
        raise RuntimeError(f"the cache did not serve all: {wrapped.stats()}")
    print(json.dumps({"bytes": len(order) * ELEMENT_BYTES, "seconds": seconds, "sum": total}))


if __name__ == "__main__":
    main()
