"""Clients that leave the daemon waiting: they say nothing, or half of something, or do not listen."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import clients
import wire
from rude import AGAIN_SECONDS, Rude

#: Fingerprints in a question of which the answer is long: a packet's worth.
ASKED = 1_000
#: Packets that are sent at a time to a daemon that may not take them.
AT_ONCE = 64
#: Blocks that one packet asks for: as many as the daemon gives (BLOCKS_MAX), and of how many in turn.
BLOCKS = 64
BLOCKS_KNOWN = 3
#: Answers of Status that wait for a reader: each may be a megabyte where there are many jobs.
UNREAD_ANSWERS = 4
#: Calls of which a connection sends all but the end, and their bytes: the longest that the daemon takes, and
#: fewer than it takes at once (STREAMS_MAX), since all memory that they fill is the machine's.
HALF_CALLS = 8
HALF_BYTES = 4 << 20


class Silent(Rude):
    """Connects to both sockets and says nothing."""

    def act(self) -> float:
        """Comes back if it was sent away."""
        self.opened("control")
        self.opened("data")
        while self.hears("data"):
            pass
        return AGAIN_SECONDS


class Deaf(Rude):
    """Asks on both sockets, as long as the daemon takes it, and never reads an answer."""

    def __init__(self, cache: Path, number: int) -> None:
        super().__init__(cache, number)
        self.greeted = False
        self.question = wire.acquire(wire.SHARED, map(_digest, range(ASKED)), 0, 0)

    def act(self) -> float:
        """Fills what there is between the two."""
        if self.data is None:
            self.greeted = False
        self.greeted = self.greeted or self.says("data", wire.hello(f"deaf {self.number}"))
        for _ in range(AT_ONCE):
            if not self.greeted or not self.says("data", self.question):
                break
            clients.counts["asked"] += 1
        if self.control is None:
            status = (
                wire.call(stream, "Control/Status") + wire.message(stream, b"")
                for stream in range(1, 2 * UNREAD_ANSWERS, 2)
            )
            # The daemon may not send a byte of them.
            self.says("control", wire.begin(window=0) + b"".join(status))
        return AGAIN_SECONDS


class Grabber(Deaf):
    """A deaf one that asks for blocks: answers that nobody reads have descriptors beside them.

    The kernel lets one user have as many on their way as a process may have open (RLIMIT_NOFILE), and gives
    none to whoever comes after, in any program of that user's.
    """

    def __init__(self, cache: Path, number: int) -> None:
        super().__init__(cache, number)
        self.question = wire.map_blocks(1, [i % BLOCKS_KNOWN for i in range(BLOCKS)])


class Hoarder(Rude):
    """Begins calls with long messages and never ends them."""

    def __init__(self, cache: Path, number: int) -> None:
        super().__init__(cache, number)
        self._begin()

    def _begin(self) -> None:
        self.left = {stream: HALF_BYTES - 1 for stream in range(1, 2 * HALF_CALLS, 2)}
        self.windows = dict.fromkeys([0, *self.left], wire.WINDOW_BYTES)
        self.waiting = bytearray(wire.begin())
        for stream in self.left:
            head = b"\x00" + struct.pack(">I", HALF_BYTES)
            self.waiting += wire.call(stream, "Cache/Acquire") + wire.frame(wire.DATA, 0, stream, head)
            self.windows[stream] -= len(head)
            self.windows[0] -= len(head)
        self.heard = b""

    def act(self) -> float:
        """Sends as much as the daemon takes."""
        if self.control is None:
            self._begin()
        self._hear()
        for stream, left in self.left.items():
            part = min(left, self.windows[0], self.windows[stream], wire.FRAME_BYTES_MAX)
            if part > 0:
                self.waiting += wire.frame(wire.DATA, 0, stream, bytes(part))
                for window in (0, stream):
                    self.windows[window] -= part
                self.left[stream] -= part
        connection = self.opened("control")
        try:
            while connection is not None and self.waiting:
                del self.waiting[: connection.send(self.waiting)]
        except BlockingIOError:
            pass
        except OSError:
            self.close("control")
            clients.counts["closed by the daemon"] += 1
        return AGAIN_SECONDS if not any(self.left.values()) else 0.02

    def _hear(self) -> None:
        """Takes note of what the daemon takes more of."""
        while answer := self.hears("control"):
            self.heard += answer
        while len(self.heard) >= wire.HEAD_BYTES:
            end = wire.HEAD_BYTES + int.from_bytes(self.heard[:3])
            if len(self.heard) < end:
                return
            kind, flags, stream = self.heard[3], self.heard[4], int.from_bytes(self.heard[5:9])
            body, self.heard = self.heard[wire.HEAD_BYTES : end], self.heard[end:]
            if kind == wire.WINDOW_UPDATE and stream in self.windows:
                self.windows[stream] += int.from_bytes(body)
            if kind == wire.SETTINGS and not flags & wire.ACK:
                self._settle(body)

    def _settle(self, body: bytes) -> None:
        for name, number in struct.iter_unpack(">HI", body):
            if name == wire.INITIAL_WINDOW_SIZE:
                for stream in self.left:
                    self.windows[stream] += number - wire.WINDOW_BYTES


def _digest(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()
