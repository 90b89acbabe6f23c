"""What a job reads next is entered into its page tables beside it: its own reads then fault no more."""

from __future__ import annotations

import gc
import os
import re
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prebake
from prebake.runtime import daemon

COUNT = 64
ELEMENT_BYTES = 1 << 20
#: A fault enters up to 16 pages.
FAULTS = COUNT * ELEMENT_BYTES // (16 * os.sysconf("SC_PAGESIZE"))
WAIT_SECONDS_MAX = 30.0
#: A file younger than this is read anew by each job when its turn comes: nothing is known of it ahead.
RACY_SECONDS = 2.1


def element(path: str) -> Any:
    return np.full(ELEMENT_BYTES, int(Path(path).read_text()), np.uint8)


def small(path: str) -> Any:
    return np.array([int(Path(path).read_text())])


def filled(folder: Path, names: list[str], step: Any) -> Any:
    """Files that hold their numbers, as another job sees them once one has made an element of each."""
    files = [folder / name for name in names]
    for i, file in enumerate(files):
        file.write_text(str(i))
    time.sleep(RACY_SECONDS)
    first = prebake.wrap(list(map(str, files)), [step])
    assert sum(map(len, first.batches(size=4))) == len(files)
    # It tells the daemon what it read last.
    del first
    gc.collect()
    daemon._current = None
    return prebake.wrap(list(map(str, files)), [step])


def entered() -> int:
    """Bytes of cache memory that are in this process's page tables."""
    held, bytes_, is_block = re.compile(r"Rss: +(\d+) kB"), 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-", line):
            is_block = "memfd:prebake-block" in line
        elif is_block and (rss := held.match(line)):
            bytes_ += int(rss[1]) << 10
    return bytes_


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


def read(batches: Any) -> tuple[list[int], int]:
    """What the elements hold, and how many faults it takes to read all pages of them."""
    before, values = faults(), []
    for batch in batches:
        values += [int(each[0]) for each in batch]
        assert (batch[:, :: os.sysconf("SC_PAGESIZE")] == batch[:, :1]).all()
    return values, faults() - before


SHUFFLED = [*range(0, COUNT, 2), *range(COUNT - 1, 0, -2)]


# Copies of what is shuffled have memory of their own, which faults too.
@pytest.mark.parametrize(
    ("order", "writable", "most"),
    [(None, False, FAULTS // 4), (None, True, FAULTS // 4), (SHUFFLED, False, FAULTS + FAULTS // 2)],
)
def test_a_first_pass_faults_only_until_the_job_is_overtaken(
    connected: None, tmp_path: Path, order: list[int] | None, writable: bool, most: int
) -> None:
    wrapped = filled(tmp_path, [f"{i:02}.txt" for i in range(COUNT)], element)
    batches = wrapped.batches(order, 4, writable=writable)
    first = [int(each[0]) for each in next(batches)]
    # The second begins what is done beside.
    first += [int(each[0]) for each in next(batches)]
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while entered() < (COUNT - len(first)) * ELEMENT_BYTES and time.monotonic() < deadline:
        time.sleep(0.01)
    values, taken = read(batches)
    assert first + values == list(order or range(COUNT))
    assert wrapped.stats()["computed"] == 0
    assert taken < most, (taken, FAULTS)


def test_all_is_located_ahead_however_long_the_names_are(connected: None, tmp_path: Path) -> None:
    """As many at a time as one packet holds."""
    count = 600
    wrapped = filled(tmp_path, [f"{i:0240}.txt" for i in range(count)], small)
    assert len(next(wrapped.batches(size=4))) == 4
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while (
        missing := wrapped._pipeline.client.collection._items.missing(range(count))
    ) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not missing
