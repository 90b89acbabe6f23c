"""Without a daemon a wrapped data set is the plain chain of transforms."""

import os
import pickle
import random
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import prebake
from prebake.runtime import errors


def decode(path: str) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"))


def halve(image: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(image[::2, ::2])


class Flip:
    def __init__(self, seed: int) -> None:
        self.numbers = random.Random(seed)

    def __call__(self, image: np.ndarray) -> np.ndarray:
        return image[:, ::-1] if self.numbers.random() < 0.5 else image


@prebake.random
def noisy(image: np.ndarray) -> np.ndarray:
    """Adds noise."""
    return image + np.random.default_rng().integers(0, 2, image.shape, dtype=np.uint8)


@pytest.mark.usefixtures("off")
def test_items_and_batches_equal_the_plain_chain(images: list[str]) -> None:
    dataset = prebake.wrap(images, [decode, halve])
    assert len(dataset) == len(images)
    plain = [halve(decode(path)) for path in images]
    assert np.array_equal(dataset[3], plain[3]) and np.array_equal(dataset[-1], plain[-1])
    for outside in (len(images), -len(images) - 1):
        with pytest.raises(IndexError):
            dataset[outside]
    order = random.Random(1).sample(range(len(images)), len(images))
    batches = list(dataset.batches(order, 16))
    assert [len(batch) for batch in batches] == [16, 16, 8]
    assert np.array_equal(np.concatenate(batches), np.stack([plain[i] for i in order]))
    assert all(np.array_equal(a, plain[i]) for a, i in zip(dataset.__getitems__([5, 1]), [5, 1], strict=True))


@pytest.mark.usefixtures("off")
def test_a_data_set_is_asked_for_nothing_that_its_user_does_not_ask_for() -> None:
    asked = []

    class Asked:
        def __len__(self) -> int:
            asked.append("len")
            return 4

        def __getitem__(self, i: int) -> int:
            asked.append(f"item {i}")
            return i * 2

    dataset = prebake.wrap(Asked())
    asked.clear()
    assert [dataset[0], dataset[-1], dataset[np.int64(2)], dataset[9]] == [0, -2, 4, 18]
    assert dataset.__getitems__([1, -3]) == [2, -6]
    assert asked == ["item 0", "item -1", "item 2", "item 9", "item 1", "item -3"]


@pytest.mark.usefixtures("off")
def test_the_random_part_draws_from_the_jobs_own_numbers(images: list[str]) -> None:
    dataset = prebake.wrap(images, [decode, prebake.random(Flip(3)), halve])
    got = [element for batch in dataset.batches(size=7) for element in batch]
    flip = Flip(3)
    assert all(np.array_equal(a, halve(flip(decode(path)))) for a, path in zip(got, images, strict=True))


def folder_like(images: list[str], **more: Any) -> Any:
    samples = [(path, i % 3) for i, path in enumerate(images)]
    return SimpleNamespace(
        samples=samples, loader=decode, root=os.path.dirname(images[0]), classes=["a", "b"], **more
    )


@pytest.mark.usefixtures("off")
def test_a_folder_data_set_keeps_its_targets_and_attributes(images: list[str]) -> None:
    dataset = prebake.wrap(folder_like(images, transform=[halve], target_transform=lambda t: t * 10))
    value, target = dataset[4]
    assert np.array_equal(value, halve(decode(images[4]))) and target == 10
    assert dataset.classes == ["a", "b"]
    assert [target for _, target in next(dataset.batches(size=4))] == [0, 10, 20, 0]


class Compose:
    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value


class RandomApply(Compose):
    pass


def test_only_a_composition_is_taken_apart(images: list[str]) -> None:
    composed = prebake.wrap(folder_like(images, transform=Compose([halve, Compose([halve])])))
    assert composed.transforms == [decode, halve, halve]
    whole = RandomApply([halve])
    assert prebake.wrap(folder_like(images, transform=whole)).transforms == [decode, whole]


@pytest.mark.parametrize(
    ("dataset", "transforms", "code"),
    [
        (object(), [decode], "R30"),
        ([1, 2], [decode], "R30"),
        ("a.jpg", None, "R30"),
        (3, None, "R30"),
        (SimpleNamespace(samples=[], loader=decode, transform=halve), [halve], "R30"),
    ],
)
def test_what_wrap_cannot_see_into_is_refused(dataset: Any, transforms: Any, code: str) -> None:
    with pytest.raises(prebake.Refused) as refused:
        prebake.wrap(dataset, transforms)
    assert refused.value.code == code


@pytest.mark.parametrize("dataset", [[1, 2], ("a.jpg",), {1: 2}, range(3), (i for i in range(3))])
def test_a_data_set_that_cannot_be_shared_is_returned_as_it_is(
    dataset: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "_said", set())
    with pytest.warns(prebake.PrebakeWarning, match="R30 wrap returns a"):
        assert prebake.wrap(dataset) is dataset


def test_a_warning_is_no_error_of_the_jobs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(errors, "_said", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert prebake.wrap([1]) == [1]
    assert "R30 wrap returns a list" in capsys.readouterr().err


@pytest.mark.usefixtures("off")
def test_it_survives_pickling_with_its_marks(images: list[str]) -> None:
    dataset = prebake.wrap(images, [decode, noisy])
    copy = pickle.loads(pickle.dumps(dataset))
    assert len(copy) == len(dataset) and copy[0].shape == dataset[0].shape
    assert pickle.loads(pickle.dumps(noisy)) is noisy
    flip = pickle.loads(pickle.dumps(prebake.random(Flip(3))))
    assert flip.function.numbers.random() == random.Random(3).random()


@pytest.mark.usefixtures("off")
def test_a_users_error_is_the_users(images: list[str]) -> None:
    dataset = prebake.wrap([*images, "missing.jpg"], [decode])
    with pytest.raises(FileNotFoundError):
        dataset[-1]


@pytest.mark.usefixtures("off")
def test_cached_functions_are_called(tmp_path: Path) -> None:
    calls = []

    @prebake.cached(inputs=["path"])
    def size(path: str, unit: int = 1) -> int:
        calls.append(path)
        return os.path.getsize(path) // unit

    file = tmp_path / "file"
    file.write_bytes(b"abcd")
    assert [size(str(file)), size(str(file), unit=2)] == [4, 2] and len(calls) == 2
    with pytest.raises(prebake.Refused):
        prebake.cached(inputs=["nothing"])(lambda path: path)


def test_importing_needs_no_other_package() -> None:
    blocked = (
        "import sys\nfor name in ('numpy', 'PIL', 'torch', 'prebake._native'): sys.modules[name] = None\n"
    )
    program = (
        blocked
        + "import prebake\nds = prebake.wrap([sys.executable], [len])\nprint(ds[0], next(ds.batches()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == str(len(sys.executable))
