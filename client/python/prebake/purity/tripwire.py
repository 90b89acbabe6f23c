"""Whether random numbers were drawn from a generator that the process shares, and the way back.

Known are Python's `random`, NumPy's legacy generator and PyTorch's default one of the CPU (`generators.py`),
and C's (`glibc_random.py`). TensorFlow and JAX keep no such state in the process that could be read:
TensorFlow's ops are told by their names, JAX takes its keys as arguments.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from prebake.purity.generators import Numpy, Python, Torch
from prebake.purity.glibc_random import GlibcRandom
from prebake.runtime.daemon import native

#: States that are read the documented way, each some 0.2 ms, before it is tested where they lie, which takes
#: some of these: a job that finds all it wants in the cache asks for two.
DOCUMENTED = 16
#: Another thread would have to draw during each of so many runs in a row to be taken for what is run.
TRIES = 4
#: Threads that draw nothing: progress bars', and those that hand on what others made.
_SILENT_CLASSES = frozenset({"TMonitor"})
_SILENT_TARGETS = ("QueueFeederThread", "(_pin_memory_loop)")

#: Each knows its own kind of generators and states.
_KNOWN: tuple[Any, ...] = (Python(), Numpy(), Torch(), GlibcRandom())

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
    generators, early = tuple(known.shared() for known in _KNOWN), _is_early()
    pairs = list(zip(_KNOWN, generators, strict=True))
    states = tuple(None if each is None else known.state(each, early) for known, each in pairs)
    held = [
        known.memory(each, then)
        for (known, each), then in zip(pairs, states, strict=True)
        if each is not None
    ]
    return Token(generators, states, tuple(itertools.chain(*held)), early)


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


def draws(make: Callable[[], Any]) -> bool:
    """Whether `make` draws. It is run as often as it takes to tell it from other threads that do."""
    for _ in range(TRIES):
        before = state()
        make()
        if moved(before) is None:
            return False
    return True
