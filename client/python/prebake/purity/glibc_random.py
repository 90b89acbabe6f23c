"""C's generator, from which compiled code draws."""

from __future__ import annotations

import ctypes
import struct
import threading

_read = ctypes.string_at

#: glibc's random_r.c: words are of 4 bytes, there are 5 kinds of generators, and a table of 31 words is the
#: fourth.
_WORD, _KINDS, _KIND = 4, 5, 3
_BYTES = 31 * _WORD
#: What stands in the table's place while it is looked at or written. It is never freed: whatever interrupts
#: that, C's generator is at memory that is there.
_aside = ctypes.create_string_buffer(_WORD + _BYTES)
_lock = threading.Lock()


class GlibcRandom:
    """`rand` and `random` of glibc, from which compiled code draws: a table of 31 words behind one that says
    how far it is. Each draw changes the next of them."""

    name = "rand of C"

    def shared(self) -> int | None:
        return _table()

    def state(self, of: int, documented: bool = False) -> bytes:
        return _read(of + _WORD, _BYTES)

    def memory(self, of: int, state: bytes) -> list[tuple[int, bytes]]:
        return [(of + _WORD, state)]

    def is_beside(self, of: int, state: bytes) -> bool:
        return True

    def is_at(self, of: int, state: bytes) -> bool:
        return self.state(of) == state

    def restore(self, of: int, state: bytes) -> None:
        now = self.state(of)
        places = range(0, _BYTES, _WORD)
        drawn = sum(now[i : i + _WORD] != state[i : i + _WORD] for i in places)
        if drawn == len(places):
            # All of them: how often is not known.
            return
        libc = ctypes.PyDLL(None)
        with _lock:
            try:
                libc.initstate(1, _aside, len(_aside))
                # Said when it is put aside: five times the place, and its kind.
                place = (_word(of) // _KINDS - drawn) % len(places)
                said = struct.pack("=i", place * _KINDS + _KIND)
                ctypes.memmove(of, said + state, len(_aside))
            finally:
                libc.setstate(ctypes.c_void_p(of))

    def drawn_since_made(self, of: int) -> bool:
        return False


def _word(at: int) -> int:
    word: int = struct.unpack("=i", _read(at, _WORD))[0]
    return word


def _table() -> int | None:
    """Where the table lies that `rand` draws from; None if it is not as expected."""
    if not _found:
        with _lock:
            if not _found:
                _found.append(_looked_for())
    return _found[0]


#: Once it was looked for.
_found: list[int | None] = []


def _looked_for() -> int | None:
    libc = ctypes.PyDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return None
    libc.initstate.restype = ctypes.c_void_p
    table = libc.initstate(7, _aside, len(_aside))
    if not table:
        return None
    try:
        before = _aside.raw
        libc.rand()
        after = _aside.raw
    finally:
        libc.setstate(ctypes.c_void_p(table))
    places = range(0, len(before), _WORD)
    changed = [i for i in places if before[i : i + _WORD] != after[i : i + _WORD]]
    is_known = len(changed) == 1 and changed != [0] and _word(table) % _KINDS == _KIND
    return int(table) if is_known else None
