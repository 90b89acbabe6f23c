"""Whether random numbers were drawn from a generator that the process shares, and the way back.

Known are Python's `random`, NumPy's legacy generator and PyTorch's default one of the CPU. TensorFlow and JAX
keep no such state in the process that could be read: TensorFlow's ops are told by their names, JAX takes its
keys as arguments.

A generator's own `getstate` costs 10 to 70 us, mostly to make numbers of its 2,500 bytes. Here the bytes are
read where they lie. Where they lie is not documented, so it is tested on a generator of our own first; if
that fails the documented way is taken. It is taken for the first few states too: the test takes over a
millisecond, and a job that finds all it wants in the cache asks for two.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import random
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from prebake.runtime.daemon import native

#: Bytes of a Mersenne Twister's state: 624 words and the place in them.
_TWISTER_BYTES = 2500
#: Of a cached deviate of NumPy's: whether there is one, and a double.
_CACHE_BYTES = 16
#: States that are read the documented way, each some 0.2 ms, before it is tested where they lie, which takes
#: some of these.
DOCUMENTED = 16
#: Another thread would have to draw during each of so many runs in a row to be taken for what is run.
TRIES = 4
#: Threads that draw nothing: progress bars', and those that hand on what others made.
_SILENT_CLASSES = frozenset({"TMonitor"})
_SILENT_TARGETS = ("QueueFeederThread", "(_pin_memory_loop)")
#: What every object begins with: its reference count, which changes, and its type.
_HEADER = object.__basicsize__

_read = ctypes.string_at


class _Python:
    """`random`: the state lies behind the object's header, place first; a cached deviate beside it."""

    name = "random"

    def shared(self) -> random.Random:
        return random._inst  # type: ignore[attr-defined]

    def state(self, of: random.Random) -> Any:
        return self._raw(of) if not _is_early() and _python_readable() else of.getstate()

    def is_at(self, of: random.Random, state: Any) -> bool:
        return bool((self._raw(of) if len(state) == 2 else of.getstate()) == state)

    def memory(self, of: random.Random, state: Any) -> list[tuple[int, bytes]]:
        return [(id(of) + _HEADER, state[0])] if len(state) == 2 else []

    def is_beside(self, of: random.Random, state: Any) -> bool:
        return bool(of.gauss_next == state[1]) if len(state) == 2 else self.is_at(of, state)  # type: ignore[attr-defined]

    def _raw(self, of: random.Random) -> tuple[bytes, float | None]:
        return _read(id(of) + _HEADER, _TWISTER_BYTES), of.gauss_next  # type: ignore[attr-defined]

    def restore(self, of: random.Random, state: Any) -> None:
        of.setstate(_python_state(*state) if len(state) == 2 else state)

    def drawn_since_made(self, of: random.Random) -> bool:
        return False


def _python_state(raw: bytes, gauss_next: float | None) -> tuple[int, tuple[int, ...], float | None]:
    place, *words = struct.unpack("=i624I", raw)
    return (random.Random.VERSION, (*words, place), gauss_next)


@functools.cache
def _python_readable() -> bool:
    if sys.implementation.name != "cpython" or random.Random.__basicsize__ < _HEADER + _TWISTER_BYTES:
        return False
    mine = random.Random(7)
    for draw in (mine.random, lambda: mine.gauss(0, 1), lambda: mine.getrandbits(20_000)):
        before = _read(id(mine) + _HEADER, _TWISTER_BYTES)
        if _python_state(before, mine.gauss_next) != mine.getstate():  # type: ignore[attr-defined]
            return False
        draw()
    return True


class _Numpy:
    """NumPy's legacy generator: a Mersenne Twister at an address that its own interface tells, in an object
    that holds a cached deviate somewhere."""

    name = "numpy.random"

    def __init__(self) -> None:
        #: Of the last twister seen: the object, and where its state lies.
        self._twister: Any = None
        self._address = 0

    def shared(self) -> Any:
        mtrand = sys.modules.get("numpy.random.mtrand")
        return getattr(mtrand, "_rand", None)

    def state(self, of: Any) -> Any:
        return _frozen(of.get_state(legacy=False)) if _is_early() else self._raw(of)

    def is_at(self, of: Any, state: Any) -> bool:
        now = self._raw(of) if hasattr(state[0], "ctypes") else _frozen(of.get_state(legacy=False))
        return bool(now == state)

    def memory(self, of: Any, state: Any) -> list[tuple[int, bytes]]:
        if not hasattr(state[0], "ctypes"):
            return []
        twister, raw, cached = state
        # Without a cached deviate only the flag counts.
        at = id(of) + _HEADER + (_numpy_cache() or 0)
        return [(twister.ctypes.state_address, raw), (at, cached or bytes(1))]

    def is_beside(self, of: Any, state: Any) -> bool:
        return of._bit_generator is state[0] if hasattr(state[0], "ctypes") else self.is_at(of, state)

    def _raw(self, of: Any) -> Any:
        place = _numpy_cache()
        twister = of._bit_generator
        if place is None or type(twister).__name__ != "MT19937":
            return _frozen(of.get_state(legacy=False))
        if twister is not self._twister:
            self._twister, self._address = twister, twister.ctypes.state_address
        # The cached deviate is drawn without a step of the twister.
        cached = _read(id(of) + _HEADER + place, _CACHE_BYTES)
        return twister, _read(self._address, _TWISTER_BYTES), cached if cached[0] else b""

    def restore(self, of: Any, state: Any) -> None:
        import numpy

        if not hasattr(state[0], "ctypes"):
            if of.get_state(legacy=False)["bit_generator"] != dict(state)["bit_generator"]:
                kind = getattr(numpy.random, dict(state)["bit_generator"])
                numpy.random.set_bit_generator(kind())
            of.set_state(_thawed(state))
            return
        twister, raw, cached = state
        if of._bit_generator is not twister:
            numpy.random.set_bit_generator(twister)
        has_gauss, gauss = struct.unpack("=i4xd", cached or bytes(_CACHE_BYTES))
        words = {
            "key": numpy.frombuffer(raw, numpy.uint32, 624),
            "pos": struct.unpack_from("=i", raw, 2496)[0],
        }
        of.set_state({"bit_generator": "MT19937", "state": words, "has_gauss": has_gauss, "gauss": gauss})

    def drawn_since_made(self, of: Any) -> bool:
        # Seeding leaves the place at the end of the words, and no deviate.
        state = of.get_state(legacy=False)
        return bool(state["state"].get("pos") != 624 or state["has_gauss"])


def _frozen(state: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """A state that compares by value."""

    def each(value: Any) -> Any:
        if isinstance(value, dict):
            return _frozen(value)
        return (value.dtype.str, value.tobytes()) if hasattr(value, "tobytes") else value

    return tuple((name, each(value)) for name, value in sorted(state.items()))


def _thawed(state: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    import numpy

    def each(value: Any) -> Any:
        if not isinstance(value, tuple):
            return value
        if len(value) == 2 and isinstance(value[0], str):
            return numpy.frombuffer(value[1], value[0])
        return _thawed(value)

    return {name: each(value) for name, value in state}


@functools.cache
def _numpy_cache() -> int | None:
    """Where in a generator's object, after its header, the cached deviate is (a flag, then a double); None if
    the bytes are not as expected."""
    if sys.implementation.name != "cpython":
        return None
    import numpy

    mine = numpy.random.RandomState(7)
    twister = mine._bit_generator
    size = type(mine).__basicsize__ - _HEADER
    address = twister.ctypes.state_address
    seen = []
    # Of two normal deviates the second is the cached one.
    for draw in (mine.randn, mine.randn):
        draw()
        state = mine.get_state(legacy=False)
        expected = state["state"]["key"].tobytes() + struct.pack("=i", state["state"]["pos"])
        if _read(address, _TWISTER_BYTES) != expected:
            return None
        seen.append((_read(id(mine) + _HEADER, size), state))
    (full, state), (empty, _) = seen
    flag, deviate = struct.pack("=i", 1), struct.pack("=d", state["gauss"])
    at = [i for i in range(0, size - 15, 8) if full[i : i + 4] == flag and full[i + 8 : i + 16] == deviate]
    return at[0] if len(at) == 1 and empty[at[0] : at[0] + 4] == bytes(4) else None


class _Torch:
    """PyTorch's default generator of the CPU. Its own way takes a few microseconds."""

    name = "torch"

    def shared(self) -> Any:
        return getattr(sys.modules.get("torch"), "default_generator", None)

    def state(self, of: Any) -> Any:
        return of.get_state().numpy().tobytes()

    def memory(self, of: Any, state: Any) -> list[tuple[int, bytes]]:
        return []

    def is_beside(self, of: Any, state: Any) -> bool:
        return self.is_at(of, state)

    def is_at(self, of: Any, state: Any) -> bool:
        return bool(self.state(of) == state)

    def restore(self, of: Any, state: Any) -> None:
        import torch

        of.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))

    def drawn_since_made(self, of: Any) -> bool:
        return bool(self.state(of) != self.state(sys.modules["torch"].Generator()))


class _C:
    """`rand` and `random` of glibc, from which compiled code draws: a table of 31 words behind one that says
    how far it is. Each draw changes the next of them."""

    name = "rand of C"

    def shared(self) -> int | None:
        return _c_table()

    def state(self, of: int) -> bytes:
        return _read(of + _C_WORD, _C_BYTES)

    def memory(self, of: int, state: bytes) -> list[tuple[int, bytes]]:
        return [(of + _C_WORD, state)]

    def is_beside(self, of: int, state: bytes) -> bool:
        return True

    def is_at(self, of: int, state: bytes) -> bool:
        return self.state(of) == state

    def restore(self, of: int, state: bytes) -> None:
        now = self.state(of)
        places = range(0, _C_BYTES, _C_WORD)
        drawn = sum(now[i : i + _C_WORD] != state[i : i + _C_WORD] for i in places)
        if drawn == len(places):
            # All of them: how often is not known.
            return
        libc = ctypes.PyDLL(None)
        with _c_lock:
            try:
                libc.initstate(1, _c_aside, len(_c_aside))
                # Said when it is put aside: five times the place, and its kind.
                place = (_c_word(of) // _C_KINDS - drawn) % len(places)
                said = struct.pack("=i", place * _C_KINDS + _C_KIND)
                ctypes.memmove(of, said + state, len(_c_aside))
            finally:
                libc.setstate(ctypes.c_void_p(of))

    def drawn_since_made(self, of: int) -> bool:
        return False


#: glibc's random_r.c: words are of 4 bytes, there are 5 kinds of generators, and a table of 31 words is the
#: fourth.
_C_WORD, _C_KINDS, _C_KIND = 4, 5, 3
_C_BYTES = 31 * _C_WORD
#: What stands in the table's place while it is looked at or written. It is never freed: whatever interrupts
#: that, C's generator is at memory that is there.
_c_aside = ctypes.create_string_buffer(_C_WORD + _C_BYTES)
_c_lock = threading.Lock()


def _c_word(at: int) -> int:
    word: int = struct.unpack("=i", _read(at, _C_WORD))[0]
    return word


def _c_table() -> int | None:
    """Where the table lies that `rand` draws from; None if it is not as expected."""
    if not _c_found:
        with _c_lock:
            if not _c_found:
                _c_found.append(_c_looked_for())
    return _c_found[0]


#: Once it was looked for.
_c_found: list[int | None] = []


def _c_looked_for() -> int | None:
    libc = ctypes.PyDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return None
    libc.initstate.restype = ctypes.c_void_p
    table = libc.initstate(7, _c_aside, len(_c_aside))
    if not table:
        return None
    try:
        before = _c_aside.raw
        libc.rand()
        after = _c_aside.raw
    finally:
        libc.setstate(ctypes.c_void_p(table))
    places = range(0, len(before), _C_WORD)
    changed = [i for i in places if before[i : i + _C_WORD] != after[i : i + _C_WORD]]
    is_known = len(changed) == 1 and changed != [0] and _c_word(table) % _C_KINDS == _C_KIND
    return int(table) if is_known else None


_KNOWN = (_Python(), _Numpy(), _Torch(), _C())

#: States that were asked for so far, or compared the documented way.
_asked = 0


class Token(NamedTuple):
    """Generators and their states, in the order of `_KNOWN`; None for one whose package is not imported. What
    of the states lies at which address, as far as that is known."""

    generators: tuple[Any, ...]
    states: tuple[Any, ...]
    memory: tuple[tuple[int, bytes], ...]
    #: They were read the documented way.
    is_early: bool


def _is_early() -> bool:
    return _asked <= DOCUMENTED


def state() -> Token:
    """What the generators are at now."""
    global _asked
    _asked += 1
    generators = tuple(known.shared() for known in _KNOWN)
    pairs = list(zip(_KNOWN, generators, strict=True))
    states = tuple(None if each is None else known.state(each) for known, each in pairs)
    held = [
        known.memory(each, then)
        for (known, each), then in zip(pairs, states, strict=True)
        if each is not None
    ]
    return Token(generators, states, tuple(itertools.chain(*held)), _is_early())


def is_slow(token: Token) -> bool:
    """Whether states taken now would be quicker to compare."""
    return token.is_early and not _is_early()


@functools.cache
def _native() -> Any:
    return native()


def _holds(token: Token) -> bool:
    """Whether all generators are as they were, by one look at their memory; False too where that cannot be
    told so."""
    module = _native()
    if module is None or token.is_early or not token.memory:
        return False
    for known, was, then in zip(_KNOWN, token.generators, token.states, strict=True):
        if known.shared() is not was or was is not None and not known.is_beside(was, then):
            return False
    return bool(module.lie_at(token.memory))


def moved(token: Token) -> str | None:
    """The name of the first generator that is not as it was: it was drawn from, or seeded.

    Other threads that draw are not told apart from the caller.
    """
    global _asked
    if _holds(token):
        return None
    _asked += 1
    for known, was, then in zip(_KNOWN, token.generators, token.states, strict=True):
        now = known.shared()
        if now is None:
            continue
        if was is None:
            if known.drawn_since_made(now):
                return known.name
        elif now is not was or not known.is_at(now, then):
            return known.name
    return None


def alone() -> bool:
    """Whether no other thread of the job can have drawn."""
    here = threading.current_thread()
    return all(each is here or _is_silent(each) for each in threading.enumerate())


def _is_silent(thread: threading.Thread) -> bool:
    return type(thread).__qualname__ in _SILENT_CLASSES or thread.name.endswith(_SILENT_TARGETS)


def restore(token: Token) -> None:
    """Puts the generators back, unless another thread may have drawn too: it would draw the same again. One
    whose package was imported since stays as it is."""
    if not alone():
        return
    for known, was, then in zip(_KNOWN, token.generators, token.states, strict=True):
        if was is not None and not known.is_at(was, then):
            known.restore(was, then)


def held_state(generator: Any) -> Any:
    """What a generator of a user's own is at, to be compared; None if it is not one of a known kind."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if isinstance(generator, random.Random):
        return None if isinstance(generator, random.SystemRandom) else generator.getstate()
    if numpy is not None and isinstance(generator, numpy.random.RandomState):
        return _frozen(generator.get_state(legacy=False))
    if numpy is not None and isinstance(generator, numpy.random.Generator):
        return _frozen(generator.bit_generator.state)
    if torch is not None and isinstance(generator, torch.Generator):
        return generator.get_state().numpy().tobytes()
    return None


def draws(make: Callable[[], Any]) -> bool:
    """Whether `make` draws. It is run as often as it takes to tell it from other threads that do."""
    for _ in range(TRIES):
        before = state()
        make()
        if moved(before) is None:
            return False
    return True
