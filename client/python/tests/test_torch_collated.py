"""Loaders that put batches together by `default_collate`: one native copy makes them, and no bytes go through
a worker's pipe. What comes out is what comes out without.
"""

from __future__ import annotations

import gc
import pickle
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prebake
from prebake.codec import collated
from prebake.demo.daemon import PrivateDaemon
from prebake.runtime import daemon as runtime_daemon

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

from torch.utils.data import DataLoader, IterableDataset, Subset  # noqa: E402
from torch.utils.data._utils import collate as torchs  # noqa: E402

COUNT = 23
WORKERS: list[dict[str, Any]] = [
    {},
    {"num_workers": 2, "multiprocessing_context": "fork"},
    {"num_workers": 2, "multiprocessing_context": "spawn"},
]
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("error::prebake.PrebakeWarning"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


def pixels(path: str) -> Any:
    """(8, 6, 3) bytes."""
    return np.random.default_rng(int(Path(path).read_text())).integers(0, 256, (8, 6, 3), np.uint8)


def floats(path: str) -> Any:
    """A tensor of shape (3, 8, 6)."""
    return torch.from_numpy(pixels(path)).permute(2, 0, 1).float().contiguous()


def named(path: str) -> Any:
    """What is no lone array."""
    return {"image": pixels(path), "name": Path(path).name}


class Folder:
    """As torchvision's: elements are pairs."""

    def __init__(self, root: Path, transform: Any = None) -> None:
        self.root, self.loader, self.transform = str(root), pixels, transform
        self.samples = [(str(path), i % 4) for i, path in enumerate(sorted(root.glob("*.txt")))]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int) -> Any:
        path, target = self.samples[i]
        value = self.loader(path)
        return value if self.transform is None else self.transform(value), target


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("numbers")
    for i in range(COUNT):
        (folder / f"{i:02}.txt").write_text(str(i))
    time.sleep(2.1)
    return folder


def files(root: Path) -> list[str]:
    return sorted(map(str, root.glob("*.txt")))


def plain(step: Any, paths: list[str]) -> list[Any]:
    return [step(path) for path in paths]


def batches(data: Any, number: int = 7, **options: Any) -> list[Any]:
    generator = torch.Generator().manual_seed(number)
    return list(DataLoader(data, batch_size=5, shuffle=True, generator=generator, **options))


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return type(a) is type(b) and a.dtype == b.dtype and torch.equal(a, b) and a.stride() == b.stride()
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return type(a) is type(b) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b


@pytest.fixture
def stacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tensors torch put together in this process, each time it did."""
    seen: list[int] = []
    stack = torch.stack

    def count(batch: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(len(batch))
        return stack(batch, *args, **kwargs)

    monkeypatch.setattr(torch, "stack", count)
    return seen


@pytest.mark.parametrize(
    ("step", "workers"),
    [(pixels, WORKERS[0]), (floats, WORKERS[0]), (floats, WORKERS[1]), (pixels, WORKERS[2])],
    ids=["arrays", "tensors", "fork", "spawn"],
)
def test_batches_are_made_without_torch_and_are_the_same(
    connected: None, root: Path, step: Any, workers: dict[str, Any], stacked: list[int]
) -> None:
    expected = batches(plain(step, files(root)))
    data = prebake.wrap(files(root), [step])
    assert same(batches(data, **workers), expected)
    stacked.clear()
    again = batches(data, **workers)
    assert same(again, expected)
    # A worker that stacks them puts them into memory that is shared with this process.
    assert not stacked and not any(batch.is_shared() for batch in again)
    assert same(batches(data, 8, **workers), batches(plain(step, files(root)), 8))


@pytest.mark.parametrize("workers", WORKERS[:2], ids=["job", "fork"])
def test_pairs_of_a_folder(connected: None, root: Path, workers: dict[str, Any]) -> None:
    expected = batches(Folder(root))
    for _ in range(2):
        assert same(batches(prebake.wrap(Folder(root)), **workers), expected)
    wrapped = prebake.wrap(Folder(root, floats_of))
    assert same(batches(wrapped, **workers), batches(Folder(root, floats_of)))


def floats_of(image: Any) -> Any:
    return torch.from_numpy(image).permute(2, 0, 1).float().contiguous()


def test_a_subset_and_the_same_item_twice(connected: None, root: Path, stacked: list[int]) -> None:
    subset = [3, 9, 9, 20, 3]
    expected = batches(Subset(plain(pixels, files(root)), subset))
    data = prebake.wrap(files(root), [pixels])
    batches(data)
    assert same(batches(prebake.wrap(Subset(data, subset))), expected)
    stacked.clear()
    [twice] = DataLoader(data, batch_size=3, sampler=[4, 5, 4])
    assert not stacked
    twice[0] += 1
    assert torch.equal(twice[0], twice[2] + 1)


def test_what_is_written_to_a_batch_is_nobody_elses(connected: None, root: Path) -> None:
    expected = batches(plain(pixels, files(root)))
    data = prebake.wrap(files(root), [pixels])
    for _ in range(3):
        found = batches(data)
        assert same(found, expected)
        for batch in found:
            batch.add_(1)
    in_order = DataLoader(data, batch_size=COUNT)
    for _ in range(2):
        [whole] = in_order
        assert torch.equal(whole, torch.stack([torch.as_tensor(each) for each in plain(pixels, files(root))]))
        whole.zero_()


def test_who_puts_batches_together_itself_is_given_elements(connected: None, root: Path) -> None:
    data = prebake.wrap(files(root), [pixels])
    batches(data)
    seen: list[Any] = []

    def own(elements: list[Any]) -> Any:
        seen.extend(elements)
        return torchs.default_collate(elements)

    found = batches(data, collate_fn=own)
    assert same(found, batches(plain(pixels, files(root))))
    assert len(seen) == COUNT and all(type(each) is np.ndarray for each in seen)
    assert all(type(each) is np.ndarray for each in data.__getitems__([1, 2]))
    named_data = prebake.wrap(files(root), [named])
    for _ in range(2):
        assert same(batches(named_data), batches(plain(named, files(root))))


def test_what_makes_no_tensor_is_counted_once(connected: None, root: Path) -> None:
    batches(prebake.wrap(files(root), [named]))
    data = prebake.wrap(files(root), [named])
    for epoch in 1, 2:
        batches(data)
        assert data.stats()["reused"] == epoch * COUNT


def scaled(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return torch.stack([torch.as_tensor(each) for each in batch]).float() / 255


def own_collate(batch: Any) -> Any:
    return torch.stack([torch.as_tensor(each) for each in batch]) + 1


@pytest.mark.parametrize("workers", WORKERS[:2], ids=["job", "fork"])
def test_what_a_job_put_in_the_place_of_torchs_own_is_called(
    connected: None, root: Path, monkeypatch: pytest.MonkeyPatch, workers: dict[str, Any]
) -> None:
    data = prebake.wrap(files(root), [pixels])
    batches(data)
    with monkeypatch.context() as patched:
        patched.setitem(torchs.default_collate_fn_map, np.ndarray, scaled)
        assert same(batches(data, **workers), batches(plain(pixels, files(root))))
    with monkeypatch.context() as patched:
        patched.setattr(torchs, "default_collate", own_collate)
        assert same(batches(data, **workers), batches(plain(pixels, files(root))))
    assert same(batches(data, **workers), batches(plain(pixels, files(root))))


class Nested(IterableDataset):
    """A loader in a loader's worker."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __iter__(self) -> Any:
        for batch in DataLoader(self.data, batch_size=5):
            yield batch.float().mean()


def test_a_loader_in_a_worker_and_a_default_device(connected: None, root: Path) -> None:
    data = prebake.wrap(files(root), [pixels])
    batches(data)
    whole = plain(pixels, files(root))
    options = {"batch_size": None, **WORKERS[1], "num_workers": 1}
    assert same(list(DataLoader(Nested(data), **options)), list(DataLoader(Nested(whole), **options)))
    for workers in (WORKERS[1], WORKERS[0]):
        begun = [iter(DataLoader(each, batch_size=5, **workers)) for each in (data, whole)]
        with torch.device("meta"):
            [ours, torchs_own] = [[batch.device.type for batch in each] for each in begun]
        assert ours == torchs_own


def test_samples_that_are_no_pairs_are_the_data_sets_own(connected: None, root: Path) -> None:
    data = Folder(root)
    wrapped = prebake.wrap(data)
    batches(wrapped)
    data.samples = [(*sample, "more") for sample in data.samples]
    with pytest.raises(ValueError, match="too many values"):
        wrapped[3]
    data.samples = [sample[:2] for sample in data.samples]
    assert same(batches(wrapped), batches(data))


def test_an_edited_file_is_seen_in_the_next_batch(connected: None, tmp_path: Path) -> None:
    for i in range(COUNT):
        (tmp_path / f"{i:02}.txt").write_text(str(i))
    time.sleep(2.1)
    data = prebake.wrap(files(tmp_path), [pixels])
    batches(data)
    batches(data)
    (tmp_path / "03.txt").write_text("99")
    assert same(batches(data), batches(plain(pixels, files(tmp_path))))


def test_what_is_gone_on_its_way_is_made_again(connected: None, root: Path, daemon: PrivateDaemon) -> None:
    # Which warnings are errors is a part of what a data set is: here none are, as where one is looked for.
    warnings.simplefilter("always")
    data = prebake.wrap(files(root), [floats])
    [expected] = DataLoader(data, batch_size=COUNT)
    warm = data._pipeline.client.collection.warm_read()
    assert warm is not None
    sent = warm.sent(list(range(COUNT)), (data._pipeline.token, data._pipeline.identity()))
    assert len(pickle.dumps(sent)) < expected.nbytes / 10
    assert same(pickle.loads(pickle.dumps(sent)), expected)
    received, (by, places, boot_id, spans, layout) = sent.__reduce__()
    gone = [(9999, 0, 64)] * COUNT
    # Of another start of the daemon; of a segment that was dropped.
    assert same(received(by, places, boot_id + 1, spans, layout), expected)
    assert same(received(by, places, boot_id, gone, layout), expected)
    # A copy of the data set stands in for it, unless it is another one now.
    copies = [pickle.loads(pickle.dumps(data)) for _ in range(3)]
    copies[0].transforms[:] = [pixels]
    copies[2].transforms[:] = [pixels]
    token = by[0]
    del data
    assert same(received(by, places, boot_id, gone, layout), expected)
    daemon.stop()
    with pytest.warns(prebake.PrebakeWarning, match="no cache"):
        assert same(received(by, places, boot_id, gone, layout), expected)
    copies[1].transforms[:] = [pixels]
    gc.collect()
    with pytest.raises(RuntimeError, match="changed here"):
        received(by, places, boot_id, gone, layout)
    runtime_daemon._current = None
    del copies
    gc.collect()
    prebake.wrap(files(root), [pixels])
    assert token not in collated._makers
