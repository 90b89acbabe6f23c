"""A description is not made again only where a look compares all that it was made of."""

from __future__ import annotations

import builtins
import functools
import os
import pathlib
import pkgutil
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng
from PIL import Image, ImageOps
from PIL.ImageOps import flip, invert

import prebake
from prebake.encoding.watch import Watch
from prebake.identity.code import Identity, identify
from prebake.identity.snapshot import Snapshot
from prebake.pipeline.subgraph import Subgraph, Taken
from prebake.runtime import packages

SIZE = 3
MEANS = [0.5, 0.25]
PAIR = (1, [2, 3])
OPTIONS = {"size": 3}
WEIGHTS = np.arange(4)
TRAIN, VALID = ["a", "b"], ["c"]
LONG = list(range(70_000))
ROWS = [[i, i + 1] for i in range(100)]


class Settings:
    size = 3


SETTINGS = Settings()
#: What is set in an installed class is compared too.
Image.Exif.of_tests = 1  # type: ignore[attr-defined]
space = types.ModuleType("a_module_of_the_users")
vars(space)["size"] = 3


def scaled(value: Any) -> Any:
    return value * SIZE


def over(size: int) -> Callable[[str], Any]:
    def step(path: str) -> Any:
        return len(path) * size

    return step


def whole(path: str, by: int = 2) -> Any:
    """All that is compared: builtins, installed functions and classes, numbers, lists, own functions."""
    path = path if path in TRAIN or path in VALID else path.strip()
    seed = abs(int(Path(path).read_text())) + by + len(MEANS) + PAIR[0]
    image = flip(invert(Image.fromarray(default_rng(seed).integers(0, 256, (2, 2), np.uint8))))
    image = ImageOps.mirror(image) if os.getenv("A_NAME") else image
    return scaled(np.asarray(image, np.float32))


def described(*steps: Any) -> tuple[list[Identity], Snapshot, Any]:
    held, watch = Snapshot(steps), Watch()
    return [identify(step, watch=watch) for step in steps], held, watch.watched(held)


def other(value: Any) -> Any:
    return value


CLOSED = over(4)
#: What changes what `whole` or `CLOSED` yields, by what it is of.
EDITS: dict[str, Callable[[pytest.MonkeyPatch], Any]] = {
    "a number": lambda p: p.setitem(globals(), "SIZE", 4),
    "a list": lambda p: MEANS.append(0.1),
    "a list in a tuple": lambda p: PAIR[1].append(4),
    "an element that goes from one list to the next": lambda p: VALID.append(TRAIN.pop(0)),
    "an element that goes back": lambda p: TRAIN.append(VALID.pop(0)),
    "a helper": lambda p: p.setitem(globals(), "scaled", other),
    "a helper's code": lambda p: p.setattr(scaled, "__code__", other.__code__),
    "a default": lambda p: p.setattr(whole, "__defaults__", (3,)),
    "a closure": lambda p: p.setattr(CLOSED.__closure__[0], "cell_contents", 5),  # type: ignore[index]
    "a global that hides a builtin": lambda p: p.setitem(globals(), "len", other),
    "a builtin": lambda p: p.setattr(builtins, "abs", other),
    "an installed module's function": lambda p: p.setattr(ImageOps, "mirror", other),
    "an installed module's name that stood for another": lambda p: p.setattr(np, "float32", np.float64),
    "an installed class's method": lambda p: p.setattr(pathlib.Path, "read_text", other),
    "an installed base's method": lambda p: p.setattr(pathlib.PurePath, "__fspath__", other),
    "a method added to what code is given": lambda p: p.setattr(
        Image.Image, "integers", other, raising=False
    ),
    "an attribute of a step": lambda p: p.setattr(whole, "size", 5, raising=False),
    "an attribute of a helper": lambda p: p.setattr(scaled, "size", 5, raising=False),
    "what a helper says that it wraps": lambda p: p.setattr(scaled, "__wrapped__", other, raising=False),
    "an installed function's code": lambda p: p.setattr(flip, "__code__", other.__code__),
    "what is under an installed function's name": lambda p: p.setattr(ImageOps, "invert", other),
    "what variables are in": lambda p: p.setattr(os.environ, "_data", {b"A_NAME": b"2"}),
    "how variables are read": lambda p: p.setattr(type(os.environ), "__getitem__", lambda self, name: "2"),
    "all variables": lambda p: p.setattr(os, "environ", {"A_NAME": "2"}),
    "an installed module": lambda p: p.setitem(globals(), "np", space),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_a_look_sees_every_edit_that_makes_another_description(
    edit: Callable[[pytest.MonkeyPatch], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "MEANS", [0.5, 0.25])
    monkeypatch.setitem(globals(), "PAIR", (1, [2, 3]))
    monkeypatch.setitem(globals(), "TRAIN", ["a", "b"])
    monkeypatch.setitem(globals(), "VALID", ["c"])
    steps = (whole, CLOSED)
    # The first look at a function makes the dictionary of its attributes.
    described(*steps)
    before, held, watched = described(*steps)
    assert watched is not None and held.holds(list(steps)) and watched.holds([])
    with monkeypatch.context() as patch:
        edit(patch)
        seen = not (held.holds(list(steps)) and watched.holds([]))
        after = _described_or_none(steps)
    assert after != before, "the edit changes nothing"
    assert seen


def _described_or_none(steps: Any) -> list[Identity] | None:
    try:
        return [identify(step) for step in steps]
    except prebake.Refused:
        return None


def with_dict(path: str) -> Any:
    return OPTIONS["size"]


def with_array(path: str) -> Any:
    return WEIGHTS.sum()


def with_instance(path: str) -> Any:
    return SETTINGS.size


def with_class(path: str) -> Any:
    return Settings.size


def with_module(path: str) -> Any:
    return space.size


def with_file(path: str) -> Any:
    return Path("/etc/hostname").read_text()


def with_import(path: str) -> Any:
    import json

    return json.loads(path)


def with_keywords(path: str, *, size: int = 3) -> Any:
    return size


def with_long_table(path: str) -> Any:
    return LONG[0]


def with_instance_of_a_module(path: str) -> Any:
    return np.s_[1]


def with_package(path: str) -> Any:
    return pkgutil.get_data("a_package_that_is_not_there", "file.txt")


def with_what_is_made_when_asked_for(path: str) -> Any:
    return np.nothing_of_that_name


def with_function_as_constant(path: str) -> Any:
    return 1234567


with_function_as_constant.__code__ = with_function_as_constant.__code__.replace(co_consts=(None, scaled))


def with_rows(path: str) -> Any:
    return ROWS[0][0]


def with_nothing(path: str) -> Any:
    return absent_name  # type: ignore[name-defined]  # noqa: F821


def with_attribute(path: str) -> Any:
    return path


with_attribute.size = 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "step",
    [
        with_dict,
        with_array,
        with_instance,
        with_class,
        with_module,
        with_file,
        with_import,
        with_keywords,
        with_long_table,
        with_rows,
        with_instance_of_a_module,
        with_package,
        with_what_is_made_when_asked_for,
        with_function_as_constant,
        with_nothing,
        with_attribute,
        functools.partial(whole, by=3),
        Settings(),
        bytearray(b"1"),
        [whole, {1}],
    ],
)
def test_what_a_look_does_not_compare_is_described_anew(step: Any) -> None:
    assert described(step)[2] is None


def test_a_variable_of_the_process_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(path: str) -> Any:
        return os.environ["A_NAME"]

    monkeypatch.setenv("A_NAME", "1")
    described(step)
    _, held, watched = described(step)
    assert watched is not None and held.holds([step]) and watched.holds([])
    monkeypatch.setenv("A_NAME", "2")
    assert not held.holds([step])


@pytest.mark.usefixtures("connected")
def test_an_epoch_of_what_is_compared_describes_nothing_and_sees_an_edit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "1.txt").write_text("1")
    wrapped = prebake.wrap([str(tmp_path / "1.txt")], [whole])
    epoch = lambda: [batch.tolist() for batch in wrapped.batches(size=1)]  # noqa: E731
    first = epoch()
    made: list[Any] = []
    monkeypatch.setattr(
        "prebake.pipeline.subgraph.identify", lambda *given: made.append(given) or identify(*given)
    )
    assert epoch() == first and not made
    monkeypatch.setitem(globals(), "SIZE", 5)
    assert epoch() != first and made
    assert packages.owner(__name__) is None


@pytest.mark.usefixtures("connected")
def test_what_is_opened_anew_by_another_thread_approves_of_nothing(tmp_path: Path) -> None:
    """What items of another cut were opened as is not known meanwhile; the job itself goes on."""
    files = [tmp_path / f"{i}.txt" for i in range(3)]
    for i, file in enumerate(files):
        file.write_text(str(i))
    wrapped = prebake.wrap(list(map(str, files)), [whole])
    list(wrapped.batches())
    pipeline = wrapped._pipeline
    assert pipeline._items.is_unchanged(True)
    pipeline._items.subgraph.close()
    assert not pipeline._items.is_unchanged(True)
    assert not pipeline.renew(closely=True)


@pytest.mark.usefixtures("connected")
def test_what_another_thread_closes_while_it_is_opened_is_served_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Subgraph.open

    def closed_at_once(subgraph: Subgraph, taken: Taken) -> bool:
        is_other = opened(subgraph, taken)
        subgraph.close()
        return is_other

    files = [tmp_path / f"{i}.txt" for i in range(3)]
    for i, file in enumerate(files):
        file.write_text(str(i))
    wrapped = prebake.wrap(list(map(str, files)), [whole])
    with monkeypatch.context() as patched:
        patched.setattr(Subgraph, "open", closed_at_once)
        with warnings.catch_warnings(record=True) as not_cached:
            warnings.simplefilter("always")
            (batch,) = wrapped.batches()
    assert len(batch) == 3 and not not_cached
