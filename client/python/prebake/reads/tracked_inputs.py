"""What a stream asks for as it runs: items of the lists that it goes through, and files.

Nobody can see into an iterator. But what its elements are made from it has to ask for. A list is replaced by
one that notes which of its items are taken; so two streams that differ only later in a list are one stream up
to there. Asking for anything else of a list (its length, say) counts as asking for all of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from prebake.encoding import digests
from prebake.runtime import daemon
from prebake.runtime.errors import Code, Refused
from prebake.runtime.words import words

#: device, inode, size, mtime_ns, ctime_ns
Stat = tuple[int, ...]
#: In place of an item's number: the list is changed.
CHANGED = -1
#: What nothing could be read from.
ABSENT = b""


class Tracked(list):  # type: ignore[type-arg]
    """Stands for a list, and tells `note` which items are taken: a number, None for all there is to know of
    it, or `CHANGED`."""

    def __init__(self, origin: list[Any], note: Callable[[int | None], None]) -> None:
        super().__init__(origin)
        self._origin = origin
        self._note = note

    def __iter__(self) -> Iterator[Any]:
        i = 0
        while True:
            # Of the one behind the last it is asked whether it is there.
            self._note(i)
            # As it is now: a list may grow while it is gone through.
            if i >= len(self._origin):
                return
            yield self._origin[i]
            i += 1

    def __getitem__(self, key: Any) -> Any:
        self._note(key if type(key) is int and key >= 0 else None)
        return self._origin[key]

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._note(None)
        return list, (list(self._origin),)


def _noted(name: str) -> Callable[..., Any]:
    method = getattr(list, name)

    def asked(self: Tracked, *args: Any, **kwargs: Any) -> Any:
        self._note(None)
        return method(self._origin, *args, **kwargs)

    return asked


def _changed(name: str) -> Callable[..., Any]:
    method = getattr(list, name)

    def change(self: Tracked, *args: Any, **kwargs: Any) -> Any:
        # What it stands for changes with it.
        self._note(CHANGED)
        method(self._origin, *args, **kwargs)
        return method(self, *args, **kwargs)

    return change


_CHANGES = words(
    "append extend insert remove pop clear sort reverse __setitem__ __delitem__ __iadd__ __imul__"
)
_QUESTIONS = words(
    "__add__ __contains__ __eq__ __ge__ __gt__ __le__ __len__ __lt__ __mul__ __ne__ __repr__ __reversed__ "
    "__rmul__ copy count index"
)
for _name in _QUESTIONS:
    setattr(Tracked, _name, _noted(_name))
for _name in _CHANGES:
    setattr(Tracked, _name, _changed(_name))


class File(NamedTuple):
    """A file as it was when its content was hashed; no stat and no content of one that is not there."""

    stat: Stat | None
    content: bytes


class Asks:
    """Items by list, lists as a whole, files, and what else it ran on."""

    def __init__(self) -> None:
        self.items: dict[str, set[int]] = {}
        self.whole: set[str] = set()
        self.files: dict[str, Stat | None] = {}
        #: Code that ran and variables that were read: see `Scope.names`.
        self.ran_on: dict[str, None] = {}
        #: Whether a list was changed.
        self.changed = False

    def note(self, name: str) -> Callable[[int | None], None]:
        """What the list of that name tells."""
        items = self.items.setdefault(name, set())

        def told(i: int | None) -> None:
            if i is None:
                self.whole.add(name)
            elif i == CHANGED:
                self.changed = True
            else:
                items.add(i)

        return told

    def beyond(self, known: Asks) -> list[list[Any]]:
        """What is not among the known, as it is written down."""
        found: list[list[Any]] = [["whole", name] for name in sorted(self.whole - known.whole)]
        for name, items in sorted(self.items.items()):
            for first, last in _runs(sorted(items - known.items.get(name, set()))):
                found.append(["items", name, first, last + 1])
        found += [["ran on", name] for name in sorted(self.ran_on.keys() - known.ran_on.keys())]
        return found + [["file", path] for path in sorted(self.files.keys() - known.files.keys())]

    def add(self, ask: list[Any]) -> None:
        """One of those."""
        if ask[0] == "items":
            self.items.setdefault(ask[1], set()).update(range(ask[2], ask[3]))
        elif ask[0] == "whole":
            self.whole.add(ask[1])
        elif ask[0] == "ran on":
            self.ran_on[ask[1]] = None
        else:
            self.files[ask[1]] = None


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for number in numbers:
        if last is None or number != last + 1:
            if first is not None and last is not None:
                yield first, last
            first = number
        last = number
    if first is not None and last is not None:
        yield first, last


class Plain:
    """Tells lists whose items are what they show, so that they cannot change unseen."""

    def __init__(self) -> None:
        #: Those that were seen to be, and how long they were. Held, so that an address is not used again.
        self._known: dict[int, tuple[list[Any], int]] = {}

    def among(self, fields: dict[str, Any]) -> dict[str, list[Any]]:
        """Those among some fields."""
        found = {name: value for name, value in fields.items() if type(value) is list and self._is(value)}
        self._known = {id(value): (value, len(value)) for value in found.values()}
        return found

    def _is(self, items: list[Any]) -> bool:
        known = self._known.get(id(items))
        if known is not None and known[1] == len(items):
            return True
        return digests.native_module().digest_plain(items) is not None


def items_digest(items: list[Any]) -> bytes:
    """What some items of a plain list are."""
    return bytes(digests.native_module().digest_plain(items))


def look(path: str) -> Stat | None:
    """A file's stat now; None if it is not there. Raises `Refused` on what is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise Refused(Code.UNDECLARED, f"it reads {path}, which is no file")
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def read(path: str, hint: File | None = None) -> File | None:
    """A file as it is now; None if it changes meanwhile. Of one that is as hinted the content is known."""
    before = look(path)
    if before is None:
        return File(None, ABSENT)
    if hint is not None and hint.stat == before:
        return hint
    try:
        content = daemon.native().hash_file(path)
    except daemon.native().Error:
        content = ABSENT
    return File(before, bytes(content)) if look(path) == before else None
