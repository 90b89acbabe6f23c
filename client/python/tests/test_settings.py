"""Every setting that is asked for decides something: each is switched alone, and exactly one entry sees it.

Without that entry nothing would: between two elements of one process a setting has no file, no argument and
no variable that tells. Those of packages are switched where the packages are (`make unstable` has all).
"""

from __future__ import annotations

import contextlib
import contextvars
import csv
import ctypes
import decimal
import functools
import locale
import logging
import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager as Around
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image, ImageFile

import prebake
from prebake.identity.snapshot import Snapshot
from prebake.world import ambient, package_settings, world

#: Down, up and to zero, as x86-64 has them.
ROUNDING = (0x400, 0x800, 0xC00) if platform.machine() == "x86_64" else ()
_VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("tests", default="")


class Switch(NamedTuple):
    """A setting that is switched within something; which entry notices that, and which tells it."""

    within: Callable[[], Around[Any]]
    noticed: str
    told: str
    around: Callable[[], Around[Any]] = contextlib.nullcontext


@contextlib.contextmanager
def called(get: Callable[[], Any], switch: Callable[[Any], Any], value: Any) -> Iterator[None]:
    """A setting that is set by a call, and set back by another."""
    before = get()
    switch(value)
    try:
        yield
    finally:
        switch(before)


def attribute(of: Any, name: str, value: Any) -> Around[None]:
    return called(lambda: getattr(of, name), functools.partial(setattr, of, name), value)


def of_torch(name: str, *args: Any, **kwargs: Any) -> Callable[[], Around[Any]]:
    """A `with` statement of torch's."""
    return lambda: getattr(pytest.importorskip("torch"), name)(*args, **kwargs)


def called_of_torch(get: str, switch: str, value: Any) -> Callable[[], Around[None]]:
    def around() -> Around[None]:
        torch = pytest.importorskip("torch")
        held = getattr(torch, value) if type(value) is str and hasattr(torch, value) else value
        return called(getattr(torch, get), getattr(torch, switch), held)

    return around


def deterministic(value: bool) -> Callable[[], Around[None]]:
    return called_of_torch("are_deterministic_algorithms_enabled", "use_deterministic_algorithms", value)


def casting(kind: str) -> Callable[[], Around[Any]]:
    def around() -> Any:
        torch = pytest.importorskip("torch")
        return torch.autocast("cpu", dtype=getattr(torch, kind))

    return around


def dispatching() -> Any:
    return pytest.importorskip("torch.utils._python_dispatch").TorchDispatchMode()


@contextlib.contextmanager
def raising() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


@contextlib.contextmanager
def trapping(signal: type[decimal.DecimalException]) -> Iterator[None]:
    traps = decimal.getcontext().traps
    traps[signal] = True
    try:
        yield
    finally:
        traps[signal] = False


@contextlib.contextmanager
def flushing() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@contextlib.contextmanager
def rounding(way: int) -> Iterator[None]:
    """`fesetround` of the C library, by its number for a way."""
    library = ctypes.CDLL(None)
    library.fesetround(way)
    try:
        yield
    finally:
        library.fesetround(0)


@contextlib.contextmanager
def registered() -> Iterator[None]:
    csv.register_dialect("tests", delimiter=";")
    try:
        yield
    finally:
        csv.unregister_dialect("tests")


@contextlib.contextmanager
def renamed() -> Iterator[None]:
    logging.addLevelName(logging.INFO, "TESTS")
    try:
        yield
    finally:
        logging.addLevelName(logging.INFO, "INFO")
        del logging._nameToLevel["TESTS"]


@contextlib.contextmanager
def variable() -> Iterator[None]:
    token = _VARIABLE.set("set")
    try:
        yield
    finally:
        _VARIABLE.reset(token)


def elsewhere() -> Around[None]:
    other = "C" if locale.setlocale(locale.LC_NUMERIC) != "C" else "C.UTF-8"
    switch = functools.partial(locale.setlocale, locale.LC_NUMERIC)
    return called(lambda: locale.setlocale(locale.LC_NUMERIC), switch, other)


def of(module: str, name: str, *args: Any, **kwargs: Any) -> Callable[[], Around[Any]]:
    """A `with` statement of a package, if that is there."""
    return lambda: getattr(pytest.importorskip(module), name)(*args, **kwargs)


def also(switch: Switch, *marks: pytest.MarkDecorator) -> Any:
    return pytest.param(switch, marks=marks, id=f"{switch.told}-{switch.noticed}")


def flag(within: Callable[[], Around[Any]], name: str, **kwargs: Any) -> Any:
    return also(Switch(within, name, name, **kwargs), pytest.mark.torch)


SWITCHES = [
    flag(of_torch("no_grad"), "torch.is_grad_enabled"),
    flag(of_torch("inference_mode"), "torch.is_inference_mode_enabled", around=of_torch("no_grad")),
    flag(called_of_torch("get_num_threads", "set_num_threads", 7), "torch.get_num_threads"),
    # The first call imports what filters warnings.
    flag(deterministic(True), "torch.are_deterministic_algorithms_enabled", around=deterministic(False)),
    flag(
        called_of_torch("get_float32_matmul_precision", "set_float32_matmul_precision", "medium"),
        "torch.get_float32_matmul_precision",
    ),
    also(
        Switch(of_torch("device", "meta"), "prebake.world.ambient.torch_modes", "modes of torch"),
        pytest.mark.torch,
    ),
    flag(dispatching, "torch._C._len_torch_dispatch_stack"),
    also(
        Switch(
            lambda: called(
                pytest.importorskip("cv2").getNumThreads, pytest.importorskip("cv2").setNumThreads, 7
            ),
            "cv2.getNumThreads",
            "cv2.getNumThreads",
        )
    ),
    also(
        Switch(
            lambda: called(
                pytest.importorskip("cv2").useOptimized, pytest.importorskip("cv2").setUseOptimized, False
            ),
            "cv2.useOptimized",
            "cv2.useOptimized",
        )
    ),
    flag(
        lambda: attribute(
            pytest.importorskip("torchvision.tv_tensors._torch_function_helpers"),
            "_TORCHFUNCTION_SUBCLASS",
            True,
        ),
        "torchvision.tv_tensors._torch_function_helpers._TORCHFUNCTION_SUBCLASS",
    ),
    also(Switch(casting("bfloat16"), "torch", "torch"), pytest.mark.torch),
    also(Switch(casting("float16"), "torch", "torch", casting("bfloat16")), pytest.mark.torch),
    also(
        Switch(called_of_torch("get_default_dtype", "set_default_dtype", "float64"), "torch", "torch"),
        pytest.mark.torch,
    ),
    also(Switch(of("mpmath", "workdps", 40), "mpmath", "mpmath"), pytest.mark.torch),
    also(Switch(of("sklearn", "config_context", transform_output="pandas"), "sklearn", "sklearn")),
    also(Switch(of("matplotlib", "rc_context", {"lines.linewidth": 9}), "kept", "matplotlib")),
    also(Switch(of("pandas", "option_context", "display.max_rows", 7), "kept", "pandas options")),
    also(
        Switch(
            lambda: called(sys.getrecursionlimit, sys.setrecursionlimit, sys.getrecursionlimit() + 1),
            "sys.getrecursionlimit",
            "interpreter",
        )
    ),
    also(
        Switch(
            lambda: called(sys.get_int_max_str_digits, sys.set_int_max_str_digits, 0),
            "sys.get_int_max_str_digits",
            "interpreter",
        )
    ),
    also(
        Switch(
            lambda: called(csv.field_size_limit, csv.field_size_limit, 9), "_csv.field_size_limit", "dialects"
        )
    ),
    also(Switch(registered, "tables", "dialects")),
    also(Switch(renamed, "tables", "names of logging's levels")),
    also(Switch(elsewhere, "locale", "locale")),
    also(
        Switch(
            lambda: attribute(decimal.getcontext(), "prec", 9),
            "prebake.world.ambient.decimal_context",
            "contexts",
        )
    ),
    also(
        Switch(
            lambda: trapping(decimal.Inexact),
            "prebake.world.ambient.decimal_context",
            "contexts",
        )
    ),
    also(Switch(flushing, "prebake.world.ambient.arithmetic", "arithmetic"), pytest.mark.torch),
    *(
        also(Switch(functools.partial(rounding, way), "prebake.world.ambient.arithmetic", "arithmetic"))
        for way in ROUNDING
    ),
    also(Switch(variable, "kept", "contexts")),
    also(Switch(raising, "kept", "raising_warnings")),
    also(Switch(lambda: np.errstate(divide="raise"), "kept", "numpy_errors")),
    also(Switch(lambda: attribute(Image, "MAX_IMAGE_PIXELS", 9), "PIL.Image.MAX_IMAGE_PIXELS", "pillow")),
    also(
        Switch(
            lambda: attribute(ImageFile, "LOAD_TRUNCATED_IMAGES", True),
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES",
            "pillow",
        )
    ),
]


def noticed() -> dict[str, Any]:
    """What is asked before each element, by the name of each entry."""
    tables = [dict(each) for each in ambient.tables()]
    return {**dict(ambient.said()), "kept": list(map(id, ambient.kept())), "tables": tables}


def other(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """Names of entries that are not what they were."""
    return {name for name in before | after if before.get(name) != after.get(name)}


def beside(general: str, names: set[str]) -> set[str]:
    """Without an entry that stands for many, unless there is no other."""
    return names - {general} or names


@pytest.mark.parametrize("switch", SWITCHES)
def test_what_is_switched_is_seen_by_one_entry_alone(switch: Switch) -> None:
    with switch.around():
        within = switch.within()
        seen, asked, told, here = ambient.Seen(), noticed(), dict(ambient.values()), world.current()
        before_each = Snapshot([])
        assert before_each.holds([])
        with within:
            assert ambient.Seen() != seen and not before_each.holds([])
            # One release of torch keeps a flag in a context variable too, others do not.
            assert beside("kept", other(asked, noticed())) == {switch.noticed}
            assert beside("contexts", other(told, dict(ambient.values()))) == {switch.told}
            there = world.current()
            assert here is not None and there is not None and there.digest != here.digest
        assert (ambient.Seen(), dict(ambient.values())) == (seen, told)


def test_every_entry_is_switched() -> None:
    switched = [each.values[0] for each in SWITCHES]
    entries = {f"{module}.{name}" for module, name in ambient.SETTINGS if name != "kept"}
    entries |= {"locale", "kept", "tables", *(tells.__name__ for _, tells in package_settings.ASKED)}
    assert {each.noticed for each in switched} == entries
    told = {f"{module}.{name}" for module, name, _ in ambient._FLAGS}
    told |= {"contexts", "dialects", "locale", "pandas options", "arithmetic", "modes of torch"}
    told.add("names of logging's levels")
    assert {each.told for each in switched} == told | {tells.__name__ for tells in package_settings._ALL}


def test_nothing_is_told_of_what_is_as_at_first() -> None:
    for tells in (package_settings.numpy_errors, package_settings.matplotlib, package_settings.mpmath):
        assert tells() == {}


def test_a_variable_of_a_library_s_counts_for_what_uses_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    cv2 = pytest.importorskip("cv2")

    def read(path: str) -> Any:
        return cv2.imread(path)

    before = prebake.fingerprint(read)
    # Only an item of another size shows it.
    monkeypatch.setenv("OPENCV_IO_MAX_IMAGE_PIXELS", "5000")
    assert prebake.fingerprint(read) != before
