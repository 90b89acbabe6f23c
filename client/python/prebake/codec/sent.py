"""Sending objects to another process by value, and which part of one cannot be sent.

`cloudpickle` sends functions and classes of `__main__` by value. What else is known to pickle only by a name
in it must be sent as what it was made of: in the other process `__main__` is another program.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import io
import itertools
import pickle
import re
import struct
import sys
import threading
import types
import typing
import weakref
from collections.abc import Iterator
from typing import Any

from prebake.bytecode import instructions
from prebake.known.marks import Random
from prebake.runtime import packages

#: A search is a few picklings, each of a part of the one before.
TRIES_MAX = 200
DEPTH_MAX = 12
#: What pickles so far is not what fails at once; large arrays are not pickled again and again.
BYTES_MAX = 1 << 24


#: A function's texts are looked through for names of globals if they are no longer; so many are sent.
TEXT_MAX, NAMED_MAX = 1 << 14, 64
_WORD = re.compile(r"[^\W\d]\w*")
#: What `cloudpickle` writes in the place of a file's name.
_NO_FILE = "<dynamic-code>"
#: What a class of compiled code says that its module is, if it was not told.
_UNNAMED = "builtins"
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
#: The decorated functions of `functools.lru_cache`, whose class has no name of its own.
_Memo = type(functools.lru_cache(abs))


def send(objects: Any, out: Any) -> None:
    """Pickles objects into a file. Raises whatever the objects or `pickle` raise."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, Random):
                return Random, (value.function,)
            if type(value) is weakref.WeakKeyDictionary:
                # What `functools.singledispatch` remembers of classes.
                return _by_weak_keys, (list(value.items()),)
            if type(value) in _LOCKS:
                # Nobody waits for it elsewhere.
                return (threading.Lock if type(value) is _LOCKS[0] else threading.RLock), ()
            if type(value) is types.FunctionType:
                return _with_named(super().reducer_override(value), value)
            if type(value) is _Memo and not _is_importable(value):
                return _memo, (value.__wrapped__, value.cache_parameters())
            if type(value) is typing.NewType and not _is_importable(value):
                return typing.NewType, (value.__name__, value.__supertype__)
            if type(value) is struct.Struct:
                return struct.Struct, (value.format,)
            if type(value) is types.ClassMethodDescriptorType:
                return _member, (value.__objclass__, value.__name__)
            if type(value) is types.CodeType:
                return _with_file(self.dispatch_table[types.CodeType](value), value)
            if type(value) is type and value.__module__ == _UNNAMED and "__module__" not in value.__dict__:
                home = _home(value)
                return (_offered, home) if home else super().reducer_override(value)
            return super().reducer_override(value)

    # A spawned worker knows its parent's script as an imported module, by a name that is nothing elsewhere.
    script = sys.modules.get("__mp_main__")
    if script is not None:
        cloudpickle.register_pickle_by_value(script)
    try:
        Pickler(out, pickle.HIGHEST_PROTOCOL).dump(objects)
    finally:
        if script is not None:
            cloudpickle.unregister_pickle_by_value(script)


def _with_file(reduced: Any, code: types.CodeType) -> tuple[Any, ...]:
    """Newer versions of `cloudpickle` send code without the name of its file, by which code of packages is
    told from the user's."""
    kind, given, *more = reduced
    return kind, tuple(code.co_filename if each == _NO_FILE else each for each in given), *more


def _home(cls: type) -> tuple[str, str] | None:
    """The module that offers a class of compiled code which names none itself, and its name there."""
    name = cls.__qualname__
    if getattr(builtins, name, None) is cls:
        return None
    modules = ((home, getattr(module, "__dict__", {})) for home, module in list(sys.modules.items()))
    homes = (home for home, members in modules if members.get(name) is cls)
    return next(((home, name) for home in homes if home not in packages.SCRIPTS), None)


def _offered(home: str, name: str) -> type:
    found: type = getattr(importlib.import_module(home), name)
    return found


def _with_named(reduced: Any, function: types.FunctionType) -> Any:
    """`cloudpickle` sends the globals that a function's code refers to. What it calls may look up others in
    its frame, by texts: `df.query("a > @LIMIT")`."""
    if not isinstance(reduced, tuple):
        # It is found by its name, with its module.
        return reduced
    _, slots = reduced[2]
    held, sent = function.__globals__, slots["__globals__"]
    named = (name for name in _words(function.__code__) if name in held and name not in sent)
    # All of them together are no larger than this takes.
    sink = _Sink()
    sent |= {name: held[name] for name in itertools.islice(named, NAMED_MAX) if _is_data(held[name], sink)}
    return reduced


def _words(code: types.CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _words(constant)
        elif isinstance(constant, str) and len(constant) <= TEXT_MAX:
            yield from dict.fromkeys(_WORD.findall(constant))


def _is_data(value: Any, sink: _Sink) -> bool:
    """Whether a value can be sent without what defines it: a word may name anything by chance."""
    if callable(value) or type(value).__module__ in packages.SCRIPTS:
        return False
    try:
        pickle.Pickler(sink, pickle.HIGHEST_PROTOCOL).dump(value)
    except Exception:
        return False
    return True


def _is_importable(value: Any) -> bool:
    """Whether another process finds it by its module and its name."""
    if value.__module__ in packages.SCRIPTS:
        return False
    # A partial function that is remembered has no name.
    names, found = getattr(value, "__qualname__", "").split("."), sys.modules.get(value.__module__)
    for name in names:
        found = getattr(found, name, None)
    return found is value


def _member(cls: type, name: str) -> Any:
    return vars(cls)[name]


def _by_weak_keys(items: list[tuple[Any, Any]]) -> Any:
    return weakref.WeakKeyDictionary(items)


def _memo(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


class _Enough(Exception):
    pass


class _Sink(io.RawIOBase):
    """Takes so many bytes and forgets them."""

    def __init__(self) -> None:
        self._left = BYTES_MAX

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._left -= memoryview(data).nbytes
        if self._left < 0:
            raise _Enough
        return memoryview(data).nbytes


def why_not_sent(roots: dict[str, Any]) -> str | None:
    """The path and type of the innermost object that cannot be pickled, with the reason; None if none is
    found."""
    tries = [TRIES_MAX]
    for name, root in roots.items():
        why = _error(root, tries)
        if why:
            return _innermost(root, name, why, tries, DEPTH_MAX)
    return None


def _error(value: Any, tries: list[int]) -> str:
    tries[0] -= 1
    if tries[0] < 0:
        return ""
    try:
        send(value, _Sink())
    except _Enough:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _innermost(value: Any, path: str, why: str, tries: list[int], depth: int) -> str:
    for step, part in _parts(value) if depth else ():
        inner = _error(part, tries)
        if inner:
            return _innermost(part, f"{path}{step}", inner, tries, depth - 1)
    return f"{path} is a {type(value).__module__}.{type(value).__qualname__} ({why})"


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (list, tuple)):
        yield from ((f"[{i}]", part) for i, part in enumerate(value))
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, types.MethodType):
        yield "", value.__self__
    elif isinstance(value, functools.partial):
        yield from (("", value.func), (".args", value.args), (".keywords", value.keywords))
    elif isinstance(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                yield f".{name}", cell.cell_contents
            except ValueError:
                continue
        used = sorted(instructions.references(value.__code__).globals & value.__globals__.keys())
        yield from ((f" -> {name}", value.__globals__[name]) for name in used)
    else:
        yield from ((f".{name}", part) for name, part in getattr(value, "__dict__", {}).items())
