"""Memory that is held, left behind, or slow to be read: the daemon keeps its bounds and gets it back."""

from __future__ import annotations

import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from limits import counted_bytes, links, log, shared_bytes, wait_until
from spread import SpreadJob, texts

from prebake.demo.daemon import PrivateDaemon

MIB = 1 << 20
RAM_BYTES = 48 * MIB
#: Elements of 1 MiB, in blocks of 4.
SIZE = MIB
#: Counted beside what is shared: a buffer of a block, and rows.
OWN_BYTES = 6 * MIB
KILLS = 12


@contextmanager
def small(*options: str) -> Iterator[PrivateDaemon]:
    """A daemon whose RAM tier is ten blocks and a bit."""
    with (
        tempfile.TemporaryDirectory(prefix="prebake-") as folder,
        PrivateDaemon(Path(folder), "--ram-bytes", str(RAM_BYTES), *options) as running,
    ):
        yield running


def kinds(daemon: PrivateDaemon) -> Counter[str]:
    """Its descriptors by what they are of, but for blocks and segments, which it keeps."""
    kept = ("prebake-block", ".arrow")
    found = [link for link in links(daemon).values() if not any(name in link for name in kept)]
    return Counter(link.partition(":[")[0] for link in found)


# `daemon` is asked for in name only: these tests need what it needs, and start one of their own.
@pytest.mark.usefixtures("daemon")
def test_a_job_that_keeps_all_it_read(tmp_path: Path) -> None:
    first, others = texts(tmp_path / "first", 32), texts(tmp_path / "others", 240)
    with small() as daemon:
        cache = daemon.folder / "cache"
        SpreadJob(cache, first, SIZE).result()
        holder = SpreadJob(cache, first, SIZE, keep=True, pause=True, batch=4)
        holder.wait_for_pause()
        held = shared_bytes(daemon, holder)
        assert held > RAM_BYTES // 3
        # Five times the tier goes through what is left of it.
        other = SpreadJob(cache, others, SIZE, batch=4)
        while other.process.poll() is None:
            shared = shared_bytes(daemon, holder)
            counted = counted_bytes(daemon)
            # Looked at one after the other: what came in between is the other job's.
            assert shared <= RAM_BYTES and counted <= RAM_BYTES
            time.sleep(0.02)
        assert not other.result()["said"]
        # What the first one holds is counted still, also what the daemon has let go of.
        wait_until(
            "the count is right", lambda: is_right(counted_bytes(daemon), shared_bytes(daemon, holder))
        )
        assert shared_bytes(daemon, holder) >= held
        # It checks at its end that its arrays are what they were.
        assert not holder.result()["said"]
        wait_until("it comes back", lambda: shared_bytes(daemon) < held)
        wait_until("the count is right", lambda: is_right(counted_bytes(daemon), shared_bytes(daemon)))
        wait_until("all is cached", lambda: SpreadJob(cache, others, SIZE, batch=4).result()["computed"] == 0)
        assert not any("WARN" in line for line in log(daemon))


def is_right(counted: float, shared: int) -> bool:
    return 0 <= counted - shared <= OWN_BYTES


@pytest.mark.usefixtures("daemon")
def test_jobs_killed_while_they_store(tmp_path: Path) -> None:
    numbers = random.Random(1)
    with small() as daemon:
        cache = daemon.folder / "cache"
        SpreadJob(cache, texts(tmp_path / "warm", 4), SIZE).result()
        wait_until("the first job is gone", lambda: not any("staging" in each for each in kinds(daemon)))
        before = kinds(daemon)
        for kill in range(KILLS):
            files = texts(tmp_path / str(kill), 40)
            dying = SpreadJob(cache, files, SIZE, batch=4, pause_after_batch=1)
            dying.wait_for_pause()
            other = SpreadJob(cache, files, SIZE, batch=4, shuffle=kill)
            dying.go_on()
            time.sleep(numbers.random() * 0.1)
            dying.process.kill()
            assert dying.process.wait() == -signal.SIGKILL
            assert not other.result()["said"]
            # Whatever it left, others make the rest.
            assert not SpreadJob(cache, files, SIZE, batch=4).result()["said"]
        wait_until(f"{before} descriptors are left", lambda: kinds(daemon) == before)
        wait_until("the count is right", lambda: is_right(counted_bytes(daemon), shared_bytes(daemon)))
        assert shared_bytes(daemon) <= RAM_BYTES
        assert daemon.metrics()["prebake_jobs"] == 0
        assert not any("WARN" in line for line in log(daemon))


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("shuffle", [None, 3])
def test_a_reader_slower_than_its_producer(tmp_path: Path, shuffle: int | None) -> None:
    files = texts(tmp_path / "texts", 160)
    order = {} if shuffle is None else {"shuffle": shuffle}
    with small() as daemon:
        cache = daemon.folder / "cache"
        # It stops in the middle, with what it was given and what was read ahead for it: no reader is slower.
        slow = SpreadJob(cache, files, SIZE, batch=4, pause_after_batch=2, keep=True, **order)
        slow.wait_for_pause()
        for _ in range(2):
            producer = SpreadJob(cache, files, SIZE, batch=4, **order)
            while producer.process.poll() is None:
                assert shared_bytes(daemon, slow) <= RAM_BYTES
                time.sleep(0.02)
            assert not producer.result()["said"]
        assert slow.process.poll() is None
        # What it did not read in time it reads from SSD.
        done = slow.result()
        assert not done["said"] and done["reused"] + done["followed"] > len(files) // 2
        wait_until("the count is right", lambda: is_right(counted_bytes(daemon), shared_bytes(daemon)))
