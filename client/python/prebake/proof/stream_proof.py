"""Whether a stream's stored elements may be served in this process's world: see `proof.py`.

A stream cannot be asked for one item, but it can be begun. So its first elements are made again and compared
with those that are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from prebake.compute.restart_signals import Tripped
from prebake.encoding.digests import digest
from prebake.proof.comparison import element_digest
from prebake.proof.variants import CONTEXT, DEPTH_MAX, Split
from prebake.purity import tripwire
from prebake.runtime.errors import Code, Refused, warn_once
from prebake.world import world

#: Elements that are made again: the first ones are as likely to differ as any.
CANARIES = 4
#: More of them, as long as all together take no more CPU time than this, and no longer than that, should they
#: wait for a disk: cheap ones are not worth a risk, also on a busy machine.
CANARIES_MAX, CHEAP_SECONDS, CHEAP_WALL_SECONDS = 64, 4e-3, 0.1

#: Worlds that were proven while this process ran: the daemon's run, collection and world.
_proven: set[tuple[int, str, bytes]] = set()


class Head(NamedTuple):
    """A stream's first elements, and whether there are no more."""

    elements: list[Any]
    ended: bool

    def digest(self, count: int) -> bytes:
        """Of the first so many. Empty if it cannot be told."""
        parts = [element_digest(each) for each in self.elements[:count]]
        return digest(CONTEXT, b"".join(parts)) if all(parts) else b""

    def begins_like(self, other: Head) -> bool:
        """Whether both are the same as far as both are known, and neither ended before the other."""
        for one, two in ((self, other), (other, self)):
            if one.ended and len(two.elements) > len(one.elements):
                return False
        common = min(len(self.elements), len(other.elements))
        if common == 0:
            return self.ended and other.ended
        mine = self.digest(common)
        return mine != b"" and mine == other.digest(common)

    def told_by(self, other: Head) -> int:
        """How many of the first elements it takes to tell it from another."""
        common = min(len(self.elements), len(other.elements))
        differing = (n for n in range(1, common) if self.digest(n) != other.digest(n))
        return next(differing, common)


class StreamProof:
    """Of one run of a stream. `plan(variants)` gives a collection, `stored(collection)` the head that lies in
    it, if any, and `made(count)` the head that the stream has here: fewer than so many elements where
    `CANARIES` take longer than `CHEAP_SECONDS`."""

    def __init__(
        self,
        plan: Callable[[list[Split]], Any],
        stored: Callable[[Any], Head | None],
        made: Callable[[int], Head],
    ) -> None:
        self._plan, self._stored, self._made = plan, stored, made

    def variants(self, boot: int, inside: Sequence[str]) -> list[Split]:
        """Those of the collection to be used in this world, inside these `with` statements. Raises `Refused`
        if none may be."""
        here = world.current(inside)
        if here is None:
            raise Refused(Code.OPAQUE, "what surrounds this process cannot be told")
        found: list[Split] = []
        for _ in range(DEPTH_MAX):
            collection = self._plan(found)
            name = boot, collection.digest, here.digest
            if collection.bypass or name in _proven:
                return found
            kind, *more = collection.stand(here.digest, begins=True)
            if kind == "proven":
                _, undescribed = more
                if undescribed:
                    collection.stand(here.digest, description=here.described())
                _proven.add(name)
                return found
            split = Split(*more) if kind == "variant" else self._compared(collection, here, more[0])
            if split is None:
                _proven.add(name)
                return found
            found = [*found, split]
        raise Refused(Code.OPAQUE, "its elements are others in each world")

    def _compared(self, collection: Any, here: world.World, described: bytes) -> Split | None:
        """None if the head is the same here; else the variant that this world has."""
        stored, differs = self._stored(collection), world.differences(here, described)
        if stored is None:
            why = f"nothing could be compared with what was made in another world: {differs}"
            return _split(collection, here, here.digest, why)
        before = tripwire.state()
        # Of a stream that ended after as many, one more would tell that it goes on here.
        made = self._made(min(CANARIES_MAX, len(stored.elements)) + stored.ended)
        drawn = tripwire.moved(before)
        if drawn is not None:
            raise Tripped(drawn, before, self)
        if made.begins_like(stored):
            collection.stand(here.digest, agrees=True)
            return None
        now = made.digest(max(CANARIES, made.told_by(stored)))
        warn_once(
            f"variant {now.hex()}",
            f"something outside the identity changes the result: {differs}. This run shares with those that "
            "are like it in this.",
        )
        return _split(
            collection, here, digest(CONTEXT, b"head" + (now or here.digest) + bytes([made.ended])), differs
        )


def _split(collection: Any, here: world.World, key: bytes, why: str) -> Split:
    kind, *more = collection.stand(here.digest, differs=(key, why))
    # Another process of the same world may have been first.
    return Split(*more) if kind == "variant" else Split(key, why)
