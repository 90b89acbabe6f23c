"""What takes its order from a set is refused; what only asks a set is not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

import prebake

WORDS = {"alpha", "beta", "gamma", "delta"}
BY_KIND = {"greek": {"alpha", "beta", "gamma"}}
LISTED = ["alpha", "beta"]


class Held:
    words = {"alpha", "beta", "gamma"}  # noqa: RUF012

    def __call__(self, text: str) -> Any:
        return [text.count(word) for word in self.words]


class Asked:
    words = {"alpha", "beta", "gamma"}  # noqa: RUF012

    def __call__(self, text: str) -> Any:
        return [word for word in text.split() if word in self.words]


class Split:
    def tokens(self, text: str) -> Any:
        return set(text.split())

    def __call__(self, text: str) -> Any:
        return list(self.tokens(text))


@dataclass
class Vocabulary:
    words: set[str]


VOCABULARY = Vocabulary({"alpha", "beta", "gamma"})


def numbered(words: Any) -> Any:
    return {word: i for i, word in enumerate(words)}


def contains(word: str, words: Any) -> bool:
    return word in words


def stop_words() -> Any:
    return {"alpha", "beta", "gamma"}


def of_class(text: str) -> Any:
    return list(Held.words)


def of_field(text: str) -> Any:
    return [*VOCABULARY.words]


def in_helper(text: str) -> Any:
    return numbered(WORDS)


def from_helper(text: str) -> Any:
    return [text.count(word) for word in stop_words()]


def bound_again(text: str) -> Any:
    words = set(text.split())
    words = words - {"alpha"}
    return list(words)


def added_to(text: str) -> Any:
    words: set[str] = set()
    words |= set(text.split())
    return list(words)


def one_of_two(text: str, unique: bool) -> Any:
    words: Any = text.split()
    if unique:
        words = set(words)
    return list(words)


def by_default(text: str, words: Any = frozenset({"alpha", "beta", "gamma"})) -> Any:
    return [text.count(word) for word in words]


def under_key(text: str) -> Any:
    return list(BY_KIND["greek"])


def tied_by_count(text: str) -> Any:
    words = text.split()
    return max(set(words), key=words.count)


def tied_by_lambda(words: Any, counts: Any) -> Any:
    return sorted(set(words), key=lambda word: -counts[word])


def tied_by_value(counts: Any) -> Any:
    return sorted(set(counts), key=counts.get, reverse=True)


def tied_by_part(words: Any) -> Any:
    return sorted(set(words), key=lambda word: (word[0], 1))


def tied_on_one_way(words: Any, first: bool) -> Any:
    return sorted(set(words), key=lambda word: (0, word[0]) if first else (1, word))


def lowered(word: Any) -> Any:
    word = word.lower()
    return 0, word


def tied_by_function(words: Any) -> Any:
    return sorted(set(words), key=lowered)


def counted(words: Any) -> Any:
    return Counter(set(words)).most_common(2)


@pytest.mark.parametrize(
    "target",
    [
        Held(),
        Split(),
        of_class,
        of_field,
        in_helper,
        from_helper,
        bound_again,
        added_to,
        one_of_two,
        by_default,
        under_key,
        tied_by_count,
        tied_by_lambda,
        tied_by_value,
        tied_by_part,
        tied_on_one_way,
        tied_by_function,
        counted,
    ],
)
def test_the_order_of_a_set_is_refused(target: Any) -> None:
    with pytest.raises(prebake.Refused, match="order of (a|the) set") as refused:
        prebake.fingerprint(target)
    assert refused.value.code == "R33"


def untied_last(words: Any, counts: Any) -> Any:
    return sorted(set(words), key=lambda word: (-counts[word], word))


def by_text(words: Any) -> Any:
    return sorted(set(words), key=str)


def tied_in_a_list(words: Any) -> Any:
    return sorted(words, key=len), max(words, key=lambda word: word[0])


def asked_by_helper(text: str) -> Any:
    return [word for word in text.split() if contains(word, WORDS)]


def sorted_when_bound_again(text: str) -> Any:
    words = set(text.split())
    words = sorted(words)
    return list(words)


def sorted_in_place(text: str) -> Any:
    words = set(text.split())
    words = list(words)
    words.sort()
    return words


def kept_unique(words: Any) -> Any:
    seen: set[str] = set()
    found = []
    for word in words:
        if word not in seen:
            seen.add(word)
            found.append(word)
    return found


def told_in_an_error(word: str) -> Any:
    if word not in WORDS:
        raise ValueError(f"{word} is none of {WORDS}")
    return word


def a_list_in_helper(words: Any) -> Any:
    return numbered(LISTED), numbered(sorted(set(words)))


@pytest.mark.parametrize(
    "target",
    [
        Asked(),
        untied_last,
        by_text,
        tied_in_a_list,
        asked_by_helper,
        sorted_when_bound_again,
        sorted_in_place,
        kept_unique,
        told_in_an_error,
        a_list_in_helper,
    ],
)
def test_a_set_that_gives_no_order_is_not(target: Any) -> None:
    assert len(prebake.fingerprint(target)) == 64
