"""What callers may do with a wrapped data set or a cached function, they may as without."""

import copy
import functools
import gc
import os
import random
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest

import prebake
from prebake.trial import trial
from prebake.trial.given import Arguments
from prebake.watched.function_call import FunctionCall

COUNT = 8
#: Of a cached function: long enough to be drawn beside, and short.
LOOPS = 300_000
#: A caught error is one of this item's.
BAD = 5

pytestmark = [
    pytest.mark.usefixtures("connected"),
    pytest.mark.filterwarnings("ignore::prebake.PrebakeWarning"),
]


def load(path: str) -> np.ndarray:
    return np.array([float(len(path)) + float(os.path.basename(path)[:3])] * 3)


def shaken(x: np.ndarray) -> np.ndarray:
    x += np.random.rand()
    return x


def doubled(x: np.ndarray) -> np.ndarray:
    return x * 2


def tripled(x: np.ndarray) -> np.ndarray:
    return x * 3


class Files:
    def __init__(self, files: list[str], transform: Callable[[Any], Any]) -> None:
        self.files = files[:COUNT]
        self.transform = transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> Any:
        return self.transform(load(self.files[i]))


class Broken(Files):
    def __getitem__(self, i: int) -> Any:
        if i == BAD:
            raise ValueError("broken")
        return super().__getitem__(i)


class Batched(Files):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[i] + 100 * len(indices) for i in indices]


def batch(dataset: Any, indices: list[int]) -> Any:
    """As a loader takes it; None if it raises, which the job goes on after."""
    try:
        many = getattr(dataset, "__getitems__", None)
        found = many(indices) if many is not None else [dataset[i] for i in indices]
        return [x.tolist() for x in found]
    except ValueError:
        return None


@pytest.mark.parametrize("kind", [Files, Broken, Batched])
def test_batches_are_what_they_are_without(texts: list[str], kind: type[Files]) -> None:
    """Items that occur twice, steps that work in place, errors that are caught: values and generators."""
    batches = [[3, 3, 4, 3], [0, BAD, 6], [6, 7, 7], [BAD], [1, 2]]
    seen = []
    for dataset in (kind(texts, shaken), *(prebake.wrap(kind(texts, shaken)) for _ in range(2))):
        np.random.seed(1)
        seen.append([[batch(dataset, each) for each in batches], np.random.rand()])
    assert seen[0] == seen[1] == seen[2]


def test_each_element_is_its_own(texts: list[str]) -> None:
    dataset = prebake.wrap(Files(texts, doubled))
    for _ in range(2):
        first, second = dataset.__getitems__([3, 3])
        first += 1
        assert (first - second).tolist() == [1.0] * 3


def test_a_copy_is_of_what_is_wrapped(texts: list[str]) -> None:
    dataset = prebake.wrap(Files(texts, doubled))
    other = copy.copy(dataset)
    other.transform, other.files = tripled, other.files[4:]
    assert (len(dataset), len(other)) == (COUNT, COUNT - 4)
    for each, plain in ((dataset, Files(texts, doubled)), (other, Files(texts[4:], tripled))):
        assert [x.tolist() for x in each.__getitems__(range(4))] == [plain[i].tolist() for i in range(4)]
    assert other.stats()["computed"] == 4


def test_an_attribute_can_be_deleted(texts: list[str]) -> None:
    dataset = prebake.wrap(Files(texts, doubled))
    dataset.extra = 1
    del dataset.extra
    assert not hasattr(dataset, "extra")


@prebake.cached
def slow(n: int) -> int:
    total = 0
    for i in range(LOOPS):
        total += i * n
    return total


class Slow:
    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, i: int) -> int:
        total = 0
        for k in range(LOOPS):
            total += k * i
        if i == BAD:
            raise ValueError("broken")
        return total


@pytest.mark.parametrize("kind", ["function", "dataset"])
def test_another_thread_draws_what_it_would(kind: str) -> None:
    dataset, ended, drawn = prebake.wrap(Slow()), threading.Event(), []

    def work() -> None:
        try:
            for i in range(BAD):
                assert (slow(i) if kind == "function" else dataset[i]) == Slow()[i]
        finally:
            ended.set()

    thread = threading.Thread(target=work)
    random.seed(1)
    thread.start()
    while not ended.is_set():
        drawn.append(random.random())
    thread.join()
    expected = random.Random(1)
    assert drawn == [expected.random() for _ in drawn]


@prebake.cached
def appended(items: list[int], value: int) -> int:
    items.append(value)
    return len(items)


def test_a_function_that_changes_its_arguments_is_called_each_time() -> None:
    for _ in range(2):
        items = [1]
        assert appended(items, 5) == 2 and items == [1, 5]


class Words:
    """Keeps what it made of a word."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}

    def of(self, word: str) -> str:
        if word not in self.made:
            self.made[word] = word[::-1]
        return self.made[word]


words = Words()


@prebake.cached
def turned(text: str) -> list[str]:
    return [words.of(word) for word in text.split()]


def test_a_function_that_fills_a_table_is_called_each_time_and_that_is_said() -> None:
    with pytest.warns(prebake.PrebakeWarning, match=r"R25 turned: .*words\.made.* changes while it runs"):
        assert turned("one two") == ["eno", "owt"]
    assert turned("two three") == ["owt", "eerht"] and list(words.made) == ["one", "two", "three"]


@prebake.cached
def summed(x: np.ndarray) -> float:
    return float(x.sum())


@prebake.cached
def settled(x: np.ndarray, looks: int) -> float:
    for _ in range(looks):
        if x[0] != 1.0:
            break
    return float(x.sum())


def test_what_was_made_of_a_buffer_refilled_meanwhile_is_not_stored() -> None:
    buffer, looks = np.ones(4), 10 * LOOPS
    refill = threading.Timer(0.05, lambda: buffer.__setitem__(0, 100.0))
    refill.start()
    assert settled(buffer, looks) == 103.0
    refill.join()
    assert settled(np.ones(4), looks) == 4.0


@pytest.mark.parametrize("is_before", [False, True])
@pytest.mark.parametrize("looks", [(FunctionCall, "_given"), (Arguments, "remember")])
def test_whenever_a_buffer_is_refilled_what_was_made_of_it_is_not_stored(
    looks: tuple[type, str], is_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, name = looks
    look, buffer, is_refilled = getattr(of, name), np.ones(4), [True]

    def refill(self: Any) -> Any:
        if is_before and is_refilled:
            buffer[:] = 9
        found = look(self)
        if is_refilled:
            buffer[:] = 9
        return found

    monkeypatch.setattr(of, name, refill)
    summed(buffer)
    is_refilled.clear()
    # It was run again in another process by then, and is believed if that made the same.
    trial._wait_for_begun()
    assert summed(np.ones(4)) == 4


@pytest.mark.parametrize("layout", ["reversed", "gaps"])
def test_an_array_with_gaps_is_another(layout: str) -> None:
    plain = np.arange(12.0).reshape(3, 4)
    if layout == "reversed":
        other = np.ascontiguousarray(plain[:, ::-1])[:, ::-1]
    else:
        other = np.empty((3, 8))[:, ::2]
        other[...] = plain
    assert np.array_equal(plain, other)
    assert prebake.fingerprint(plain) != prebake.fingerprint(other)
    assert prebake.fingerprint(plain) == prebake.fingerprint(plain.copy())


@prebake.cached
def totals(items: list[int]) -> Iterator[int]:
    total = 0
    for each in items:
        total += each
        yield total
    return total  # noqa: B901


@prebake.cached
def halves(items: list[int]) -> Iterator[float]:
    for each in items:
        yield each / 2


def test_a_generator_is_one() -> None:
    def outer() -> Iterator[Any]:
        yield (yield from totals([1, 2, 3]))

    for _ in range(2):
        assert list(outer()) == [1, 3, 6, 6]
        sent = halves([1, 2, 3])
        assert (next(sent), sent.send(7)) == (0.5, 1.0)
        items = [1, 2]
        later = halves(items)
        items.append(4)
        assert list(later) == [0.5, 1.0, 2.0]


def parts(items: list[int], by: int) -> Iterator[float]:
    for each in items:
        yield each / by


def test_a_generator_with_some_of_its_arguments_is_one() -> None:
    quarters = prebake.cached(functools.partial(parts, by=4))
    assert [list(quarters([1, 2])) for _ in range(2)] == [[0.25, 0.5]] * 2


class Named:
    """Yields one of its own lists at its end."""

    def __init__(self) -> None:
        self.names = ["a", "b"]

    def __iter__(self) -> Iterator[Any]:
        yield from range(20)
        yield {"names": self.names}


def test_a_stream_yields_its_own_lists_as_they_are() -> None:
    stream = prebake.wrap(Named())
    for _ in range(2):
        last = list(stream)[-1]
        assert last == {"names": ["a", "b"]} and type(last["names"]) is list
    other = copy.copy(stream)
    other.names = ["c"]
    assert list(other)[-1] == {"names": ["c"]} and list(stream)[-1] == {"names": ["a", "b"]}


class Odd(Files):
    """Does more than data sets do."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __contains__(self, path: object) -> bool:
        return path in self.files

    def __call__(self, i: int) -> str:
        return self.files[i]

    def __enter__(self) -> "Odd":
        self.entered = True
        return self

    def __exit__(self, *_: object) -> None:
        self.entered = False

    def __iadd__(self, path: str) -> "Odd":
        self.files.append(path)
        return self

    def __repr__(self) -> str:
        return f"Odd({len(self)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd) and self.files == other.files

    __hash__ = None  # type: ignore[assignment]


def test_operators_and_statements_are_those_of_the_class(texts: list[str]) -> None:
    plain, ds = Odd(texts, doubled), prebake.wrap(Odd(texts, doubled))
    assert list(ds) == list(plain) and texts[0] in ds and "other" not in ds
    assert ds(2) == texts[2] and repr(ds) == f"Odd({COUNT})" and ds == plain and plain == ds
    with pytest.raises(TypeError, match="unhashable"):
        hash(ds)
    with ds as entered:
        assert entered is ds and ds.entered
    wrapped = ds
    ds += texts[-1]
    assert ds is wrapped and len(ds) == COUNT + 1 and not ds.entered
    assert np.array_equal(copy.deepcopy(ds)[3], plain[3]) and copy.copy(ds)(1) == texts[1]
    assert list(prebake.wrap(Files(texts, doubled)))[3].tolist() == plain[3].tolist()
    with pytest.raises(TypeError, match="not callable"):
        prebake.wrap(Files(texts, doubled))(1)


class Numbers(Files):
    """Adds up, compares and counts as no data set does."""

    stats = (0.5, 0.1)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.files == other.files

    def __hash__(self) -> int:
        return len(self)

    def __add__(self, other: Any) -> "Numbers":
        return type(self)(self.files[:2] + list(other.files[:2]), self.transform)

    @staticmethod
    def __call__(number: int) -> int:  # type: ignore[override]
        return number + 1


class Each(Files, Sequence[Any]):
    """Whose iteration is that of any sequence."""


def test_operands_are_what_is_wrapped(texts: list[str]) -> None:
    plain, ds, other = (Numbers(texts, doubled) for _ in range(3))
    ds, other = prebake.wrap(ds), prebake.wrap(other)
    assert ds == ds and ds == other and ds == plain and plain.files == ds.files and hash(ds) == hash(plain)
    assert len(ds + other) == 4 and type(ds + other) is Numbers and ds(1) == 2
    assert ds.stats == (0.5, 0.1)
    with mock.patch.object(Numbers, "__call__", lambda self, number: number + 2):
        assert ds(1) == 3


def test_a_sequence_is_iterated_by_its_shared_items(texts: list[str]) -> None:
    ds = prebake.wrap(Each(texts, doubled))
    assert [each.tolist() for each in ds] == [each.tolist() for each in Each(texts, doubled)]
    assert ds.stats()["computed"] == COUNT
    list(reversed(ds))
    assert ds.stats()["reused"] == COUNT


def test_no_class_is_kept_alive(texts: list[str]) -> None:
    kind = type("Kind", (Files,), {"__call__": lambda self: 1})
    assert prebake.wrap(kind(texts, doubled))() == 1
    known = weakref.ref(kind)
    del kind
    gc.collect()
    assert known() is None
