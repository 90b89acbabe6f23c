"""Generators that code makes from a seed: what they draw is known where the seed is one."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import prebake
from prebake.identity.code import identify
from prebake.runtime.errors import Code


def by_parameter(seed: Any) -> Any:
    return random.Random(seed).random(), np.random.default_rng(seed).random()


def by_keyword(count: int, *, seed: Any = None) -> Any:
    return np.random.RandomState(seed=seed).permutation(count)


def rebinds(seed: Any) -> Any:
    if seed == 3:
        seed = None
    return random.Random(seed).random()


def asks_another(seed: Any) -> Any:
    return by_parameter(None)


def of_many(*seed: Any) -> Any:
    return random.Random(seed).random()


CALLS: list[tuple[Callable[..., Any], dict[str, Any], bool]] = [
    (by_parameter, {"seed": 3}, True),
    (by_parameter, {"seed": "three"}, True),
    (by_parameter, {"seed": None}, False),
    (by_parameter, {}, False),
    (by_keyword, {"count": 3, "seed": 0}, True),
    (by_keyword, {"count": 3, "seed": None}, False),
    (rebinds, {"seed": 3}, False),
    (asks_another, {"seed": 3}, False),
    (of_many, {"seed": ()}, False),
]


@pytest.mark.parametrize(("function", "arguments", "known"), CALLS)
def test_an_argument_is_a_seed_where_it_is_there(
    function: Callable[..., Any], arguments: dict[str, Any], known: bool
) -> None:
    if known:
        # Which one it is, is no part of the function's identity.
        other = {name: 5 for name in arguments}
        assert identify(function, arguments=arguments).digest == identify(function, arguments=other).digest
        return
    with pytest.raises(prebake.Refused) as refused:
        identify(function, arguments=arguments)
    assert refused.value.code == Code.RANDOM


class Noisy:
    fallback: Any = None

    def __init__(self, seed: Any) -> None:
        self.seed = seed

    def __getitem__(self, i: int) -> Any:
        return np.random.default_rng(self.seed).random(), i


class ByClass(Noisy):
    def __getitem__(self, i: int) -> Any:
        return random.Random(self.fallback).random()


class Fixed(ByClass):
    fallback = 4


class Asked(Noisy):
    @property
    def fallback(self) -> Any:  # type: ignore[override]
        return None

    def __getitem__(self, i: int) -> Any:
        return random.Random(self.fallback).random()


@dataclasses.dataclass(frozen=True)
class Frozen:
    seed: Any

    def __getitem__(self, i: int) -> Any:
        return random.Random(self.seed).random()


@dataclasses.dataclass(slots=True)
class Slotted:
    seed: Any

    def __getitem__(self, i: int) -> Any:
        return random.Random(self.seed).random()


def makes_its_own(x: Any) -> Any:
    return Noisy(None)[x]


@pytest.mark.parametrize(
    ("value", "known"),
    [
        (Noisy(3), True),
        (Noisy(None), False),
        (ByClass(3), False),
        (Fixed(3), False),
        (Asked(3), False),
        (Frozen(3), True),
        (Frozen(None), False),
        (Slotted(3), True),
        (Slotted(None), False),
        ([Noisy(3), Noisy(None)], False),
        (makes_its_own, False),
    ],
)
def test_an_attribute_is_a_seed_where_it_has_a_value(value: Any, known: bool) -> None:
    if known:
        identify(value)
        return
    with pytest.raises(prebake.Refused) as refused:
        identify(value)
    assert refused.value.code == Code.RANDOM


#: A helper that seeds a generator from its parameter, and `made`, which is called with `n` and `seed=3`.
HELPER = """
import dataclasses, enum, functools, operator, random
def draw(count, seed=None):
    return random.Random(seed).sample(range(100), count)
def again(count, seed):
    return draw(count, seed)
class Noise:
    def __init__(self, seed=None):
        self.numbers = random.Random(seed)
    def draw_one(self, seed=None):
        return random.Random(seed).random()
    @staticmethod
    def drawn(seed=None):
        return random.Random(seed).random()
noise = Noise
def sample(count, seed=5):
    return random.Random(seed).sample(range(100), count)
class Holder:
    def __init__(self, draw):
        self.draw = draw
holder = Holder(draw)
class Alike(Noise):
    @classmethod
    def like(cls):
        return cls()
def rebound(seed):
    def other():
        nonlocal seed
        seed = None
    other()
    return random.Random(seed).random()
class Renamed:
    f = staticmethod(draw)
KINDS = {"noise": Noise}
def made_of(kind=Noise):
    return kind().numbers.random()
def closed(seed):
    def draws(n):
        return random.Random(seed).sample(range(100), n)
    return draws
class Drawn:
    def __init__(self, seed):
        self.by = seed
    def draw_of(self):
        return random.Random(self.by).random()
members = {Drawn(None)}
class Members(enum.Enum):
    A = (None,)
    def __init__(self, seed):
        self.by = seed
    def draw_of(self):
        return random.Random(self.by).random()
class Splitter:
    def __init__(self, seed=None):
        self.splits = seed
    def folds(self, n):
        return random.Random(self.splits).sample(range(100), n)
@dataclasses.dataclass
class Sampler:
    count: int
    by: int = None
    def draw(self):
        return random.Random(self.by).sample(range(100), self.count)
"""
GIVEN = {
    "a constant": "draw(n, 7)",
    "a keyword": "draw(n, seed=7)",
    "its own argument": "draw(n, seed)",
    "a sum": "draw(n, n + 1)",
    "two calls": "draw(n, 7), draw(n, seed=8)",
    "by another": "again(n, 7)",
    "by another, its own": "again(n, seed)",
    "a default": "sample(n)",
    "an object": "Noise(7).numbers.random()",
    "an object's method": "held.draw_one(7)",
}
LEFT_OUT = {
    "nothing": "draw(n)",
    "None": "draw(n, None)",
    "one call of two": "draw(n, 7), draw(n)",
    "None by another": "again(n, None)",
    "unpacked": "draw(*[n, None])",
    "unpacked names": "draw(n, **{'seed': None})",
    "a partial": "functools.partial(draw, n)()",
    "a mapped one": "draw(n, 7), list(map(draw, [n]))",
    "a table": "draw(n, 7), TABLE['draw'](n)",
    "a variable": "(lambda f: f(n))(draw), draw(n, 7)",
    "a local one": "(local := draw)(n), draw(n, 7)",
    "a default": "draw(n, 7), other(n)",
    "an object's field": "draw(n, 7), Holder(draw).draw(n)",
    "a field of an object that is there": "draw(n, 7), holder.draw(n)",
    "an object": "Noise().numbers.random()",
    "an object of another name": "Noise(7).numbers.random(), [noise][0]().numbers.random()",
    "an object's method": "held.draw_one()",
    "an object's method, taken": "held.draw_one(7), list(map(held.draw_one, [None]))",
    "a function of a class": "Noise.draw_one(held)",
    "a static one": "Noise.drawn()",
    "an object that is made": "Splitter().folds(n)",
    "an object that is made, one of two": "Splitter(7).folds(n), Splitter(None).folds(n)",
    "an object that is changed": "(made := Splitter(7), setattr(made, 'splits', None), made.folds(n))[2]",
    "an object of a dataclass": "Sampler(n).draw()",
    "a dataclass, unpacked": "Sampler(**{'count': n}).draw()",
    "a copy that is changed": "dataclasses.replace(Sampler(n, 7), by=None).draw()",
    "rebound by a function in it": "rebound(3)",
    "by its call": "draw(n, 7), draw.__call__(n)",
    "by another name of a class": "draw(n, 7), Renamed.f(n)",
    "its class": "Noise(7).numbers.random(), Alike.like().numbers.random()",
    "a class in a table": "Noise(7).numbers.random(), KINDS['noise']().numbers.random()",
    "a class by default": "Noise(7).numbers.random(), made_of()",
    "two of one code": "closed(None)(n), closed(7)(n)",
    "what draws in a set": "max(each.draw_of() for each in members), held.draw_one(7)",
    "a member": "Members.A.draw_of()",
    "seeded with nothing": "(r := random.Random(3), r.seed(None), r.random())[2]",
    "by a name in a text": "held.draw_one(7), getattr(held, 'draw_one')()",
    "by a computed name": "held.draw_one(7), getattr(held, 'draw%s' % '_one')()",
    "by what gets attributes": "held.draw_one(7), operator.methodcaller('draw_one')(held)",
}


def drawing(call: str) -> Any:
    program = f"{HELPER}\nTABLE = {{'draw': draw}}\nheld = Noise.__new__(Noise)\nheld.of = 1\n"
    program += "def other(n, by=draw):\n    return by(n)\n"
    program += f"def made(n, seed):\n    return {call}\n"
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(program, "main.py", "exec"), space)
    return space["made"]


@pytest.mark.parametrize("way", GIVEN)
def test_a_helper_is_given_its_seed(way: str) -> None:
    function = drawing(GIVEN[way])
    assert function(2, 3) == function(2, 3)
    identify(function, arguments={"n": 2, "seed": 3})


@pytest.mark.parametrize("way", LEFT_OUT)
def test_a_helper_that_may_not_be_given_a_seed_draws(way: str) -> None:
    function = drawing(LEFT_OUT[way])
    assert function(2, 3) != function(2, 3)
    with pytest.raises(prebake.Refused) as refused:
        identify(function, arguments={"n": 2, "seed": 3})
    assert refused.value.code == Code.RANDOM
