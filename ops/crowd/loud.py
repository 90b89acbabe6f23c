"""Clients that say what makes no sense, ask for too much, say it slowly, or are gone before an answer."""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Callable, Iterator

import clients
import wire
from rude import AGAIN_SECONDS, Rude

#: A byte is sent this often: a call takes ten seconds.
BYTE_SECONDS = 0.05
#: Some come and go as often.
VANISH_SECONDS = 0.2
FORGE_SECONDS = 0.3
#: Memory is asked for so often: to make it, the daemon clears 260 MiB, which takes it a tenth of a second.
GREED_SECONDS = 1.0
LARGE = (1 << 64) - 1
#: Every session has a number; these are of other clients, most likely.
SESSIONS = 1_500
COLLECTIONS = 20
NAME = "forger" * 100
MANY_BLOCKS = wire.map_blocks(1, range(20_000))


class Forger(Rude):
    """Sends packets that nobody's library would."""

    def act(self) -> float:
        """One of them, on a session if it has one."""
        self.hears("data")
        self.hears("control")
        if self.data is None:
            # Who begins with something else is shown out.
            first = self.random.choice(
                [wire.hello(NAME), wire.hello(NAME), wire.hello("", 99), self._noise()]
            )
            self.says("data", first)
            return FORGE_SECONDS
        forge = self.random.choice([*self._packets(), self._descriptors, self._calls])
        packet = forge()
        if packet is not None:
            self.says("data", packet)
        clients.counts["forged"] += 1
        return FORGE_SECONDS

    def _noise(self) -> bytes:
        return self.random.randbytes(self.random.randrange(1, wire.PACKET_BYTES_MAX))

    def _packets(self) -> Iterator[Callable[[], bytes]]:
        """How each is made: only one of them is, since the machine is the daemon's."""
        number, digest = self.random.randrange(COLLECTIONS), self.random.randbytes(32)
        asked = wire.acquire(number, [digest] * 9, 9, 1)
        yield self._noise
        yield lambda: wire.hello(NAME)
        yield lambda: asked[: self.random.randrange(len(asked))]
        yield lambda: wire.acquire(LARGE, [digest], 1, 1)
        yield lambda: wire.acquire(number, [digest[:5], b""], LARGE, LARGE)
        yield lambda: wire.map_blocks(LARGE, [0, LARGE])
        yield lambda: MANY_BLOCKS
        yield lambda: wire.map_blocks(self.random.randrange(9), range(60))
        yield lambda: wire.stage(0)
        yield lambda: wire.read_ahead(LARGE, 1)
        yield lambda: wire.read_ahead(0, 1_000)
        yield lambda: wire.report(number, LARGE)
        yield lambda: wire.world(number, digest)
        yield lambda: wire.world(number, b"short")

    def _descriptors(self) -> None:
        """The daemon wants none from anybody."""
        if self.data is None:
            return
        null = os.open(os.devnull, os.O_RDONLY)
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null] * 9))
        try:
            self.data.sendmsg([wire.stage(4096)], [rights])
        except OSError:
            self.close("data")
        finally:
            os.close(null)

    def _calls(self) -> None:
        """Commits to somebody's session under a token that was never given, or what is no HTTP/2."""
        session, collection = self.random.randrange(SESSIONS), self.random.randrange(COLLECTIONS)
        body = wire.commit(session, collection, self.random.randbytes(32), self.random.randrange(999))
        forged = wire.begin() + wire.call(1, "Cache/Commit") + wire.message(1, body)
        self.close("control")
        self.says("control", self.random.choice([forged, forged, self._noise()]))


class Greedy(Rude):
    """Asks for as much memory to write to as there is, again and again."""

    greeted = False

    def act(self) -> float:
        """Each time in place of the last."""
        if self.data is None:
            self.greeted = self.says("data", wire.hello(f"greedy {self.number}"))
        while self.hears("data"):
            clients.counts["answered"] += 1
        if self.greeted and self.says("data", wire.stage(LARGE)):
            clients.counts["asked"] += 1
        return GREED_SECONDS


class Dribbler(Rude):
    """Sends a call one byte at a time, and packets of one byte."""

    def act(self) -> float:
        """The next byte."""
        if self.control is None:
            whole = wire.begin() + wire.call(1, "Control/Status") + wire.message(1, b"")
            self.bytes = iter(whole)
        byte = next(self.bytes, None)
        if byte is not None:
            self.says("control", bytes([byte]))
        elif self.hears("control"):
            clients.counts["answered"] += 1
            self.close("control")
        if not self.random.randrange(int(AGAIN_SECONDS / BYTE_SECONDS)):
            self.hears("data")
            self.says("data", self.random.randbytes(1))
        return BYTE_SECONDS


class Vanisher(Rude):
    """Connects and is gone: at once, after a greeting, in the middle of a call."""

    def act(self) -> float:
        """One visit."""
        which = self.random.choice(["data", "control"])
        if self.opened(which) is not None:
            call = wire.begin() + wire.call(1, "Control/Status") + wire.message(1, b"")
            said = {
                "data": [[], [wire.hello("gone")], [wire.hello("gone"), wire.stage(1 << 20)]],
                "control": [[], [wire.PREFACE[:9]], [call], [call[: self.random.randrange(len(call))]]],
            }
            for packet in self.random.choice(said[which]):
                self.says(which, packet)
            clients.counts["visits"] += 1
            self.close(which)
        return VANISH_SECONDS
