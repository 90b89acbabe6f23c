"""The clients of object stores whose reads are heard of: botocore (boto3) and aiobotocore (s3fs, fsspec).

Their calls are wrapped where they are defined, when a record is first made or when they are imported later.
Inside, what they open and connect to is their own business (settings, certificates, sockets); what they got
is noted with the etag of the answer. Anything but getting an object stays what it is: the network.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import importlib.abc
import importlib.util
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

#: Whether the running task or thread is inside of such a client.
inside: contextvars.ContextVar[bool] = contextvars.ContextVar("prebake_inside", default=False)
#: Calls of the asynchronous clients under way: names are looked up for them in threads that know of nothing.
awaited = 0
_lock = threading.Lock()

#: Calls that get an object, and those that tell nothing of what is in one.
READS = frozenset({"GetObject", "HeadObject"})
HARMLESS = frozenset({"GetBucketLocation", "HeadBucket", "CreateSession"})

#: Methods that make clients, and those that make their calls.
MAKERS = {
    "botocore.session": ("Session", ("__init__", "create_client", "get_available_regions")),
    "boto3.session": ("Session", ("__init__", "client", "resource")),
    "aiobotocore.session": ("AioSession", ("_create_client",)),
}
CALLERS = {"botocore.client": "BaseClient", "aiobotocore.client": "AioBaseClient"}

Note = Callable[[Any, str, dict[str, Any], Any], None]


def listen(note: Note) -> None:
    """Has `note(client, operation, parameters, answer)` called after each call; an answer of None is an
    error. It is called in the thread or task that made the call.
    """
    for name in (*MAKERS, *CALLERS):
        if name in sys.modules:
            _wrap(sys.modules[name], note)
    sys.meta_path.insert(0, _Finder(note))


class _Finder(importlib.abc.MetaPathFinder):
    """Wraps the modules as they are imported."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._own = threading.local()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in MAKERS and name not in CALLERS or getattr(self._own, "busy", False):
            return None
        self._own.busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._own.busy = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def wrapped(module: Any) -> None:
                execute(module)
                _wrap(module, self._note)

            spec.loader.exec_module = wrapped  # type: ignore[method-assign]
        return spec


def _wrap(module: Any, note: Note) -> None:
    name = module.__name__
    if name in MAKERS:
        cls, methods = MAKERS[name]
        for method in methods:
            _replace(getattr(module, cls), method, lambda function: _made(function))
    if name in CALLERS:
        _replace(getattr(module, CALLERS[name]), "_make_api_call", lambda function: _called(function, note))


def _replace(cls: type, name: str, wrap: Callable[[Any], Any]) -> None:
    function = vars(cls).get(name)
    if function is not None and not hasattr(function, "__prebake__"):
        wrapped: Any = functools.wraps(function)(wrap(function))
        wrapped.__prebake__ = True
        setattr(cls, name, wrapped)


@contextlib.contextmanager
def own() -> Iterator[None]:
    """Makes what happens meanwhile the client's own."""
    token = inside.set(True)
    try:
        yield
    finally:
        inside.reset(token)


@contextlib.contextmanager
def _awaiting() -> Iterator[None]:
    global awaited
    with _lock:
        awaited += 1
    try:
        with own():
            yield
    finally:
        with _lock:
            awaited -= 1


def _made(function: Any) -> Any:
    if inspect.iscoroutinefunction(function):

        async def create(*args: Any, **kwargs: Any) -> Any:
            with _awaiting():
                return await function(*args, **kwargs)

        return create

    def make(*args: Any, **kwargs: Any) -> Any:
        with own():
            return function(*args, **kwargs)

    return make


def _called(function: Any, note: Note) -> Any:
    if inspect.iscoroutinefunction(function):

        async def wait(self: Any, operation: str, parameters: Any) -> Any:
            answer = None
            try:
                with _awaiting():
                    answer = await function(self, operation, parameters)
                return answer
            finally:
                note(self, operation, parameters, answer)

        return wait

    def call(self: Any, operation: str, parameters: Any) -> Any:
        answer = None
        try:
            with own():
                answer = function(self, operation, parameters)
            return answer
        finally:
            note(self, operation, parameters, answer)

    return call
