"""Batches of unlike elements: a list, made in one call, of arrays that are each one's own."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import settle

import prebake
from prebake.codec import values
from prebake.leases.warm_read import WarmRead

COUNT = 60
#: Larger than what is copied together, so that some lie where they are.
LONG = 5000


def tokens(path: str) -> Any:
    """Some of them empty, some long."""
    i = int(Path(path).read_text())
    return np.arange(LONG if i % 7 == 0 else i % 5 * 3, dtype=np.int32) + i


def mixed(path: str) -> Any:
    """Items of other sizes, so that what follows without a gap may not be aligned."""
    i = int(Path(path).read_text())
    return np.full((i % 5 + 1, 3), i, ("u1", "<f8", ">i2", "S3", "M8[s]")[i % 5])


def equal(path: str) -> Any:
    """All alike."""
    return np.full((4, 3), int(Path(path).read_text()))


def named(path: str) -> Any:
    """No lone array."""
    return {"ids": tokens(path), "name": path}


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    folder = tmp_path / "numbers"
    folder.mkdir()
    for i in range(COUNT):
        (folder / f"{i:03}.txt").write_text(str(i))
        settle(folder / f"{i:03}.txt")
    return sorted(str(path) for path in folder.iterdir())


def orders() -> list[Sequence[int]]:
    shuffled = np.random.default_rng(3).permutation(COUNT).tolist()
    return [range(COUNT), shuffled, range(COUNT - 1, 0, -3)]


def same(one: Any, other: Any) -> bool:
    if type(one) is dict:
        return bool(one["name"] == other["name"]) and same(one["ids"], other["ids"])
    alike = one.dtype == other.dtype and one.shape == other.shape and type(one) is type(other)
    return bool(alike and one.dtype.str == other.dtype.str and np.array_equal(one, other))


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("step", [tokens, mixed, named])
def test_each_is_what_it_was_and_ones_own(step: Any, paths: list[str]) -> None:
    wrapped = prebake.wrap(paths, [step])
    list(wrapped.batches())
    kept: list[Any] = []
    for order in [*orders(), *orders()]:
        for writable in (True, False):
            batches = list(wrapped.batches(order, 7, writable=writable))
            found = [element for batch in batches for element in batch]
            assert all(same(one, step(paths[i])) for one, i in zip(found, order, strict=True))
            # What others keep, and write to, is seen by nobody.
            for element in found:
                array = element["ids"] if type(element) is dict else element
                assert array.flags.c_contiguous and array.flags.writeable
                # Elements of several types, or with a text, lie at any byte.
                assert array.flags.aligned or step is not tokens
                array.fill(0)
            kept.append(found[3::7])
        gc.collect()
    assert wrapped.stats()["computed"] == COUNT


@pytest.mark.usefixtures("connected")
def test_what_is_not_located_yet_is_no_list_of_elements(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be located by a thread meanwhile, and would be handed out, element by element, and stacked."""
    list(prebake.wrap(paths, [equal]).batches())
    later = prebake.wrap(paths, [equal])
    listed: list[Sequence[int]] = []
    monkeypatch.setattr(WarmRead, "values", lambda self, indices, validated: listed.append(indices))
    batches = list(later.batches(size=7))
    assert not listed and later.stats()["computed"] == 0
    assert all(isinstance(batch, np.ndarray) for batch in batches)


@pytest.mark.usefixtures("connected")
def test_they_are_made_in_one_call(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    wrapped = prebake.wrap(paths, [tokens])
    list(wrapped.batches())
    asked: list[str] = []
    told = values.array_form
    monkeypatch.setattr(values, "array_form", lambda layout: asked.append(layout) or told(layout))
    monkeypatch.setattr(values, "decode", None)
    for order in orders():
        assert sum(len(batch) for batch in wrapped.batches(order)) == len(order)
    assert len(asked) == len(set(asked)), "each layout is read once"
    # Twins too, each a value of its own.
    one, other, _ = next(wrapped.batches([7, 7, 8], 3))
    assert same(one, tokens(paths[7]))
    one.fill(0)
    assert same(other, tokens(paths[7]))


@pytest.mark.usefixtures("connected")
def test_what_is_too_short_for_its_layout_is_no_array(paths: list[str]) -> None:
    for wrong in [("i4", (9**9,)), ("i4", (2**62, 2**62)), ("S0", (1,)), None]:
        form = wrong and (np.dtype(wrong[0]), wrong[1])
        fresh = prebake.wrap(paths, [tokens])
        list(fresh.batches())
        warm = fresh._pipeline.client.collection.warm_read()
        assert warm is not None
        assert warm.items.arrays([1, 2], True, lambda layout, form=form: form) is None
        assert len(warm.items.arrays([3, 4], True, values.array_form)) == 2
    with pytest.raises(TypeError):
        warm.items.arrays([5, 6], True, lambda layout: ("i4", 3))


@pytest.mark.usefixtures("connected")
def test_they_outlive_all_else_and_a_child_reads_them(paths: list[str]) -> None:
    wrapped = prebake.wrap(paths, [tokens])
    list(wrapped.batches())
    kept = [batch for order in orders() for batch in wrapped.batches(order, 9)]
    numbers = [i for order in orders() for i in order]
    del wrapped
    gc.collect()
    child = os.fork()
    if child == 0:
        found = [element for batch in kept for element in batch]
        good = all(same(one, tokens(paths[i])) for one, i in zip(found, numbers, strict=True))
        kept.clear()
        del found
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    found = [element for batch in kept for element in batch]
    assert all(same(one, tokens(paths[i])) for one, i in zip(found, numbers, strict=True))
