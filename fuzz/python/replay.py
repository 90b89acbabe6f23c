"""Reads inputs as fuzzing does, without it: `python replay.py FILE...`.

Ends with 1 at the first that breaks what must hold. Those whose names begin with `found` must be refused.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import check
import guard
import seeds

from prebake import Refused


def main() -> None:
    """The command line."""
    warnings.simplefilter("ignore")
    seeds.warm()
    guard.begin()
    for name in sys.argv[1:]:
        print(name, flush=True)
        data = Path(name).read_bytes()
        check.run(data)
        if Path(name).name.startswith("found"):
            assert isinstance(check.read(*check.apart(data)), Refused), "it was read"


if __name__ == "__main__":
    main()
