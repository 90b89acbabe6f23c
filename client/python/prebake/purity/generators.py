"""The generators that a process shares: Python's, NumPy's legacy one, PyTorch's default one of the CPU.

A generator's own `getstate` costs 10 to 70 us, mostly to make numbers of its 2,500 bytes. Here the bytes are
read where they lie. Where they lie is not documented, so it is tested on a generator of our own first; if
that fails the documented way is taken.
"""

from __future__ import annotations

import ctypes
import functools
import random
import struct
import sys
from typing import Any

#: Bytes of a Mersenne Twister's state: 624 words and the place in them.
_TWISTER_BYTES = 2500
#: Of a cached deviate of NumPy's: whether there is one, and a double.
_CACHE_BYTES = 16
#: What every object begins with: its reference count, which changes, and its type.
_HEADER = object.__basicsize__

_read = ctypes.string_at


class Python:
    """`random`: the state lies behind the object's header, place first; a cached deviate beside it."""

    name = "random"

    def shared(self) -> random.Random:
        return random._inst  # type: ignore[attr-defined]

    def state(self, of: random.Random, documented: bool) -> Any:
        return self._raw(of) if not documented and _python_readable() else of.getstate()

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


class Numpy:
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

    def state(self, of: Any, documented: bool) -> Any:
        return _frozen(of.get_state(legacy=False)) if documented else self._raw(of)

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
        # Its stub leaves out what it has.
        numpy: Any = sys.modules["numpy"]

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
        # Where it begins depends on the version, and is another place where it was seeded.
        state, new = of.get_state(legacy=False), type(of)().get_state(legacy=False)
        return bool(state["state"].get("pos") != new["state"].get("pos") or state["has_gauss"])


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


class Torch:
    """PyTorch's default generator of the CPU. Its own way takes a few microseconds."""

    name = "torch"

    def shared(self) -> Any:
        return getattr(sys.modules.get("torch"), "default_generator", None)

    def state(self, of: Any, documented: bool = True) -> Any:
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
