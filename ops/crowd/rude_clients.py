"""Clients that do not behave: `python rude_clients.py KIND CACHE SECONDS FIRST COUNT`."""

from __future__ import annotations

import sys
from pathlib import Path

import clients
import loud
import quiet
from rude import Make


def kind(name: str) -> Make:
    """What makes a client of this kind."""
    if name == "holder":
        # The only one that needs the client library.
        from holder import Holder

        return Holder
    kinds: dict[str, Make] = {
        "silent": quiet.Silent,
        "deaf": quiet.Deaf,
        "grabber": quiet.Grabber,
        "hoarder": quiet.Hoarder,
        "forger": loud.Forger,
        "greedy": loud.Greedy,
        "dribbler": loud.Dribbler,
        "vanisher": loud.Vanisher,
    }
    return kinds[name]


def main() -> None:
    """The command line."""
    name, cache, seconds, first, count = sys.argv[1:]
    make = kind(name)
    numbers = range(int(first), int(first) + int(count))
    clients.run(lambda number: make(Path(cache), number), numbers, float(seconds))


if __name__ == "__main__":
    main()
