"""How a process's world stands to a collection: proven, a variant, or unproven. The daemon keeps it
(`daemon/src/collection/worlds.rs`); what it said once is remembered here.
"""

from __future__ import annotations

import os
from typing import Any

from prebake.encoding.digests import digest
from prebake.proof.variants import CONTEXT, Split
from prebake.runtime.errors import printable
from prebake.trial import kinds
from prebake.trial.checked import Checked
from prebake.trial.own_calls import OwnCalls
from prebake.world import world
from prebake.world.world import World

#: A world of a collection: the daemon's run, the collection, the world or a part of it.
Name = tuple[int, str, bytes]

#: Worlds that were proven while this process ran; and those of them with which others are compared.
_proven: set[Name] = set()
_first: set[Name] = set()
#: Kinds of a function's elements that are equal in a world that is not the first.
_kinds: dict[Name, set[bytes]] = {}
#: Items of functions that were compared by this process, which proved their world.
_checked: dict[Name, Checked] = {}
#: Items that were equal, where too few were compared.
_equal: dict[Name, set[bytes]] = {}
#: Items of functions that were made in this process, by collection: that one is equal here tells less.
_made_here: dict[str, OwnCalls] = {}


if hasattr(os, "register_at_fork"):
    # What a parent made was made by another process than this.
    os.register_at_fork(after_in_child=_made_here.clear)


def made_here(collection: Any, items: Any, i: int, ns: int, is_tried: bool) -> None:
    """Takes note of an item of a function that this process made in so many nanoseconds, and stored;
    `is_tried` if a trial makes just that one again."""
    given = items.input(i)
    if given is not None:
        _made_here.setdefault(collection.digest, OwnCalls()).add(given[0], ns, is_tried)


class WorldStanding:
    """Of one collection in one world. A `part` of a world is a digest of its own: of the world and a kind of
    elements, of one element, of a trial."""

    def __init__(self, collection: Any, here: World, job: Any) -> None:
        self._collection, self.here = collection, here
        self._name: Name = job.boot_id, collection.digest, here.digest
        #: Of a world that is unproven: how the first one is described, whether others stored something, and
        #: what an item takes on average.
        self._described, self.has_others, self.cost_ns = b"", False, 0

    @property
    def entries(self) -> int:
        """Items that are known to be stored. Of a function's, this process may have stored more since it was
        planned."""
        return max(self._collection.entries, len(_made_here.get(self._collection.digest, ())))

    def own_calls(self) -> OwnCalls:
        """Items of a function that this process made."""
        return _made_here.setdefault(self._collection.digest, OwnCalls())

    # The world as a whole.

    def ask(self, begins: bool = False) -> Split | bool:
        """Whether it is proven, or the variant to be used; with `begins` a new collection begins here."""
        if self._name in _proven:
            return True
        kind, *more = self._collection.stand(self.here.digest, begins=begins)
        if kind == "variant":
            return Split(*more)
        if kind == "proven":
            first, undescribed = more
            if undescribed:
                self._collection.stand(self.here.digest, description=self.here.described())
            _proven.add(self._name)
            _first.update([self._name] if first else [])
            return True
        self._described, self.has_others, self.cost_ns = more
        return False

    def is_first(self) -> bool:
        """Whether others are compared with this world."""
        return self._name in _first

    def prove(self) -> None:
        """Has it known that it is proven."""
        self._collection.stand(self.here.digest, agrees=True)
        _proven.add(self._name)
        _equal.pop(self._name, None)

    def differences(self) -> str:
        """In words, what differs between this world and the first."""
        return world.differences(self.here, self._described)

    def split(self, part: bytes, key: bytes, why: str) -> Split:
        """Begins a variant, of this world or of a part of it. Another process of the same may be first."""
        why = printable(why)
        _proven.discard((*self._name[:2], part))
        kind, *more = self._collection.stand(part, differs=(key, why), part=part != self.here.digest)
        return Split(*more) if kind == "variant" else Split(key, why)

    # Items of a function, one by one.

    @property
    def compared(self) -> int:
        """Items of this collection that were equal in this world, in this process."""
        return len(_equal.get(self._name, ()))

    def equal(self, fingerprint: bytes) -> None:
        """Takes note of an item that was equal."""
        _equal.setdefault(self._name, set()).add(fingerprint)

    def was_equal(self, fingerprint: bytes, is_tried: bool) -> bool:
        """Whether an item was found to be equal in this world, by whichever process."""
        if fingerprint in _equal.get(self._name, ()):
            return True
        kind, *_ = self._collection.stand(self._of_item(fingerprint, is_tried), part=True)
        return bool(kind == "proven")

    def tell_item(self, fingerprint: bytes, is_tried: bool) -> None:
        """Has it known that the one item was equal, where no more could be compared."""
        if fingerprint in _equal.get(self._name, ()):
            self._collection.stand(self._of_item(fingerprint, is_tried), agrees=True, part=True)

    def check(self, clocks: tuple[int, int]) -> None:
        """Counts an item of a function that was compared since then."""
        _checked[self._name] = _checked.get(self._name, Checked()).one_more(clocks)

    def wants_checks(self) -> bool:
        """Whether more items of a function are to be compared, in a world that this process proved."""
        checked = _checked.get(self._name)
        return checked is not None and checked.wants_more()

    def _of_item(self, fingerprint: bytes, is_tried: bool) -> bytes:
        what = b"tried item" if is_tried else b"item"
        return digest(CONTEXT, what + self.here.digest + fingerprint)

    # Kinds of a function's items.

    def of_kind(self, layout: str) -> bytes:
        """The part of the world that elements of a layout are."""
        return digest(CONTEXT, b"kind" + self.here.digest + kinds.of_layout(layout).encode())

    def ask_kind(self, kind: bytes) -> Split | bool:
        """The same as `ask`, of a kind of elements."""
        known = _kinds.setdefault(self._name, set())
        if kind in known or len(known) >= kinds.KINDS_MAX:
            return True
        standing, *more = self._collection.stand(kind, part=True)
        if standing == "variant":
            return Split(*more)
        if standing == "unproven":
            return False
        known.add(kind)
        return True

    def tell_kind(self, kind: bytes) -> None:
        """Has it known that a value of a kind was equal."""
        known = _kinds.setdefault(self._name, set())
        if kind not in known:
            self._collection.stand(kind, agrees=True, part=True)
            known.add(kind)

    # The trial of a function.

    def was_tried(self) -> bool:
        """Whether another process than those that made them found items of a function to be equal."""
        name = *self._name[:2], self._of_trial()
        if name not in _proven and self._collection.stand(self._of_trial(), part=True)[0] == "proven":
            _proven.add(name)
        return name in _proven

    def tell_trial(self) -> None:
        """Has it known that this process did."""
        self._collection.stand(self._of_trial(), agrees=True, part=True)

    def _of_trial(self) -> bytes:
        return digest(CONTEXT, b"trial" + self.here.digest)
