"""The real torch and torchvision: the same batches with and without, and nothing made twice."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import make_images
from PIL import Image

import prebake
from prebake.demo.daemon import PrivateDaemon
from prebake.proof.canaries import CANARIES_MAX
from prebake.runtime import daemon as runtime_daemon

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

import torch_kinds as kinds  # noqa: E402
from torch.utils import data as torch_data  # noqa: E402

COUNT = 24
#: A file written so recently that a later write could not be told is loaded once more.
RACY_SECONDS = 2.1
KINDS = ["old", "new", "fixed", "joint", "voc", "tensors"]
#: Loaders: in the job, and in workers of both sorts.
LOADERS: dict[str, dict[str, Any]] = {
    "job": {},
    "fork": {"num_workers": 2, "multiprocessing_context": "fork"},
    "spawn": {"num_workers": 2, "multiprocessing_context": "spawn", "persistent_workers": True},
}
#: Not all of them: a probe takes seconds.
CASES = [
    (kind, loader)
    for kind in KINDS
    for loader in LOADERS
    if loader != "spawn" or kind in ("old", "new", "joint")
]
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images in two class folders, and a VOCdevkit of them."""
    root = tmp_path_factory.mktemp("made")
    for i, path in enumerate(make_images(root / "all", COUNT, (120, 160))):
        folder = root / "images" / f"class{i % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, folder)
    voc = root / "VOCdevkit" / "VOC2012"
    for name in ("JPEGImages", "SegmentationClass", "ImageSets/Segmentation"):
        (voc / name).mkdir(parents=True)
    for path in (root / "all").iterdir():
        shutil.copy2(path, voc / "JPEGImages")
        Image.open(path).convert("L").save(voc / "SegmentationClass" / f"{path.stem}.png")
    names = sorted(path.stem for path in (root / "all").iterdir())
    (voc / "ImageSets" / "Segmentation" / "train.txt").write_text("\n".join(names))
    time.sleep(RACY_SECONDS)
    return root


class Cache:
    """The daemon, and the decodes of its jobs."""

    def __init__(self, daemon: PrivateDaemon, folder: Path, env: pytest.MonkeyPatch) -> None:
        self.daemon, self._folder, self._env = daemon, folder, env
        self.count_as("cached")

    def count_as(self, name: str) -> None:
        """Decodes from now on are of that name, in workers too."""
        self._env.setenv("PREBAKE_TEST_DECODES", str(self._folder / name))

    def decodes(self, name: str = "cached") -> int:
        path = self._folder / name
        return path.stat().st_size if path.exists() else 0

    def plain(self, make: Callable[[], Any]) -> Any:
        """Without Prebake, and without counting."""
        self.count_as("plain")
        try:
            return make()
        finally:
            self.count_as("cached")

    def process(self, **task: Any) -> dict[str, Any]:
        """A second job."""
        # By import: what is in a script of its own is not what is in a module.
        program = [sys.executable, "-c", "import torch_kinds; torch_kinds.main()", json.dumps(task)]
        done = subprocess.run(program, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def cache(
    connected: None, daemon: PrivateDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cache]:
    monkeypatch.setenv("PREBAKE_AUTOSTART", "0")
    with warnings.catch_warnings():
        # Whatever is not cached says so, and fails the test.
        warnings.simplefilter("error", prebake.PrebakeWarning)
        yield Cache(daemon, tmp_path, monkeypatch)


def another_job() -> None:
    runtime_daemon._current = None


@pytest.mark.parametrize(("kind", "loader"), CASES)
def test_bit_identical(cache: Cache, made: Path, kind: str, loader: str) -> None:
    options = LOADERS[loader]
    plain = cache.plain(lambda: kinds.epochs(kinds.dataset(kind, str(made)), **options))
    cold = kinds.epochs(prebake.wrap(kinds.dataset(kind, str(made))), **options)
    assert cold == plain
    another_job()
    before = cache.decodes()
    assert kinds.epochs(prebake.wrap(kinds.dataset(kind, str(made))), **options) == plain
    assert cache.decodes() == before
    if kind not in ("fixed", "tensors"):
        # Never frozen: not one batch of the second epoch was in the first, nor another seed's.
        assert not set(plain[0]) & set(plain[1])
        other = kinds.epochs(prebake.wrap(kinds.dataset(kind, str(made))), number=8, **options)
        assert not {*plain[0], *plain[1]} & {*other[0], *other[1]}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images that take long enough to decode, on any machine, that this is worth a place of its own: several
    scans of many coefficients for each byte that is stored."""
    root = tmp_path_factory.mktemp("large")
    for path in make_images(root / "all", 8, (600, 800), progressive=True):
        (root / "images" / "one").mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, root / "images" / "one")
    time.sleep(RACY_SECONDS)
    return root


def test_another_process_with_another_order(cache: Cache, made: Path) -> None:
    kinds.epochs(prebake.wrap(kinds.dataset("new", str(made))))
    assert cache.decodes() == COUNT
    options = {"batch_size": 5, "number": 3, "num_workers": 2}
    task = {"kind": "new", "root": str(made), "options": options}
    second = cache.process(**task)
    # Another program is another world: each of its workers may compute a few again, and compares them.
    assert second["said"] == [] and COUNT <= cache.decodes() <= COUNT + 2 * CANARIES_MAX
    cache.count_as("plain")
    assert second["found"] == cache.process(**task, wrapped=False)["found"]


def test_what_is_before_a_changed_step_is_shared(cache: Cache, large: Path) -> None:
    # Another size, by which the decoded images are known to be wanted twice; then other pipelines over them.
    for kind, size, decodes in (("new", 400, 8), ("new", 420, 16), ("new", 440, 16), ("fixed", 400, 16)):
        plain = cache.plain(lambda: kinds.epochs(kinds.dataset(kind, str(large), size)))  # noqa: B023
        assert kinds.epochs(prebake.wrap(kinds.dataset(kind, str(large), size))) == plain
        another_job()
        assert cache.decodes() == decodes


def samplers(data: Any) -> dict[str, dict[str, Any]]:
    weights = [1.0 + i % 3 for i in range(len(data))]
    return {
        "weighted": {"sampler": torch_data.WeightedRandomSampler(weights, 20)},
        "distributed": {"sampler": torch_data.DistributedSampler(data, num_replicas=2, rank=1, seed=5)},
        "batches": {
            "batch_sampler": torch_data.BatchSampler(torch_data.SequentialSampler(data), 7, False),
            "batch_size": 1,
        },
        "single": {"batch_size": None},
    }


@pytest.mark.parametrize("name", ["weighted", "distributed", "batches", "single"])
def test_samplers(cache: Cache, made: Path, name: str) -> None:
    def run(data: Any) -> Any:
        return kinds.epochs(data, shuffle=name == "single", **samplers(data)[name])

    plain = cache.plain(lambda: run(kinds.dataset("new", str(made))))
    assert run(prebake.wrap(kinds.dataset("new", str(made)))) == plain
    another_job()
    before = cache.decodes()
    assert run(prebake.wrap(kinds.dataset("new", str(made)))) == plain and cache.decodes() == before <= COUNT


def of_parts(name: str, wrap: Callable[[Any], Any], root: str) -> Any:
    """Data sets of data sets: wrapped inside (by torch, later) and as a whole."""
    whole = kinds.dataset("new", root)
    return {
        "subset": lambda: wrap(torch_data.Subset(whole, [5, 3, 8, 1])),
        "of wrapped": lambda: torch_data.Subset(wrap(whole), [5, 3, 8, 1]),
        "split": lambda: wrap(
            torch_data.random_split(whole, [0.5, 0.5], torch.Generator().manual_seed(1))[1]
        ),
        "added": lambda: wrap(whole) + wrap(kinds.dataset("fixed", root, 24)),
        "concat": lambda: wrap(torch_data.ConcatDataset([whole, kinds.dataset("fixed", root, 24)])),
        "of concat": lambda: wrap(torch_data.Subset(torch_data.ConcatDataset([whole, whole]), [2, 30, 6])),
    }[name]()


@pytest.mark.parametrize("name", ["subset", "of wrapped", "split", "added", "concat", "of concat"])
def test_data_sets_of_data_sets(cache: Cache, made: Path, name: str) -> None:
    plain = cache.plain(lambda: kinds.epochs(of_parts(name, lambda data: data, str(made)), batch_size=4))
    assert kinds.epochs(of_parts(name, prebake.wrap, str(made)), batch_size=4) == plain
    another_job()
    before = cache.decodes()
    assert kinds.epochs(of_parts(name, prebake.wrap, str(made)), batch_size=4) == plain
    assert cache.decodes() == before <= COUNT * 2


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_with_state(cache: Cache, made: Path, workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def loader(data: Any) -> Any:
        kinds.seed(4)
        return stateful(
            data, batch_size=4, shuffle=True, num_workers=workers, worker_init_fn=kinds.seed_worker
        )

    def stopped(data: Any) -> list[str]:
        """Some batches, and the rest from another loader."""
        first, found = loader(data), []
        for batch in first:
            found.append(kinds.digest(batch))
            if len(found) == 2:
                break
        second = loader(data)
        second.load_state_dict(first.state_dict())
        return found + [kinds.digest(batch) for batch in second]

    plain = cache.plain(lambda: stopped(kinds.dataset("fixed", str(made))))
    assert len(plain) == COUNT / 4
    assert stopped(prebake.wrap(kinds.dataset("fixed", str(made)))) == plain
    assert cache.decodes() == COUNT


def test_it_looks_like_what_it_wraps(cache: Cache, made: Path) -> None:
    plain = kinds.dataset("fixed", str(made))
    wrapped = prebake.wrap(plain)
    assert isinstance(wrapped, kinds.ImageFolder) and isinstance(wrapped, torch_data.Dataset)
    assert len(wrapped) == COUNT and wrapped.classes == plain.classes and wrapped.targets == plain.targets
    # As frameworks rewrap: by what the loader says of itself.
    first = torch_data.DataLoader(wrapped, batch_size=4)
    again = torch_data.DataLoader(first.dataset, batch_size=first.batch_size, collate_fn=first.collate_fn)
    expected = cache.plain(lambda: [kinds.digest(plain[i]) for i in range(COUNT)])
    assert [kinds.digest(list(batch)) for batch in again] == cache.plain(
        lambda: [kinds.digest(list(batch)) for batch in torch_data.DataLoader(plain, batch_size=4)]
    )
    for other in (copy.deepcopy(wrapped), copy.copy(wrapped), pickle.loads(pickle.dumps(wrapped))):
        assert isinstance(other, kinds.ImageFolder)
        assert [kinds.digest(other[i]) for i in range(COUNT)] == expected
    assert cache.decodes() == COUNT
    wrapped.transform = kinds.fixed(20)
    assert plain.transform.transforms[1].size == [20, 20] and wrapped[0][0].shape == (3, 20, 20)


def test_tensors_come_back_as_they_were() -> None:
    from torchvision import tv_tensors

    from prebake.codec import values

    numbers = torch.arange(24, dtype=torch.uint8).reshape(2, 4, 3)
    boxes = torch.tensor([[0.0, 1.0, 2.0, 3.0]])
    given = [
        numbers.permute(2, 0, 1),
        numbers[:1].permute(2, 0, 1),
        tv_tensors.Image(numbers.permute(2, 0, 1)),
        tv_tensors.Mask(numbers),
        tv_tensors.Video(numbers[None]),
        tv_tensors.BoundingBoxes(boxes, format="XYWH", canvas_size=(5, 6), clamping_mode=None),
        tv_tensors.KeyPoints(boxes[:, :2], canvas_size=(5, 6)),
        torch.empty(0, 3),
    ]
    for value in given:
        layout, parts = values.encode(value)
        back = values.decode(layout, bytearray(b"".join(map(bytes, parts))))
        assert type(back) is type(value) and vars(back) == vars(value)
        assert back.stride() == value.stride() and back.dtype == value.dtype and torch.equal(back, value)
    with torch.inference_mode():
        inferred = torch.arange(4) * 2
    for value in (inferred, numbers):
        layout, parts = values.encode(value)
        for read_in in (torch.inference_mode(), torch.no_grad()):
            with read_in:
                back = values.decode(layout, bytearray(b"".join(map(bytes, parts))))
            assert back.is_inference() is value.is_inference() and torch.equal(back, value)
    for value in (numbers[:, ::2], numbers.expand(3, 2, 4, 3), torch.nn.Parameter(boxes)):
        with pytest.raises(prebake.Refused):
            values.encode(value)
    tagged = torch.zeros(2)
    tagged.name_of_mine = 1  # type: ignore[attr-defined]
    with pytest.raises(prebake.Refused):
        values.encode(tagged)


@pytest.mark.usefixtures("connected")
def test_a_subset_that_counts_from_the_end_asks_so() -> None:
    """What a data set makes of a negative number, only it knows."""
    plain = _Signed()
    wrapped = prebake.wrap(plain)
    for made in (
        lambda each: torch_data.Subset(each, [-1, 2]),
        lambda each: torch_data.Subset(torch_data.Subset(each, [3, -2]), [1, 0]),
        lambda each: torch_data.ConcatDataset([each, torch_data.Subset(each, [-1, 2])]),
    ):
        expected = [made(plain)[i].tolist() for i in range(len(made(plain)))]
        for subset in (prebake.wrap(made(plain)), made(wrapped), prebake.wrap(made(wrapped))):
            for _ in range(2):
                assert [subset[i].tolist() for i in range(len(subset))] == expected
    kept = [1, 2]
    subset = prebake.wrap(torch_data.Subset(plain, kept))
    assert subset[0].tolist() == [1, 6]
    kept[0] = -1
    assert subset[0].tolist() == [-1, 6]


class _Signed(torch_data.Dataset):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> Any:
        return torch.tensor([i, 6])
