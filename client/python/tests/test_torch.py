"""The real torch and torchvision: the same batches with and without, and nothing made twice."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import make_images
from PIL import Image

import prebake
from prebake import _job
from prebake._demo_daemon import PrivateDaemon

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
pytestmark = [
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
        self._env.setenv("DECODES", str(self._folder / name))

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
        program = [sys.executable, str(Path(kinds.__file__)), json.dumps(task)]
        done = subprocess.run(program, capture_output=True, text=True, timeout=120)
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
    _job._current = None


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("kind", KINDS)
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
