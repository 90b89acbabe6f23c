"""Stands for `tests/conftest.py` of Hugging Face datasets: a cache in a temporary folder, and one fixture."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds what another cached."""
    import datasets

    cache = Path(tmp_path_factory.mktemp("hf"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache / "datasets")
    monkeypatch.setattr(datasets.config, "HF_MODULES_CACHE", cache / "modules")
    datasets.disable_progress_bars()


@pytest.fixture
def set_sqlalchemy_silence_uber_warning() -> None:
    """Nothing: no test of a database is run."""
