"""Who is in the crowd, and how many of each."""

from __future__ import annotations

from collections.abc import Iterable

READER = "reader"
#: Of all clients such parts do not behave, and at least one of each kind: a node on which every fifth job is
#: broken is worse than any that was met.
RUDE = {
    "silent": 0.04,
    "deaf": 0.03,
    "grabber": 0.02,
    "hoarder": 0.02,
    "forger": 0.03,
    "greedy": 0.01,
    "dribbler": 0.03,
    "vanisher": 0.02,
    "holder": 0.03,
}
#: Clients of one process: some tens of processes are what two processors bear.
PER_PROCESS = 40
#: The daemon takes a job for each so many descriptors (SESSIONS_SHARE and SESSION_DESCRIPTORS in
#: daemon/src/cache/descriptors.rs). Beside the crowd's there are the probe's and a visitor's, two each.
DESCRIPTORS_PER_SESSION = 4 * 5
OTHER_SESSIONS = 4
#: These have no session. Holders have two.
WITHOUT_SESSION = ("silent", "dribbler", "hoarder")
TWICE = "holder"


def shared_out(clients: int, without: Iterable[str]) -> dict[str, int]:
    """How many there are of each kind, together as many as are asked for."""
    absent = set(without)
    rude = {kind: max(1, round(part * clients)) for kind, part in RUDE.items() if kind not in absent}
    return {READER: max(1, clients - sum(rude.values())), **rude}


def sessions(clients: dict[str, int]) -> int:
    """How many sessions there are at once."""
    own = sum(count for kind, count in clients.items() if kind not in WITHOUT_SESSION)
    return own + clients.get(TWICE, 0) + OTHER_SESSIONS


def processes(clients: dict[str, int]) -> list[tuple[str, int, int]]:
    """Kind, number of the first client and count of each process."""
    all_, first = [], 0
    for kind, count in clients.items():
        for begin in range(0, count, PER_PROCESS):
            part = min(PER_PROCESS, count - begin)
            all_.append((kind, first, part))
            first += part
    return all_
