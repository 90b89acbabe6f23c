"""Odd and hostile objects: each ends in bounded time, with an identity or a refusal."""

from __future__ import annotations

import functools
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from conftest import Run

import prebake


class Node:
    pass


def test_objects_in_circles_end() -> None:
    a, b = Node(), Node()
    a.next, b.next, a.own = b, a, [a, {"b": b}]
    assert prebake.fingerprint(a) == prebake.fingerprint(a)
    c, d = Node(), Node()
    c.next, d.next, c.own = d, c, [c, {"b": c}]
    assert prebake.fingerprint(a) != prebake.fingerprint(c)


def dense(count: int, last: int) -> Node:
    nodes = [Node() for _ in range(count)]
    for i, node in enumerate(nodes):
        node.after = nodes[i + 1 :]
    nodes[-1].value = last
    return nodes[0]


def test_three_hundred_objects_that_all_know_each_other() -> None:
    assert prebake.fingerprint(dense(300, 1)) == prebake.fingerprint(dense(300, 1))
    assert prebake.fingerprint(dense(300, 1)) != prebake.fingerprint(dense(300, 2))


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_containers_with_two_to_the_hundredth_paths(kind: Any) -> None:
    def diamond(bottom: int) -> Any:
        made: Any = [bottom] * 4
        for _ in range(100):
            made = {"l": made, "r": made} if kind is dict else kind([made, made])
        return made

    assert prebake.fingerprint(diamond(1)) == prebake.fingerprint(diamond(1))
    assert prebake.fingerprint(diamond(1)) != prebake.fingerprint(diamond(2))


def test_a_shared_container_is_what_equal_ones_are() -> None:
    for size in (1, 10, 50, 63, 64, 65, 1000, 5000):
        one = [float(i) for i in range(size)]
        assert prebake.fingerprint([one, one, Path("a")]) == prebake.fingerprint(
            [list(one), list(one), Path("a")]
        )
        assert prebake.fingerprint([one, one]) != prebake.fingerprint([one, [*one[:-1], -1.0]])


def test_objects_with_two_to_the_fiftieth_paths() -> None:
    made = Node()
    for _ in range(50):
        above = Node()
        above.left = above.right = made
        made = above
    assert prebake.fingerprint(made) == prebake.fingerprint(made)


class Raises:
    def __init__(self, name: str) -> None:
        def method(*_: Any) -> Any:
            raise RuntimeError(name)

        self.__class__ = type("Raises", (), {name: method})  # type: ignore[assignment]


@pytest.mark.parametrize(
    "name",
    [
        "__reduce__",
        "__reduce_ex__",
        "__getstate__",
        "__getattr__",
        "__eq__",
        "__hash__",
        "__repr__",
        "__bool__",
    ],
)
def test_what_raises_when_looked_at_is_refused_or_known(name: str) -> None:
    try:
        assert len(prebake.fingerprint([Raises(name)])) == 64
    except prebake.Refused as refused:
        assert refused.code == "R31"


def test_deep_nesting_is_refused() -> None:
    deep: Any = Node()
    for _ in range(100_000):
        above = Node()
        above.below, deep = deep, above
    with pytest.raises(prebake.Refused) as refused:
        prebake.fingerprint(deep)
    assert refused.value.code == "R35"
    assert len(str(refused.value)) < 1000
    while hasattr(deep, "below"):
        # Taken apart by hand: the interpreter frees a chain by recursion.
        deep = deep.__dict__.pop("below")


@pytest.mark.parametrize("body", ["return getattr(self, name + 'x')", "return self.missing"])
@pytest.mark.parametrize("method", ["__getattr__", "__getattribute__"])
def test_an_argument_that_looks_itself_up_without_end_ends_no_process(
    script: Run, body: str, method: str
) -> None:
    lines = f"""
        import prebake

        class Odd:
            def {method}(self, name):
                {body}

        deep = Odd()
        for _ in range(300):
            deep = [deep]
        for argument in (Odd(), deep):
            try:
                prebake.fingerprint(argument)
            except prebake.Refused as refused:
                assert refused.code == "R35"
        print("went on")
        """
    # In a process of its own: at a raised limit it used up the machine's stack.
    assert script(textwrap.dedent(lines)) == "went on"


def test_what_is_nested_beyond_the_recursion_limit_is_known() -> None:
    def chain(last: int) -> Any:
        made: Any = last
        for _ in range(sys.getrecursionlimit()):
            made = functools.partial(max, made)
        return made

    limit = sys.getrecursionlimit()
    assert prebake.fingerprint(chain(1)) == prebake.fingerprint(chain(1)) != prebake.fingerprint(chain(2))
    assert sys.getrecursionlimit() == limit


def test_huge_numbers_and_odd_text_are_values() -> None:
    values = [1 << 10_000_000, -(1 << 10_000_000), "\ud800", "\udfff", "\x00", b"\xff", "é", "e\u0301"]
    assert len({prebake.fingerprint(value) for value in values}) == len(values)
    large = [["x"] * 100 + [value] for value in values]
    assert len({prebake.fingerprint(value) for value in large}) == len(values)


def test_paths_that_are_no_text_are_values(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    names = [os.path.join(folder, name) for name in (b"\xff.jpg", b"\xfe.jpg")]
    for name in names:
        with open(name, "wb"):
            pass
    paths = [Path(os.fsdecode(name)) for name in names]
    assert len({prebake.fingerprint(path) for path in paths}) == 2
    assert len({prebake.fingerprint([str(path)] * 100) for path in paths}) == 2


def test_too_many_objects_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from prebake.encoding import encoder

    monkeypatch.setattr(encoder, "VALUES_MAX", 1000)
    with pytest.raises(prebake.Refused) as refused:
        prebake.fingerprint([Node() for _ in range(2000)])
    assert refused.value.code == "R35"
    # Numbers and text do not count: they are walked natively.
    assert prebake.fingerprint([(f"{i}.jpg", i) for i in range(100_000)])
