"""Fills the cache: `python fill_job.py FOLDER [SEED]`, in order, or shuffled by a seed. In order it writes
the same bytes to one file beside. The last line of output is the answer, JSON.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from elements import BATCH, VALUES, element, files

import prebake


def main() -> None:
    """The command line."""
    folder, *seed = sys.argv[1:]
    wrapped = prebake.wrap(files(Path(folder)), [element])
    order = list(range(len(wrapped)))
    size = 0
    if seed:
        random.Random(int(seed[0])).shuffle(order)
        for batch in wrapped.batches(order, BATCH):
            size += batch.nbytes
    else:
        with (Path(folder) / VALUES).open("wb") as values:
            for batch in wrapped.batches(order, BATCH):
                size += values.write(batch.data)
    print(json.dumps({"bytes": size, "computed": wrapped.stats()["computed"]}))


if __name__ == "__main__":
    main()
