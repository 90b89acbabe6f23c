"""How a daemon grows with entries, segments and collections, and how fast it starts with many."""

from __future__ import annotations

import contextlib
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numbered
from processes import KIBI_PER_MEBI, cpu_seconds, private_rss_mib
from rows import Row

from prebake.demo.daemon import PrivateDaemon

#: So that the columns of open segments have room beside the blocks.
RAM_BYTES = 2 << 30
BYTES_PER_MEBI = KIBI_PER_MEBI * 1024
#: A segment is closed after five quiet seconds.
CLOSE_SECONDS_MAX = 60.0
#: The daemon's clockwork ticks twice a second: what it held while it stored is given back by then.
SETTLE_SECONDS = 1.5
#: Entries that are looked up among all, in random order.
LOOKUPS = 100_000
#: Collections that each get a segment at a time, and how often.
OPEN, TIMES = 100, 21
#: Plans of one graph beside other collections.
PLANS = 300


def rows(daemons: int, starts: int, entries: int, collections: int) -> list[Row]:
    """Of `daemons` that are filled with so many entries each, and started anew so often; of one with many
    segments, and of one with so many collections. Entries and collections are powers of ten."""
    of_entries: dict[str, Row] = {}
    for _ in range(daemons):
        with _daemon() as daemon:
            _fill(daemon, entries, of_entries)
            _start(daemon, starts, entries, of_entries)
    return [*of_entries.values(), _segments(), *_collections(collections)]


def _fill(daemon: PrivateDaemon, entries: int, found: dict[str, Row]) -> None:
    collection = numbered.plan(numbered.connect(daemon))
    held: dict[int, float] = {}
    for count in _powers(1_000, entries):
        begun = time.monotonic()
        numbered.fill(collection, range(max(held, default=0), count))
        print(
            f"{count} entries, the last in {time.monotonic() - begun:.1f} s",
            file=sys.stderr,
        )
        _wait_until_closed(daemon)
        held[count] = private_rss_mib(daemon)
        _add(
            found,
            Row(
                f"entries_{power(count)}_mib",
                f"MiB, daemon with {count:,} entries",
                "lower",
            ),
            held[count],
        )
        chosen = random.Random(0).choices(range(count), k=LOOKUPS)
        some = numbered.items(collection, chosen)
        begun = cpu_seconds(daemon)
        numbered.find(some)
        spent = (cpu_seconds(daemon) - begun) / LOOKUPS * 1e6
        _add(
            found,
            Row(
                f"lookup_{power(count)}_us",
                f"daemon's CPU microseconds, one of {count:,}",
                "lower",
            ),
            spent,
        )
    few, many = sorted(held)[-2:]
    slope = (held[many] - held[few]) * BYTES_PER_MEBI / (many - few)
    row = Row(
        "entry_bytes",
        f"bytes of the daemon's memory per entry, {few:,} to {many:,}",
        "lower",
        32,
    )
    _add(found, row, slope)


def _start(daemon: PrivateDaemon, starts: int, entries: int, found: dict[str, Row]) -> None:
    restart = Row(
        f"restart_{power(entries)}_s",
        "seconds, start until planned and read from",
        "lower",
        1,
    )
    rebuild = Row(f"rebuild_{power(entries)}_s", "the same, without its index", "lower", 10)
    for turn in range(2 * starts):
        daemon.stop()
        if turn % 2:
            shutil.rmtree(next((daemon.folder / "cache").glob("index-v*")))
        begun = time.monotonic()
        daemon.start()
        before = private_rss_mib(daemon)
        collection = numbered.plan(numbered.connect(daemon))
        if numbered.find(numbered.items(collection, [entries // 2])).get(0) is None:
            raise RuntimeError("an entry cannot be read")
        _add(found, rebuild if turn % 2 else restart, time.monotonic() - begun)
        time.sleep(SETTLE_SECONDS)
        held = (private_rss_mib(daemon) - before) * BYTES_PER_MEBI / entries
        row = Row(
            "entry_loaded_bytes",
            "bytes per entry after a start, first use included",
            "lower",
            32,
        )
        _add(found, row, held)


def _segments() -> Row:
    """Of one collection's segments of one element each; their blocks in RAM count too."""
    row = Row("segment_bytes", "bytes of the daemon's memory per segment", "lower", 4096)
    with _daemon("segment_idle_ms = 1\n") as daemon:
        job = numbered.connect(daemon)
        collections = [numbered.plan(job, number) for number in range(OPEN)]
        for turn in range(TIMES):
            for collection in collections:
                numbered.fill(collection, [turn])
            _wait_until_closed(daemon)
            if turn == 0:
                before = private_rss_mib(daemon)
        held = (private_rss_mib(daemon) - before) * BYTES_PER_MEBI
    return row.add([held / OPEN / (TIMES - 1)])


def _collections(most: int) -> list[Row]:
    """Of collections without entries."""
    found: list[Row] = []
    held: dict[int, float] = {}
    with _daemon() as daemon:
        job = numbered.connect(daemon)
        for count in _powers(1, most):
            for number in range(max(held, default=0), count):
                numbered.plan(job, number)
            held[count] = private_rss_mib(daemon)
            graph = numbered.pipeline(count // 2)
            spent = []
            for _ in range(PLANS):
                begun = time.perf_counter_ns()
                job.plan(graph)
                spent.append((time.perf_counter_ns() - begun) / 1e3)
            of = f"microseconds, round trip of Plan among {count:,} collections"
            row = Row(f"plan_{power(count)}_us", of, "lower")
            found.append(row.add([statistics.median(spent)]))
    few, many = sorted(held)[-2:]
    slope = (held[many] - held[few]) * BYTES_PER_MEBI / (many - few)
    row = Row(
        "collection_bytes",
        f"bytes of the daemon's memory per collection, {few:,} to {many:,}",
        "lower",
    )
    return [*found, row.add([slope])]


@contextlib.contextmanager
def _daemon(config: str = "") -> Iterator[PrivateDaemon]:
    with tempfile.TemporaryDirectory(prefix="prebake-bench-") as folder:
        path = Path(folder) / "prebake.toml"
        path.write_text(config)
        with PrivateDaemon(Path(folder), "--config", str(path), "--ram-bytes", str(RAM_BYTES)) as daemon:
            yield daemon


def _wait_until_closed(daemon: PrivateDaemon) -> None:
    """Until all segments are closed, and what was held meanwhile is given back."""
    deadline = time.monotonic() + CLOSE_SECONDS_MAX
    while list((daemon.folder / "cache" / "segments").glob("*.tmp")):
        if time.monotonic() > deadline:
            raise RuntimeError("a segment stays open")
        time.sleep(0.1)
    time.sleep(SETTLE_SECONDS)


def _powers(first: int, last: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= 10


def _add(found: dict[str, Row], row: Row, sample: float) -> Any:
    found.setdefault(row.id, row).add([sample])


def power(count: int) -> str:
    """A power of ten as rows are called by: `1e6`."""
    return f"1e{len(str(count)) - 1}"
