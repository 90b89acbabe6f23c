"""What clients that do not behave have in common: connections, made anew when the daemon closes them."""

from __future__ import annotations

import random
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

import clients
import wire

#: The longest of the daemon's answers that anybody here looks at.
ANSWER_BYTES = 64 << 10
#: Whoever was closed comes back after this.
AGAIN_SECONDS = 1.0


class Rude(ABC):
    """A client with up to one connection to each socket."""

    def __init__(self, cache: Path, number: int) -> None:
        self.cache = cache
        self.number = number
        self.random = random.Random(number)
        self.data: socket.socket | None = None
        self.control: socket.socket | None = None

    @abstractmethod
    def act(self) -> float:
        """What its kind does, and in how many seconds again."""

    def opened(self, which: str) -> socket.socket | None:
        """Its connection to `data` or `control`, made if need be; None if it was not let in."""
        known: socket.socket | None = getattr(self, which)
        if known is None:
            try:
                known = {"data": wire.open_data, "control": wire.open_control}[which](self.cache)
            except OSError:
                clients.counts["not let in"] += 1
                return None
            clients.counts["connections"] += 1
            setattr(self, which, known)
        return known

    def close(self, which: str) -> None:
        """Ends a connection from this side."""
        known = getattr(self, which)
        if known is not None:
            known.close()
            setattr(self, which, None)

    def says(self, which: str, packet: bytes) -> bool:
        """Sends what fits now; whether all did. A connection that the daemon closed is given up."""
        connection = self.opened(which)
        try:
            return connection is not None and connection.send(packet) == len(packet)
        except BlockingIOError:
            return False
        except OSError:
            clients.counts["closed by the daemon"] += 1
            self.close(which)
            return False

    def hears(self, which: str) -> bytes:
        """What lies there to be read; nothing if it waits, or has ended."""
        connection = getattr(self, which)
        if connection is None:
            return b""
        try:
            answer: bytes = connection.recv(ANSWER_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            answer = b""
        if not answer:
            clients.counts["closed by the daemon"] += 1
            self.close(which)
        return answer

    def end(self) -> None:
        """Closes both."""
        self.close("data")
        self.close("control")


Make = Callable[[Path, int], Rude]
