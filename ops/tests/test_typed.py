"""What users get without a type is found, in functions, overloads and methods."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

LINT = Path(__file__).parent.parent / "lint"
sys.path.insert(0, str(LINT))

import typed  # noqa: E402

PACKAGE = """
from __future__ import annotations
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, overload
if TYPE_CHECKING:
    from nowhere import Array
def known(x: int, *more: str) -> dict[str, list[int]]: ...
def foreign(x: int) -> Array[Any] | None: ...
def takes(x: Any) -> Callable[[Any], int]: ...
def anything(x: int) -> Any: ...
def held(x: int) -> Iterator[list[Any]]: ...
def bare(x: int) -> dict: ...
def made(x: int) -> Callable[..., Any]: ...
def silent(x: int): ...
def given(x) -> int: ...
@overload
def either(x: int) -> int: ...
@overload
def either(x: str) -> Any: ...
def either(x): ...
class Thing:
    def __init__(self, x: int) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, i: int) -> Any: ...
    def method(self, x: int) -> None: ...
    @property
    def size(self) -> Any: ...
    def _own(self, x): ...
def _own(x): ...
"""
WITHOUT = {"Thing.__getitem__", "Thing.size", "anything", "bare", "either", "given", "held", "made", "silent"}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "untyped_package.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "untyped_package", raising=False)
    return "untyped_package"


def test_what_has_no_type_is_found(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = importlib.import_module(package)
    own = [name for name, value in vars(made).items() if getattr(value, "__module__", "") == package]
    monkeypatch.setattr(made, "__dir__", lambda: own, raising=False)
    monkeypatch.setattr(typed, "_OWN", typed._OWN | {package})
    assert set(typed.wanting(made)) == WITHOUT


def test_reasons_are_those_that_are_needed(tmp_path: Path) -> None:
    listed = json.loads((LINT / "public.json").read_text())
    done = check(tmp_path, listed)
    assert done.returncode == 0, done.stdout
    done = check(tmp_path, {**listed, "split": "none"})
    assert done.returncode == 1 and "prebake.split has its types" in done.stdout
    done = check(tmp_path, {})
    assert done.returncode == 1 and all(f"prebake.{name}: returns" in done.stdout for name in listed)


def check(folder: Path, reasons: dict[str, str]) -> subprocess.CompletedProcess[str]:
    file = folder / "reasons.json"
    file.write_text(json.dumps(reasons))
    command = [sys.executable, str(LINT / "typed.py"), "prebake", str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)
