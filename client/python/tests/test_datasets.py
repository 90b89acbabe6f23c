"""Data sets that nobody here wrote: known by their number and the files that loading them opens."""

from __future__ import annotations

import os
import pickle
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import make_images
from PIL import Image

import prebake
from prebake.pipeline.pipeline import Pipeline
from prebake.runtime import daemon


class Compose:
    """As torchvision's."""

    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value


class Shrink:
    def __init__(self, by: int) -> None:
        self.by = by

    def __call__(self, image: Any) -> Any:
        return np.ascontiguousarray(image[:: self.by, :: self.by])


class Brighten:
    """Draws from the global generator, though it is called like nothing that does."""

    def __call__(self, image: Any) -> Any:
        return image + np.uint8(_jitter())


def _jitter() -> int:
    return random.randrange(5)


class Photos:
    """A data set as people write them: no two alike."""

    def __init__(self, folder: Path, transform: Any = None) -> None:
        self.names = sorted(str(path) for path in folder.iterdir())
        self.transform = transform
        self.classes = ["cat", "dog"]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: int) -> Any:
        image = load(self.names[i])
        if self.transform is not None:
            image = self.transform(image)
        return {"image": image, "label": i % 2, "name": os.path.basename(self.names[i])}


#: Loads of this process.
_loads: list[str] = []


@prebake.pure
def load(path: str) -> Any:
    """Counts itself out of sight, which is no part of what it yields."""
    sys.modules[__name__]._loads.append(path)
    return np.asarray(Image.open(path).convert("RGB"))


def cropped(image: Any) -> Any:
    """As many rows as its first number says."""
    return image[: 1 + int(image[0, 0, 0]) % 40].copy()


def plain(dataset: Any, seed: int, order: list[int]) -> list[Any]:
    random.seed(seed)
    return [dataset[i] for i in order]


def same(a: Any, b: Any) -> bool:
    return all(
        x.keys() == y.keys()
        and all(np.array_equal(x[key], y[key]) and type(x[key]) is type(y[key]) for key in x)
        for x, y in zip(a, b, strict=True)
    )


@pytest.fixture
def folder(images: list[str]) -> Path:
    # Files just written are loaded once more, since a later write could not be told.
    time.sleep(RACY_SECONDS)
    return Path(images[0]).parent


@pytest.fixture
def loads() -> list[str]:
    _loads.clear()
    return _loads


def another_job() -> None:
    daemon._current = None


RACY_SECONDS = 2.1
ORDER = list(range(12))


@pytest.mark.usefixtures("connected")
def test_a_data_set_is_shared_and_equals_itself(folder: Path, loads: list[str]) -> None:
    transform = Compose([Shrink(2), Brighten()])
    epochs = [(1, ORDER), (2, ORDER[::-1])]
    expected = [plain(Photos(folder, transform), *epoch) for epoch in epochs]
    loads.clear()
    for _ in range(2):
        wrapped = prebake.wrap(Photos(folder, transform))
        found = [plain(wrapped, *epoch) for epoch in epochs]
        assert all(map(same, expected, found))
        another_job()
    # The first item is loaded again to find out which step draws, and those of the first load.
    assert set(loads) == {str(path) for path in sorted(folder.iterdir())[:12]}
    assert len(loads) <= 12 + 8


@pytest.mark.usefixtures("connected")
def test_a_changed_parameter_keeps_what_is_before_it(tmp_path: Path, loads: list[str]) -> None:
    # Large enough that decoding is worth a place of its own.
    folder = Path(make_images(tmp_path / "large", len(ORDER), (300, 400))[0]).parent
    time.sleep(RACY_SECONDS)
    # Twice, by which what is before it is known to be wanted again; then it is there.
    for by, decoded in ((2, 1), (3, 2), (4, 2)):
        wrapped = prebake.wrap(Photos(folder, Compose([Shrink(by)])))
        assert same(plain(wrapped, 0, ORDER), plain(Photos(folder, Compose([Shrink(by)])), 0, ORDER))
        another_job()
        direct = (by - 1) * len(ORDER)
        assert len(loads) - direct == decoded * len(ORDER)


@pytest.mark.usefixtures("connected")
def test_an_edited_file_is_loaded_again(folder: Path, loads: list[str]) -> None:
    wrapped = prebake.wrap(Photos(folder))
    plain(wrapped, 0, ORDER)
    edited = sorted(folder.iterdir())[3]
    Image.fromarray(np.zeros((48, 64, 3), np.uint8)).save(edited)
    another_job()
    loads.clear()
    again = prebake.wrap(Photos(folder))
    assert plain(again, 0, ORDER)[3]["image"].max() == 0
    assert set(loads) == {str(edited)}


class Moves:
    """One item in twenty leaves the working folder, by a way that leads on from there only once."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, i: int) -> int:
        if i == 0:
            os.chdir("sub")
        return i


@pytest.mark.usefixtures("connected")
def test_what_an_item_does_is_done_once_though_it_keeps_it_from_being_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    wrapped = prebake.wrap(Moves())
    for i in (0, 1, 0, 2, 0):
        assert wrapped[i] == i
        assert os.getcwd() == str(tmp_path / "sub" if i == 0 else tmp_path)
        os.chdir(tmp_path)


@pytest.mark.usefixtures("connected")
def test_it_looks_like_what_it_wraps(folder: Path) -> None:
    photos = Photos(folder, Compose([Shrink(2)]))
    wrapped = prebake.wrap(photos)
    assert isinstance(wrapped, Photos) and len(wrapped) == len(photos)
    assert wrapped.classes == ["cat", "dog"]
    # What walks through a data set finds each of its parts once, and nothing else.
    assert wrapped.__dict__ is photos.__dict__
    restored = pickle.loads(pickle.dumps(wrapped))
    assert isinstance(restored, Photos) and same(plain(restored, 0, ORDER), plain(photos, 0, ORDER))
    wrapped.transform = Compose([Shrink(4)])
    assert photos.transform.transforms[0].by == 4
    assert same(plain(wrapped, 0, ORDER), plain(photos, 0, ORDER))


class Pets(Photos):
    """Calls its transform by another name."""

    def __init__(self, folder: Path, image_transform: Any) -> None:
        super().__init__(folder)
        self.image_transform = image_transform

    def __getitem__(self, i: int) -> Any:
        return {"image": self.image_transform(load(self.names[i])), "label": i}


class Masked(Photos):
    """Gives its transform named arguments and takes what it returns apart, as with albumentations."""

    def __getitem__(self, i: int) -> Any:
        image = load(self.names[i])
        made = self.transform(image=image, mask=np.ascontiguousarray(image[..., 0]))
        return {"mask": made["mask"], "image": made["image"]}


class Lighter:
    """Draws, and takes and returns names."""

    def __call__(self, image: Any, mask: Any) -> dict[str, Any]:
        by = np.uint8(_jitter())
        return {"image": image + by, "mask": mask + by}


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("make", [Pets, Masked])
def test_a_transform_of_another_kind_is_taken_out_too(folder: Path, loads: list[str], make: Any) -> None:
    transform = Compose([Shrink(2), Brighten()]) if make is Pets else Lighter()
    expected = plain(make(folder, transform), 1, ORDER)
    assert same(plain(prebake.wrap(make(folder, transform)), 1, ORDER), expected)
    another_job()
    loads.clear()
    second = prebake.wrap(make(folder, transform))
    assert same(plain(second, 1, ORDER), expected)
    # Which step draws is found out with one item.
    assert len(loads) <= 4


class Sizes(Photos):
    """Does something with what its transform returns."""

    def __getitem__(self, i: int) -> Any:
        image = self.transform(load(self.names[i]))
        return {"image": image, "size": image.shape[0]}


class Sides(Photos):
    """Reads a file beside each image, and lists nothing."""

    def __getitem__(self, i: int) -> Any:
        with open(self.names[i].replace("images", "labels") + ".txt") as file:
            return {"image": load(self.names[i]), "label": file.read()}


class Drawing(Photos):
    """Draws while it loads."""

    def __getitem__(self, i: int) -> Any:
        return {"image": load(self.names[i]) + np.uint8(_jitter())}


@pytest.mark.usefixtures("connected")
def test_a_data_set_that_looks_at_its_transforms_result_stays_whole(folder: Path, loads: list[str]) -> None:
    with pytest.warns(prebake.PrebakeWarning, match="cannot be taken out"):
        wrapped = prebake.wrap(Sizes(folder, Shrink(2)))
        found = plain(wrapped, 0, ORDER)
    assert same(found, plain(Sizes(folder, Shrink(2)), 0, ORDER))
    another_job()
    loads.clear()
    assert same(plain(prebake.wrap(Sizes(folder, Shrink(2))), 0, ORDER), found)


@pytest.mark.usefixtures("connected")
def test_every_file_that_is_opened_counts(folder: Path) -> None:
    labels = folder.parent / "labels"
    labels.mkdir()
    for path in folder.iterdir():
        (labels / f"{path.name}.txt").write_text("old")
    time.sleep(RACY_SECONDS)
    assert plain(prebake.wrap(Sides(folder)), 0, ORDER)[5]["label"] == "old"
    (labels / f"{sorted(folder.iterdir())[5].name}.txt").write_text("new")
    another_job()
    wrapped = prebake.wrap(Sides(folder))
    assert [each["label"] for each in plain(wrapped, 0, ORDER)].count("new") == 1
    assert wrapped.stats()["reused"] == len(ORDER) - 1


@pytest.mark.usefixtures("connected")
def test_what_draws_while_it_loads_is_never_frozen(folder: Path) -> None:
    expected = [plain(Drawing(folder), seed, ORDER) for seed in (1, 2)]
    for _ in range(2):
        wrapped = prebake.wrap(Drawing(folder))
        assert all(map(same, expected, [plain(wrapped, seed, ORDER) for seed in (1, 2)]))
        another_job()


@pytest.mark.usefixtures("connected")
def test_declared_inputs_are_believed_and_checked(folder: Path, loads: list[str]) -> None:
    photos = Photos(folder)
    for _ in range(2):
        wrapped = prebake.wrap(photos, inputs=lambda i: photos.names[i])
        plain(wrapped, 0, ORDER)
        another_job()
    assert len(loads) == len(ORDER)
    with pytest.warns(prebake.PrebakeWarning, match="R23 .* not among its inputs"):
        plain(prebake.wrap(Sides(folder), inputs=lambda i: photos.names[i]), 0, [])
        labels = folder.parent / "labels"
        labels.mkdir()
        for path in folder.iterdir():
            (labels / f"{path.name}.txt").write_text("old")
        plain(prebake.wrap(Sides(folder), inputs=lambda i: photos.names[i]), 0, ORDER)


class Named(Photos):
    """Loads nothing: its transform does, as in MONAI."""

    def __getitem__(self, i: int) -> Any:
        return {"image": self.transform(self.names[i]), "label": i % 2}


class Load:
    def __call__(self, path: str) -> Any:
        return load(path)


@pytest.mark.usefixtures("connected")
def test_a_transform_may_load(folder: Path, loads: list[str]) -> None:
    order, transform = [3, 1, 2, 1], Compose([Load(), Shrink(2), Brighten()])
    expected = plain(Named(folder, transform), 1, order)
    for computed in (3, 0):
        loads.clear()
        dataset = prebake.wrap(Named(folder, transform))
        assert same(plain(dataset, 1, order), expected)
        assert (dataset.stats()["computed"], bool(loads)) == (computed, bool(computed))
        another_job()
    edited = Path(dataset.names[1])
    Image.new("RGB", (48, 64), 9).save(edited)
    expected = plain(Named(folder, transform), 1, order)
    loads.clear()
    assert same(plain(prebake.wrap(Named(folder, transform)), 1, order), expected)
    assert set(loads) == {str(edited)}


class Listing(Photos):
    """Looks at its folder for one of its items."""

    def __getitem__(self, i: int) -> Any:
        names = sorted(os.listdir(os.path.dirname(self.names[i]))) if i == 5 else []
        return {"image": load(self.names[i]), "beside": len(names)}


@pytest.mark.usefixtures("connected")
def test_an_item_that_cannot_be_known_is_made_here(folder: Path) -> None:
    expected = plain(Listing(folder), 0, ORDER)
    for _ in range(2):
        wrapped = prebake.wrap(Listing(folder))
        with pytest.warns(prebake.PrebakeWarning, match="item 5 lists the folder"):
            prebake.runtime.errors._said.clear()
            found = plain(wrapped, 0, ORDER)
        assert same(found, expected)
        another_job()
    assert wrapped.stats()["reused"] == len(ORDER) - 1


class Joint(Photos):
    """Transforms image and mask together, as torchvision's data sets do."""

    def __init__(self, folder: Path, transforms: Any) -> None:
        super().__init__(folder)
        self.transforms = transforms

    def __getitem__(self, i: int) -> Any:
        image = load(self.names[i])
        image, mask = self.transforms(image, image[..., 0] > 128)
        return {"mask": mask, "image": image}


class Both:
    """Part of a joint transform."""

    def __init__(self, step: Any) -> None:
        self.step = step

    def __call__(self, image: Any, mask: Any) -> Any:
        return self.step(image), self.step(mask)


class Pipe(Compose):
    def __call__(self, *given: Any) -> Any:
        for transform in self.transforms:
            given = transform(*given)
        return given


Pipe.__name__ = Pipe.__qualname__ = "Compose"


def _drawn(dataset: Any, seed: int) -> Any:
    found = plain(dataset, seed, ORDER)
    return found, random.random()


@pytest.mark.usefixtures("connected")
def test_joint_transforms_are_parted(folder: Path, loads: list[str]) -> None:
    make = Pipe([Both(Shrink(2)), Both(Brighten())])
    expected, after = _drawn(Joint(folder, make), 3)
    for _ in range(2):
        found, drawn = _drawn(prebake.wrap(Joint(folder, make)), 3)
        assert same(found, expected) and drawn == after
        another_job()
        loads.clear()
    wrapped = prebake.wrap(Joint(folder, make))
    assert same(plain(wrapped, 3, ORDER), expected) and not loads


class Sometimes(Photos):
    """Looks at what its transform returns for one of its items."""

    def __getitem__(self, i: int) -> Any:
        image = self.transform(load(self.names[i]))
        return {"image": image, "size": image.shape[0] if i == 3 else 0}


def test_a_batch_begun_anew_draws_what_it_drew(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a daemon items are made and finished one by one, so that the first have drawn by then.
    monkeypatch.setenv("PREBAKE_DIR", str(tmp_path / "none"))
    for name, value in (("_current", None), ("_retry_at", 0.0), ("_autostart", False)):
        monkeypatch.setattr(daemon, name, value)
    transform = Compose([Shrink(2), Brighten()])
    expected = plain(Sometimes(folder, transform), 3, ORDER)
    random.seed(3)
    with pytest.warns(prebake.PrebakeWarning):
        found = prebake.wrap(Sometimes(folder, transform)).__getitems__(ORDER)
    assert same(found, expected)


@pytest.mark.usefixtures("connected")
def test_no_epoch_begins_before_an_item_is_asked_for_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where one begins, all is looked at closely.
    closely: list[bool] = []
    renew = Pipeline.renew
    monkeypatch.setattr(
        Pipeline, "renew", lambda self, close=False: closely.append(close) or renew(self, close)
    )
    wrapped = prebake.wrap(Photos(folder))
    for start in range(0, len(wrapped), 4):
        wrapped.__getitems__(range(start, min(start + 4, len(wrapped))))
    assert closely and not any(closely)
    wrapped.__getitems__([0, 1])
    assert closely.count(True) == 1


@pytest.mark.usefixtures("connected")
def test_elements_of_many_shapes_that_are_there_are_read_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = sorted(str(path) for path in folder.iterdir())
    wrapped = prebake.wrap(paths, [load, cropped])
    expected = list(wrapped.batches(size=10))
    begun: list[Pipeline] = []
    begin = Pipeline.begin
    monkeypatch.setattr(Pipeline, "begin", lambda self: (begun.append(self), begin(self))[1])
    for writable in (True, False):
        begun.clear()
        for found, first in zip(wrapped.batches(size=10, writable=writable), expected, strict=True):
            assert isinstance(found, list)
            assert all(map(np.array_equal, found, first))
            assert len({element.shape for element in found}) > 1
            for element in found:
                # One's own, as they always are.
                element.fill(0)
        assert not begun, "a batch went the long way"
    # Twins have values of their own, for which the long way is gone.
    one, other = next(wrapped.batches([3, 3, 4], 3))[:2]
    one.fill(0)
    assert not np.array_equal(one, other)


class _Indexed(type):
    def __len__(cls) -> int:
        return 3

    def __getitem__(cls, i: int) -> Any:
        return [cls.__name__, cls.__qualname__, i]


class _Train(metaclass=_Indexed):
    pass


@pytest.mark.usefixtures("connected")
def test_a_class_may_be_the_data_set() -> None:
    wrapped = prebake.wrap(_Train)
    assert [wrapped[i] for i in range(len(wrapped))] == [_Train[i] for i in range(3)]


class _Sized:
    def __len__(self) -> int:
        return 3

    def __getitem__(self, i: int, size: int = 8, *, flip: bool = False) -> Any:
        return [i, size, flip]


@pytest.mark.usefixtures("connected")
def test_more_than_an_index_is_passed_on(folder: Path) -> None:
    wrapped, plain = prebake.wrap(_Sized()), _Sized()
    for given in ({}, {"size": 4}, {"flip": True}):
        assert wrapped.__getitem__(1, **given) == plain.__getitem__(1, **given)
        assert wrapped[1] == plain[1]
    assert wrapped.__getitem__(1, 2) == [1, 2, False]
    with pytest.raises(TypeError):
        prebake.wrap(sorted(map(str, folder.iterdir())), [len]).__getitem__(0, 2)
