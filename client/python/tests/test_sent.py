"""What is sent to another process arrives there as what it was."""

import functools
import io
import pickle
import re
import struct
import types
import typing
from typing import Any

import pytest

from prebake.codec.sent import send
from prebake.identity.code import HANDLERS, identify

arrow = pytest.importorskip("pyarrow.lib")

#: Compiled code often does not tell its classes their module: pickle takes them for Python's own, in vain.
COMPILED = [arrow.MonthDayNano]


@pytest.mark.parametrize("cls", COMPILED)
def test_a_class_that_names_no_module_is_found_where_it_is_offered(cls: type) -> None:
    assert cls.__module__ == "builtins"
    sent = io.BytesIO()
    send(cls, sent)
    assert pickle.loads(sent.getvalue()) is cls


class _Some:
    @property
    def a(self) -> int:
        return 1

    @functools.cached_property
    def b(self) -> int:
        return 2

    @functools.singledispatchmethod
    def by_type(self, value: object) -> int:
        return 3

    def method(self) -> int:
        return 4

    by_part = functools.partialmethod(by_type.func, 1)
    __slots__ = ("__dict__", "member")


def _each() -> list[Any]:
    """One of each type that an identity is made of by what it is."""
    kept = 1

    def function() -> int:
        return kept

    assert function.__closure__

    members = ("a", "b", "by_type", "by_part", "member")
    return [
        *(vars(_Some)[name] for name in members),
        *(None, True, 1, 1.5, 2j, "a", b"a", bytearray(b"a"), (1,), [1], {1}, frozenset({1}), {1: 2}, ...),
        *(range(3), slice(1, 2), function, function.__code__, function.__closure__[0], _Some().method, len),
        *(str.upper, str.__add__, vars(int)["from_bytes"], types.FunctionType.__code__, "a".__add__),
        *(types.MappingProxyType({1: 2}), functools.partial(len), int | str, staticmethod(len)),
        *(classmethod(function), functools.lru_cache(function), typing.NewType("New", int)),
        *(struct.Struct("<i"), re.compile("a"), functools.lru_cache(functools.partial(function))),
    ]


@pytest.mark.parametrize("value", _each(), ids=lambda value: type(value).__name__)
def test_what_has_an_identity_can_be_sent(value: Any) -> None:
    """Else it would be proven nowhere."""
    known = identify(value)
    sent = io.BytesIO()
    send(value, sent)
    assert identify(pickle.loads(sent.getvalue())).digest == known.digest


def test_no_type_is_left_out() -> None:
    assert set(HANDLERS) - set(map(type, _each())) == set()


def test_what_a_text_names_is_sent() -> None:
    """What is called may look it up in its caller's frame. What cannot be sent is not needed by its name."""
    held: dict[str, Any] = {"__name__": "__main__", "LIMIT": 2, "lines": (line for line in "ab")}
    exec("def f():\n    'Of lines.'\n    return eval('LIMIT + 1')", held)
    sent = io.BytesIO()
    send(held["f"], sent)
    assert pickle.loads(sent.getvalue())() == 3
