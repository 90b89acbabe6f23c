"""Settings that packages keep in objects of their own: each is seen when it is switched on and off."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from prebake.identity import ambient, package_settings, world


@contextlib.contextmanager
def recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + 1)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@contextlib.contextmanager
def errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def drawn() -> Any:
    return pytest.importorskip("matplotlib").rc_context({"lines.linewidth": 9})


def configured() -> Any:
    return pytest.importorskip("sklearn").config_context(transform_output="pandas")


def precise() -> Any:
    return pytest.importorskip("mpmath").workdps(40)


def raising() -> Any:
    return np.errstate(divide="raise")


@pytest.mark.parametrize("switch", [recursion, errors, raising, drawn, configured, precise])
def test_what_is_switched_is_another_world(switch: Callable[[], Any]) -> None:
    around = switch()
    before = ambient.Seen(), dict(package_settings.changed())
    here = world.current()
    with around:
        within = ambient.Seen(), dict(package_settings.changed())
        assert within[0] != before[0] and within[1] != before[1]
        there = world.current()
        assert here is not None and there is not None and there.digest != here.digest
    assert (ambient.Seen(), dict(package_settings.changed())) == before


def test_nothing_is_told_of_what_is_as_at_first() -> None:
    for tells in (package_settings.numpy_errors, package_settings.matplotlib, package_settings.mpmath):
        assert tells() == {}
