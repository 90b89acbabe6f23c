"""Kinds of elements: what a layout tells but for amounts, and in which order one of each is compared."""

from __future__ import annotations

import random

import numpy as np
import pytest

from prebake.codec import values
from prebake.trial import kinds


def kind(value: object) -> str:
    return kinds.of_layout(values.encode(value).layout)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        ("a", "bcd"),
        ([1, 2], [3, 4, 5]),
        (np.zeros((3, 4)), np.ones((5, 6))),
        ({"a": [1.5]}, {"a": [2.5, 3.5]}),
    ],
)
def test_amounts_make_no_other_kind(one: object, other: object) -> None:
    assert kind(one) == kind(other)


def test_types_and_names_do() -> None:
    some = [1, True, None, 1.0, "a", b"a", [1], (1,), [1, "a"], {"a": 1}, {"b": 1}]
    some += [np.zeros(3), np.zeros(3, np.float32)]
    found = [kind(each) for each in some]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("seed", range(50))
def test_one_of_each_kind_comes_first_the_rarest_before_all(seed: int) -> None:
    numbers = random.Random(seed)
    some = [values.encode(numbers.choice([1, "a", 2.0, None, 1, 1, 1])).layout for _ in range(40)]
    indices = numbers.sample(range(40), 40)
    ordered = kinds.rarest_first(indices, lambda asked: [some[i] for i in asked])
    assert sorted(ordered) == list(range(40))
    known = [kinds.of_layout(some[i]) for i in ordered]
    count = len(set(known))
    assert len(set(known[:count])) == count
    rarity = [known.count(each) for each in known[:count]]
    assert rarity == sorted(rarity)
    assert kinds.rarest_first(indices, lambda asked: None) == indices
