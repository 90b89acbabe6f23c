"""What a function gives without Prebake: computed in a forked process, which leaves no trace in the test."""

from __future__ import annotations

import inspect
import itertools
import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import asked
import cloudpickle

import prebake
from prebake.runtime import daemon

SECONDS_MAX = 20.0
#: Elements of a generator that are compared.
ELEMENTS_MAX = 1000


class Raised:
    """An exception instead of a value."""

    def __init__(self, name: str) -> None:
        self.name = name


class Unknown:
    """The value cannot leave the process that computed it."""

    def __init__(self, why: str) -> None:
        self.why = why


def compute(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The value, or `Raised`, or `Unknown`."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.close(ours)
        _in_child(theirs, function, args, kwargs)
    os.close(theirs)
    try:
        return _received(ours)
    finally:
        os.close(ours)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _in_child(to: int, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    try:
        os.environ["PREBAKE"] = "off"
        daemon.native.cache_clear()
        asked.on = False
        # What the function prints is the test's only once.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        try:
            made: Any = function(*args, **kwargs)
        except BaseException as error:
            made = Raised(type(error).__qualname__)
        try:
            sent = cloudpickle.dumps(made)
        except BaseException as error:
            sent = cloudpickle.dumps(Unknown(f"not pickled: {type(error).__qualname__}"))
        with os.fdopen(to, "wb") as file:
            file.write(sent)
    finally:
        os._exit(0)


def _received(pipe: int) -> Any:
    until, parts = time.monotonic() + SECONDS_MAX, []
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return Unknown(f"no value in {SECONDS_MAX:.0f} s")
        part = os.read(pipe, 1 << 20)
        if not part:
            break
        parts.append(part)
    try:
        return pickle.loads(b"".join(parts))
    except Exception as error:
        return Unknown(f"not loaded: {type(error).__qualname__}")


def same(a: Any, b: Any) -> bool | None:
    """Whether two values are equal, bit for bit where they have bits; None if that cannot be told."""
    if type(a) is not type(b):
        return _is_copied_class(a, b)
    if isinstance(a, (bool, int, str, bytes, type(None))):
        return bool(a == b)
    if isinstance(a, float):
        return a.hex() == b.hex()
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and _all(map(same, a, b))
    if isinstance(a, dict):
        return len(a) == len(b) and _all(map(same, a.items(), b.items()))
    if hasattr(a, "dtype") and hasattr(a, "tobytes"):
        if a.dtype == object:
            return a.shape == b.shape and same(a.ravel().tolist(), b.ravel().tolist())
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    try:
        if (a == b) is True or prebake.fingerprint(a) == prebake.fingerprint(b):
            return True
    except Exception:
        return None
    return None


def _is_copied_class(a: Any, b: Any) -> bool | None:
    """A class that was sent by value is another class, of the same name."""
    return None if type(a).__qualname__ == type(b).__qualname__ else False


def _all(answers: Any) -> bool | None:
    known = list(answers)
    return False if False in known else None if None in known else True


def cached(function: Callable[..., Any]) -> Callable[..., Any]:
    """`prebake.cached(function)`, each of whose values is compared with what the function gives then."""
    is_generator = inspect.isgeneratorfunction(function)
    try:
        stand_in = prebake.cached(function)
    except prebake.Refused as refused:
        asked.now.asks += 1
        asked.now.refused.append(f"{refused.code} {refused}"[:200])
        return function
    except Exception:
        asked.now.asks += 1
        asked.crash("cached")
        raise

    def call(*args: Any, **kwargs: Any) -> Any:
        asked.now.asks += 1
        expected = compute(_listed(function) if is_generator else function, args, kwargs)
        calls = _Calls(function)
        try:
            with calls:
                value = (_listed(stand_in) if is_generator else stand_in)(*args, **kwargs)
        except Exception as error:
            is_its_own = isinstance(expected, Raised) and expected.name == type(error).__qualname__
            if not is_its_own and not calls.seen:
                asked.crash("a call of cached")
            raise
        if calls.seen or not calls.possible:
            key = f"{id(function)} {args!r} {kwargs!r}"
            if key in asked.now.calls:
                asked.now.refused.append("called again")
            asked.now.calls.add(key)
            return iter(value) if is_generator else value
        asked.now.served += 1
        found = None if isinstance(expected, Unknown) else same(value, expected)
        if found is False:
            served = f"{function!r}{args!r}{kwargs!r}: served {value!r}, computed {expected!r}"
            asked.now.stale.append(served)
        elif found is None:
            why = getattr(expected, "why", "values that cannot be compared")
            asked.now.unknown.append(f"{function!r}: {why}")
        return iter(value) if is_generator else value

    return call


def _listed(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    return lambda *args, **kwargs: list(itertools.islice(function(*args, **kwargs), ELEMENTS_MAX))


def goes_through(function: Any, pickler: Any) -> None:
    """Notes a crash if `prebake.cached(function)` cannot be pickled and loaded where the function can."""
    asked.now.asks += 1
    # A method's object may hold the stand-in that asks this.
    asked.on = False
    try:
        try:
            pickler.loads(pickler.dumps(function))
            made = prebake.cached(function)
        except Exception:
            # What comes of that is noted where the function is called.
            return
        try:
            pickler.loads(pickler.dumps(made))
        except Exception:
            asked.crash(f"cached, through {pickler.__name__}")
    finally:
        asked.on = True


class _Calls:
    """Whether a function of Python is called meanwhile, in this thread. Profilers are Prebake's to watch."""

    def __init__(self, function: Any) -> None:
        inner = function
        while hasattr(inner, "func") and not hasattr(inner, "__code__"):
            inner = inner.func
        if not hasattr(inner, "__code__") and not hasattr(inner, "__func__"):
            inner = type(inner).__call__
        self._code = getattr(inner, "__code__", None)
        self.possible = self._code is not None
        self.seen = False

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        if self.possible:
            sys.settrace(self._event)

    def __exit__(self, *_: Any) -> None:
        sys.settrace(self._before)

    def _event(self, frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is self._code:
            self.seen = True
