"""Fuzzing the reader of stored values, led by coverage: `python target.py FOLDER [options of libFuzzer]`."""

from __future__ import annotations

import sys
import warnings

import atheris

with atheris.instrument_imports(
    include=["prebake.codec.values", "prebake.codec.reader", "prebake.codec.tables"]
):
    import prebake.codec.reader
    import prebake.codec.tables
    import prebake.codec.values  # noqa: F401
import check
import guard
import seeds
from mutate import mutated


def change(data: bytes, most: int, seed: int) -> bytes:
    """What libFuzzer asks for between two inputs."""
    return mutated(data, seed, lambda part: atheris.Mutate(part, max(len(part) * 2, 16)))[:most]


def main() -> None:
    """The command line."""
    warnings.simplefilter("ignore")
    # What packages import at first use is there before anything is watched.
    seeds.warm()
    guard.begin()
    atheris.Setup(sys.argv, check.run, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
