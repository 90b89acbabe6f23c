"""The real torch: data sets that are iterated, in loaders of all sorts."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from conftest import TEXTS, Take

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

LOADERS = [(0, "fork"), (2, "fork"), (2, "spawn")]


@pytest.fixture
def job(take: Take) -> Take:
    return functools.partial(take, module="torch_streams")


@pytest.mark.parametrize(("workers", "how"), LOADERS)
def test_the_same_batches_and_nothing_made_twice(job: Take, texts: list[str], workers: int, how: str) -> None:
    loader: dict[str, Any] = {"workers": workers, "how": how}
    plain = job("Texts", texts, wrapped=False, size=4, **loader)
    first = job("Texts", texts, size=4, **loader)
    assert first["found"] == plain["found"] and first["reads"] == TEXTS
    # Another batch size in another process.
    again = job("Texts", texts, size=5, **loader)
    assert again["found"] == job("Texts", texts, wrapped=False, size=5, **loader)["found"]
    assert again["reads"] == 0 and not again["said"]


def test_workers_are_told_apart(job: Take, texts: list[str]) -> None:
    for workers in (2, 3, 0, 2):
        loader: dict[str, Any] = {"workers": workers, "how": "fork", "size": 4}
        assert job("Texts", texts, **loader)["found"] == job("Texts", texts, wrapped=False, **loader)["found"]


@pytest.mark.parametrize("kind", ["Noisy", "Seeded"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_that_draws_runs_as_without(job: Take, texts: list[str], kind: str, workers: int) -> None:
    loader: dict[str, Any] = {"workers": workers, "how": "fork", "size": 4}
    plain = job(kind, texts, wrapped=False, **loader)["found"]
    for _ in range(2):
        assert job(kind, texts, **loader)["found"] == plain


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["Texts", "Stateful", "ItsOwnIterator", "InItsIterator"])
def test_a_loader_with_state(job: Take, texts: list[str], kind: str, workers: int) -> None:
    pytest.importorskip("torchdata.stateful_dataloader")
    loader: dict[str, Any] = {"workers": workers, "stopped": True}
    plain = job(kind, texts, wrapped=False, **loader)["found"]
    assert len(plain) >= TEXTS / 4
    for _ in range(2):
        assert job(kind, texts, **loader)["found"] == plain
