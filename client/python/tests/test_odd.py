"""What is odd about transforms and values costs the cache, never the job."""

import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prebake
from prebake.probe import probe
from prebake.runtime import errors

Run = Callable[..., str]


class Scale:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, path: str) -> np.ndarray:
        return np.full(3, len(open(path, "rb").read()) * self.factor)


def by_item(dataset: prebake.Dataset) -> list[np.ndarray]:
    return [dataset[i] for i in range(len(dataset))]


def by_batch(dataset: prebake.Dataset) -> list[np.ndarray]:
    return dataset.__getitems__(range(len(dataset)))


class Switching(Scale):
    """Another from one file on."""

    def __init__(self, at: str) -> None:
        super().__init__(1.0)
        self.at = at

    def __call__(self, path: str) -> np.ndarray:
        value = super().__call__(path)
        if path == self.at:
            self.factor = 2.0
        return value


@pytest.mark.usefixtures("connected")
def test_what_was_made_before_a_change_stays_as_it_was_made(images: list[str]) -> None:
    uncached = Switching(images[14])
    expected = [uncached(path) for path in images[:20]]
    got = list(prebake.wrap(images[:20], [Switching(images[14])]).batches(size=20))
    assert np.array_equal(np.concatenate(got), expected)


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("read", [by_item, by_batch])
def test_an_edited_parameter_is_seen_at_once_and_stored_under_its_own_name(
    images: list[str], read: Callable[[Any], Any]
) -> None:
    scale = Scale(1.0)
    dataset = prebake.wrap(images[:20], [scale])
    before = [dataset[i].copy() for i in range(10)]
    scale.factor = 2.0
    after = read(dataset)
    assert all(np.array_equal(b, 2 * a) for a, b in zip(before, after, strict=False))
    for factor in (1.0, 2.0):
        fresh = prebake.wrap(images[:20], [Scale(factor)])
        assert all(
            np.array_equal(got, Scale(factor)(path))
            for got, path in zip(by_batch(fresh), images[:20], strict=True)
        )
    # What was computed with the new parameter is shared.
    assert fresh.stats()["computed"] == 0


@pytest.mark.usefixtures("connected")
def test_a_parameter_edited_between_batches_is_seen(images: list[str]) -> None:
    scale = Scale(1.0)
    assert len(list(prebake.wrap(images, [scale]).batches())) == 1
    batches = prebake.wrap(images, [scale]).batches(size=10)
    next(batches)
    scale.factor = 3.0
    assert np.array_equal(next(batches), np.stack([scale(path) for path in images[10:20]]))


@pytest.mark.usefixtures("connected")
def test_a_transform_that_changes_itself_is_not_stored(images: list[str]) -> None:
    class Counting(Scale):
        def __call__(self, path: str) -> np.ndarray:
            self.factor += 1
            return super().__call__(path)

    with pytest.warns(prebake.PrebakeWarning, match="R25 .* changes itself from item to item"):
        got = by_batch(prebake.wrap(images, [Counting(0.0)]))
    plain = Counting(0.0)
    assert all(np.array_equal(a, plain(path)) for a, path in zip(got, images, strict=True))
    fresh = prebake.wrap(images, [Counting(0.0)])
    by_batch(fresh)
    assert fresh.stats()["reused"] == 0


class Placed:
    """Yields where it lies in memory, which is elsewhere in another process."""

    def __call__(self, value: np.ndarray) -> np.ndarray:
        return value + object.__hash__(self)


@pytest.mark.usefixtures("connected")
def test_steps_before_one_that_does_not_reproduce_are_shared(
    images: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    probes = []
    run = probe.run
    monkeypatch.setattr(
        "prebake.memo.probe_cache.run", lambda *args, **kw: probes.append(1) or run(*args, **kw)
    )
    placed = Placed()
    for computed in (len(images), 0):
        dataset = prebake.wrap(images, [Scale(1.0), placed])
        with pytest.warns(prebake.PrebakeWarning, match=r"R33 step 1 \(Placed\) yields something else"):
            got = by_batch(dataset)
        # A close look finds that nothing changed, and another epoch is shared too.
        got += by_batch(dataset)
        expected = [placed(Scale(1.0)(path)) for path in images]
        assert np.array_equal(got, expected * 2)
        stats = dataset.stats()
        assert (stats["computed"], stats["reused"]) == (computed, 2 * len(images) - computed)
        errors._said.clear()
    assert len(probes) == 1


class OddFirst(Scale):
    """Yields what cannot be stored for its first files."""

    def __init__(self, odd: list[str]) -> None:
        super().__init__(1.0)
        self.odd = odd

    def __call__(self, path: str) -> Any:
        value = super().__call__(path)
        return {b"a": value} if path in self.odd else value


@pytest.mark.usefixtures("connected")
def test_values_that_cannot_be_stored_cost_the_others_nothing(images: list[str]) -> None:
    for _ in range(2):
        dataset = prebake.wrap(images, [OddFirst(images[:3])])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", prebake.PrebakeWarning)
            got = by_item(dataset)
        assert all(type(value) is dict for value in got[:3])
        assert np.array_equal(got[3:], [Scale(1.0)(path) for path in images[3:]])
    assert dataset.stats()["reused"] == len(images) - 3


class Unready:
    """As a lazy proxy before it is bound."""

    @property
    def __class__(self) -> type:
        raise RuntimeError("not bound")


def odd_fields() -> Scale:
    scale = Scale(1.0)
    vars(scale)[3] = 4
    return scale


def holds_a_proxy() -> Scale:
    scale = Scale(1.0)
    scale.proxy = Unready()  # type: ignore[attr-defined]
    return scale


def out_of_order(path: str) -> np.ndarray:
    return np.zeros(3, np.dtype({"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [4, 0]}))


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("make", [odd_fields, holds_a_proxy, lambda: out_of_order])
def test_what_raises_when_looked_at_is_computed(images: list[str], make: Callable[[], Any]) -> None:
    with pytest.warns(prebake.PrebakeWarning, match="not cached"):
        got = by_batch(prebake.wrap(images[:4], [make()]))
    assert all(np.array_equal(a, make()(path)) for a, path in zip(got, images, strict=False))


def odd_at_first(path: str) -> Any:
    with open(path, "rb") as file:
        length = len(file.read())
    return {length} if path.endswith("000.jpg") else np.full(3, length)


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("read", [by_item, by_batch])
def test_a_first_value_that_cannot_be_stored_leaves_the_others_shared(
    images: list[str], read: Callable[[Any], Any]
) -> None:
    with pytest.warns(prebake.PrebakeWarning, match="R39"):
        first = read(prebake.wrap(images, [odd_at_first]))
    fresh = prebake.wrap(images, [odd_at_first])
    second = read(fresh)
    assert first[0] == second[0] == odd_at_first(images[0])
    assert all(np.array_equal(a, odd_at_first(path)) for a, path in zip(second[1:], images[1:], strict=True))
    assert fresh.stats()["reused"] == len(images) - 1


@pytest.mark.usefixtures("connected")
def test_an_argument_that_raises_when_looked_at_is_no_reason_to_fail() -> None:
    with pytest.warns(prebake.PrebakeWarning, match="not bound"):
        assert prebake.cached(lambda each: 5)(Unready()) == 5


@pytest.mark.usefixtures("connected")
def test_batches_of_foreign_byte_order_are_as_stacked(images: list[str]) -> None:
    def foreign(path: str) -> np.ndarray:
        return np.arange(3, dtype=">f4")

    dataset = prebake.wrap(images[:4], [foreign])
    for _ in range(2):
        (batch,) = dataset.batches()
        assert batch.dtype == np.stack([foreign(path) for path in images[:4]]).dtype
        assert np.array_equal(batch, [[0, 1, 2]] * 4)


def named(path: str) -> dict[str, Any]:
    return {"size": len(open(path, "rb").read()), "pixels": np.zeros(3)}


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("read", [by_item, by_batch, lambda dataset: list(dataset.batches(size=4))])
def test_what_makes_no_array_is_counted_once(images: list[str], read: Callable[[Any], Any]) -> None:
    for _ in by_item(prebake.wrap(images, [named])):
        pass
    dataset = prebake.wrap(images, [named])
    for epoch in 1, 2:
        read(dataset)
        assert dataset.stats()["reused"] == epoch * len(images)


@pytest.mark.usefixtures("connected")
def test_leases_follow_the_time_that_others_wait(images: list[str]) -> None:
    import time

    def slow(path: str) -> int:
        time.sleep(0.05)
        return 1

    dataset = prebake.wrap(images[:6], [slow])
    by_batch(dataset)
    # 50 ms in reading: a few at once, though they take no CPU time.
    assert dataset._pipeline.client.costs.leases() <= 5


def test_a_nested_random_transform_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site-packages"
    (site / "augment_kit-1.0.dist-info").mkdir(parents=True)
    (site / "augment_kit-1.0.dist-info" / "RECORD").write_text("augment_kit.py,,\n")
    (site / "augment_kit.py").write_text(
        "class RandomFlip:\n    def __call__(self, x): return x\n"
        "class Together:\n    def __init__(self, *steps): self.steps = steps\n"
    )
    monkeypatch.syspath_prepend(str(site))
    kit = __import__("augment_kit")
    try:
        prebake.fingerprint(kit.Together(abs))
        with pytest.raises(prebake.Refused, match="RandomFlip") as refused:
            prebake.fingerprint(kit.Together(kit.RandomFlip()))
        assert refused.value.code == "R20"
    finally:
        del sys.modules["augment_kit"]


def by_subscript(path: str) -> str:
    return os.environ["SIZE"]


def by_call(path: str) -> Any:
    return os.getenv("SIZE")


def by_import(path: str) -> Any:
    from os import environ

    return environ["SIZE"]


environ = os.environ
getenv = os.getenv


def by_name(path: str) -> str:
    return environ["SIZE"]


def by_function(path: str) -> Any:
    return getenv("SIZE")


@pytest.mark.parametrize("read", [by_subscript, by_call, by_import, by_name, by_function])
def test_what_is_read_of_the_environment_counts(
    read: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIZE", "1")
    before = prebake.fingerprint(read)
    monkeypatch.setenv("SIZE_OF_SOMETHING_ELSE", "1")
    assert prebake.fingerprint(read) == before
    monkeypatch.setenv("SIZE", "2")
    assert prebake.fingerprint(read) != before


def test_other_uses_of_os_are_no_reason_to_refuse() -> None:
    prebake.fingerprint(lambda path: os.path.basename(path))
