"""Generators that code makes from a seed: what they draw is known where the seed is one."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import prebake
from prebake.code import identify
from prebake.errors import Code


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
        (Fixed(3), True),
        (Asked(3), False),
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
