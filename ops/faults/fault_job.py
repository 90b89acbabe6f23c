"""A job under a fault: `python fault_job.py FOLDER`, with the number of a pipeline on each line of input.

The job answers each line with one line of JSON: what was computed and reused, and a digest of every value.
The job judges nothing: the harness compares the digests with those of values made without the cache.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import default_rng

import prebake

#: Bytes of a value. Eight values are more than one block of the daemon, so that a segment has a full one.
VALUE_BYTES = 700_000
#: Values of a function are smaller: they go through other calls, which is all that is wanted of them.
CALL_BYTES = 20_000


def noise(path: str, number: int, size: int) -> Any:
    """Random bytes, others for each file and pipeline: no compression makes fewer of them."""
    return default_rng([number, int(Path(path).read_text())]).integers(0, 256, size, np.uint8)


@prebake.pure
def make(path: str, number: int) -> Any:
    """The step of a wrapped pipeline."""
    return noise(path, number, VALUE_BYTES)


@prebake.cached
@prebake.pure
def called(path: str, number: int) -> Any:
    """The function that is cached."""
    return noise(path, number, CALL_BYTES)


def digests(wrapped: list[Any], called_: list[Any]) -> list[str]:
    """One digest a value."""
    return [
        hashlib.blake2b(str((v.dtype, v.shape)).encode() + v.tobytes(), digest_size=16).hexdigest()
        for v in [*wrapped, *called_]
    ]


def expected(paths: list[str], number: int) -> list[str]:
    """The digests of values made without the cache."""
    wrapped = [noise(path, number, VALUE_BYTES) for path in paths]
    return digests(wrapped, [noise(path, number, CALL_BYTES) for path in paths])


def run(paths: list[str], number: int) -> dict[str, Any]:
    """One pipeline and one function over all files, through the cache."""
    wrapped = prebake.wrap(paths, [functools.partial(make, number=number)])
    given = [np.array(wrapped[i]) for i in range(len(paths))]
    found = digests(given, [called(path, number) for path in paths])
    return {**wrapped.stats(), "digests": found}


def main() -> None:
    """The command line."""
    paths = sorted(str(path) for path in Path(sys.argv[1]).glob("*.txt"))
    for line in sys.stdin:
        print(json.dumps(run(paths, int(line))), flush=True)


if __name__ == "__main__":
    main()
