"""joblib: `hash` is `prebake.fingerprint`, and what `Memory.cache` returns calls `prebake.cached`.

What only a store that its user manages can do (looking into it, clearing it, references to values in it) is
not Prebake's, and a test that goes on with it says nothing of us.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

import asked
import fresh

TESTS = "joblib.test"
#: A function that is called each time is called more often than a test counts.
COUNTS_CALLS = True
#: What only joblib has.
THEIRS = {
    "MemorizedFunc": ("call", "call_and_shelve", "check_call_in_cache", "clear"),
    "Memory": ("clear", "reduce_size"),
}


def prepare() -> None:
    """Puts the stand-ins where the tests will find them."""
    from joblib import memory

    for name, methods in THEIRS.items():
        for method in methods:
            _withhold(getattr(memory, name), method)
    _withhold_store(memory.Memory)
    _withhold_store(memory.MemorizedFunc)
    called = memory.MemorizedFunc.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not asked.on:
            return called(self, *args, **kwargs)
        if self.ignore:
            raise asked.not_ours("ignore=: arguments that do not count")
        if self.mmap_mode is not None:
            raise asked.not_ours("mmap_mode=: a value that is a file mapped to memory")
        if self.cache_validation_callback is not None:
            raise asked.not_ours("cache_validation_callback=: values that expire")
        return _of(self)(*args, **kwargs)

    memory.MemorizedFunc.__call__ = asked.StandIn(call)
    state_of = memory.MemorizedFunc.__getstate__

    def state(self: Any) -> Any:
        if asked.on:
            fresh.goes_through(self.func, pickle)
        return state_of(self)

    memory.MemorizedFunc.__getstate__ = asked.StandIn(state)


def patch(module: Any) -> None:
    """Patches what a module of tests imported by name."""
    from joblib import hashing

    if getattr(module, "hash", None) is not hashing.hash:
        return
    hash_of = hashing.hash

    def hash(obj: Any, hash_name: str = "md5", coerce_mmap: bool = False) -> Any:
        if not asked.on:
            return hash_of(obj, hash_name, coerce_mmap)
        return asked.identity(obj, lambda refused: pickle.PicklingError(f"PicklingError {refused}"))

    module.hash = hash


_functions: dict[int, tuple[Any, Any, Any]] = {}


def _of(memorized: Any) -> Any:
    """The stand-in of a memorized function; one for each object, as joblib has."""
    kept = _functions.get(id(memorized))
    if kept is None or kept[0] is not memorized or kept[1] is not memorized.func:
        kept = (memorized, memorized.func, fresh.cached(memorized.func))
        _functions[id(memorized)] = kept
    return kept[2]


def _asks_itself(depth: int) -> bool:
    """Whether a test itself asks, and not joblib on its way."""
    return sys._getframe(depth + 1).f_globals.get("__name__", "").startswith(TESTS)


def _withhold(cls: Any, name: str) -> None:
    inner = getattr(cls, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if asked.on and _asks_itself(1):
            raise asked.not_ours(f"{cls.__name__}.{name}: a store that its user manages")
        return inner(self, *args, **kwargs)

    setattr(cls, name, asked.StandIn(method))


def _withhold_store(cls: Any) -> None:
    def get(self: Any) -> Any:
        # Between the two is the call of what stands in.
        if asked.on and _asks_itself(2):
            raise asked.not_ours("store_backend: a store that its user looks into")
        return self.__dict__["store_backend"]

    def set(self: Any, value: Any) -> None:
        self.__dict__["store_backend"] = value

    cls.store_backend = property(asked.StandIn(get), asked.StandIn(set))
