"""Which transforms are random: marks, the user's register, tables, and what code shows."""

from __future__ import annotations

import functools
import pickle
import random
from typing import Any

import pytest

import prebake
from prebake.known import classes, marks
from prebake.runtime.errors import Code


def steady(x: Any) -> Any:
    return x


def drawing(x: Any) -> Any:
    return random.random() + x


@prebake.pure(tolerance=1e-3)
def vouched(x: Any) -> Any:
    return random.random() + x


@prebake.pure
class Vouched:
    def __call__(self, x: Any) -> Any:
        return random.random() + x


class Own:
    def __call__(self, x: Any) -> Any:
        return x


def determinism(transform: Any) -> marks.Verdict:
    """By marks and tables, and then by what its code shows."""
    known = marks.known(transform)
    if known.kind != marks.UNKNOWN:
        return known
    try:
        prebake.fingerprint(transform)
    except prebake.Refused as refused:
        differs = refused.code in (Code.RANDOM, Code.CLOCK, Code.UNSTABLE)
        return marks.Verdict(marks.RANDOM if differs else marks.UNKNOWN, str(refused))
    return marks.Verdict(marks.DETERMINISTIC)


def test_marks_decide_before_anything_else() -> None:
    assert determinism(prebake.random(steady)).kind == "random"
    assert determinism(vouched).kind == determinism(Vouched()).kind == "deterministic"
    assert determinism(prebake.pure(functools.partial(drawing, 1))).kind == "deterministic"
    assert (marks.tolerance(vouched), marks.tolerance(Vouched()), marks.tolerance(steady)) == (
        1e-3,
        None,
        None,
    )
    assert vouched(1.0) >= 1 and prebake.pure(functools.partial(drawing))(1.0) >= 1
    assert pickle.loads(pickle.dumps(vouched)) is vouched


def test_code_shows_what_no_table_knows() -> None:
    assert determinism(steady).kind == "deterministic"
    assert determinism(drawing).kind == "random"
    assert "random.random" in determinism(drawing).reason
    assert determinism(lambda x: x.read()).kind == "deterministic"
    assert determinism(lambda x: globals()[x]).kind == "unknown"


def test_classes_can_be_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "_registered", {})
    assert determinism(Own()).kind == "deterministic"
    prebake.register(Own, "random")
    assert determinism(Own()).kind == "random"
    assert determinism([Own(), steady]).kind == "random"
    with pytest.raises(prebake.Refused):
        prebake.fingerprint(Own())
    prebake.register(Own, "deterministic")
    assert determinism(Own()).kind == "deterministic"
    with pytest.raises(ValueError):
        prebake.register(Own, "seeded")


def test_the_tables_say_only_what_they_may() -> None:
    verdicts = {verdict for table in classes.CLASSES.values() for verdict in table.values()}
    assert verdicts == {classes.RANDOM, classes.DETERMINISTIC, classes.CONTAINER, classes.OPAQUE}


@pytest.mark.torch
def test_torch_modules_are_random_by_what_is_in_them() -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn
    assert determinism(nn.Sequential(nn.Linear(2, 2), nn.ReLU())).kind == "deterministic"
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.5)))
    assert determinism(model).kind == "random"
    assert determinism(model.eval()).kind == "deterministic"
    with pytest.raises(prebake.Refused):
        prebake.fingerprint(model.train())


@pytest.mark.torch
def test_a_model_is_known_by_its_weights() -> None:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(3, 3).eval()
    before = prebake.fingerprint(layer)
    with torch.no_grad():
        layer.weight[0, 0] += 1
    assert prebake.fingerprint(layer) != before


@pytest.mark.parametrize("package", sorted(classes.CLASSES))
def test_no_class_is_listed_that_all_of_its_package_says(package: str) -> None:
    listed = dict(classes.CLASSES[package])
    assert listed.pop("*", None) not in listed.values()
