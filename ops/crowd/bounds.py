"""What one daemon may take for its clients, and why so much; and what of that was broken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from watch import Sample

#: The tier that the daemon is started with: half of what it takes by itself on a machine of 16 GiB.
RAM_BYTES = 1 << 30
#: Beside its tier a daemon in a container counts on a third as much for itself: heap, index, dirty pages
#: (OWN_MEMORY_SHARE in daemon/src/cache/open.rs). Whatever clients do, more than that gets it killed there.
OWN_SHARE = 3
#: Of that each client may take so much: the buffer of its packets, 64 KiB, and a connection of HTTP/2, 16.
CLIENT_BYTES_MAX = 128 << 10
#: What is not clients' grows as well: segments are written meanwhile.
OTHER_BYTES = 32 << 20
#: Of each job: two connections, its process, its staging memory, its ring (SESSION_DESCRIPTORS in
#: daemon/src/cache/descriptors.rs).
CLIENT_DESCRIPTORS_MAX = 5
#: Files and blocks that come meanwhile: 96 files stay open, each twice, and each block is one.
OTHER_DESCRIPTORS = 2 * 96 + RAM_BYTES // (4 << 20)
#: All parts together leave an eighth of the limit (the test in daemon/src/cache/descriptors.rs).
DESCRIPTORS_LEFT = 8
#: The runtime has 2 workers and starts up to 512 threads for work that blocks; the index has some as well.
THREADS_MAX = 2 + 512 + 32
#: Each kind of trouble is told once a minute, and there are two sockets and a disk.
LOG_LINES = 20
LOG_LINES_PER_MINUTE = 4
#: Connections that are left when all have gone: the probe's and who looks.
SOCKETS_LEFT = 4
#: A hit in a crowd takes at most so many times as long as alone, at the 99th percentile.
RATIO_MAX = 2.0


def of_samples(clients: int, limit: int, alone: Sample, crowd: list[Sample], after: Sample) -> list[str]:
    """What the daemon took too much of."""
    findings = []

    def most(name: str) -> float:
        return max(sample[name] for sample in crowd)

    def within(what: str, found: float, bound: float) -> None:
        if found > bound:
            findings.append(f"{what}: {found:,.0f}, of {bound:,.0f} at most")

    within("bytes of shared memory", most("shared"), RAM_BYTES)
    within("bytes that it counts itself", most("counted"), alone["counted_max"])
    own = most("anonymous")
    within("bytes of its own", own, RAM_BYTES / OWN_SHARE)
    within("bytes of its own for clients", own - alone["anonymous"], clients * CLIENT_BYTES_MAX + OTHER_BYTES)
    opened = most("descriptors")
    within("descriptors", opened, limit - limit // DESCRIPTORS_LEFT)
    of_clients = clients * CLIENT_DESCRIPTORS_MAX + OTHER_DESCRIPTORS
    within("descriptors for clients", opened - alone["descriptors"], of_clients)
    within("threads", most("threads"), THREADS_MAX)
    within("connections when all have gone", after["sockets"], alone["sockets"] + SOCKETS_LEFT)
    within("jobs when all have gone", after["jobs"], alone["jobs"])
    return findings


def of_log(lines: list[str], seconds: float) -> list[str]:
    """Whether clients fill the log."""
    most = LOG_LINES + LOG_LINES_PER_MINUTE * seconds / 60
    if len(lines) <= most:
        return []
    return [f"{len(lines)} lines of log, of {most:.0f} at most; the last: {lines[-1]}"]


def of_probe(measured: Iterable[dict[str, Any]]) -> list[str]:
    """Whether the probe was given what it should be."""
    return [f"the probe: {each['errors']} {each['told']}" for each in measured if each["errors"]]


def of_ratios(ratios: dict[str, dict[str, Any]], ratio_max: float) -> list[str]:
    """Whether hits are slower than they may be; how the machine's own copies fare is told, and not judged."""
    return [
        f"p99 of a hit ({kind}) is {found['ratio']:.2f} times what it is alone, of {ratio_max} at most"
        for kind, found in ratios.items()
        if kind != "own" and found["ratio"] > ratio_max
    ]
