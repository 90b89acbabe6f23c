"""Which transforms are random: marks, the user's register, tables, and what code shows."""

from __future__ import annotations

import functools
import pickle
import random
from typing import Any

import pytest

import prebake
from prebake.known import classes, marks
from prebake.known import determinism as judged
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


def determinism(transform: Any) -> judged.Verdict:
    """By marks and tables, and then by what its code shows."""
    known = judged.known(transform)
    if known.kind != judged.UNKNOWN:
        return known
    try:
        prebake.fingerprint(transform)
    except prebake.Refused as refused:
        differs = refused.code in (Code.RANDOM, Code.CLOCK, Code.UNSTABLE)
        return judged.Verdict(judged.RANDOM if differs else judged.UNKNOWN, str(refused))
    return judged.Verdict(judged.DETERMINISTIC)


def test_marks_decide_before_anything_else() -> None:
    assert determinism(prebake.random(steady)).kind == "random"
    assert determinism(vouched).kind == determinism(Vouched()).kind == "deterministic"
    assert determinism(prebake.pure(functools.partial(drawing, 1))).kind == "deterministic"
    assert (judged.tolerance(vouched), judged.tolerance(Vouched()), judged.tolerance(steady)) == (
        1e-3,
        None,
        None,
    )
    assert vouched(1.0) >= 1 and prebake.pure(functools.partial(drawing))(1.0) >= 1
    assert pickle.loads(pickle.dumps(vouched)) is vouched


class Marked:
    offset = 1

    @prebake.random
    def shaken(self, x: float) -> float:
        """Adds noise."""
        return random.random() + x + self.offset

    @prebake.random
    @staticmethod
    def still(x: float) -> float:
        return x

    @prebake.pure(tolerance=0.5)
    @classmethod
    def moved(cls, x: float) -> float:
        return x + cls.offset


def test_a_marked_method_is_bound() -> None:
    one = Marked()
    one.offset = 2
    assert 3 <= one.shaken(1.0) < 4 and 2 <= Marked.shaken(Marked(), 1.0) < 3
    assert one.still(1.0) == Marked.still(1.0) == 1.0
    assert one.moved(1.0) == Marked.moved(1.0) == 2.0
    assert determinism(one.shaken).kind == determinism(Marked.shaken).kind == "random"
    assert determinism(one.moved).kind == "deterministic" and judged.tolerance(one.moved) == 0.5
    assert Marked.shaken.__doc__ == one.shaken.__doc__ == "Adds noise."
    sent = pickle.loads(pickle.dumps(one.shaken))
    assert determinism(sent).kind == "random" and 3 <= sent(1.0) < 4
    assert pickle.loads(pickle.dumps(Marked.shaken)) is Marked.shaken


def test_code_shows_what_no_table_knows() -> None:
    assert determinism(steady).kind == "deterministic"
    assert determinism(drawing).kind == "random"
    assert "random.random" in determinism(drawing).reason
    assert determinism(lambda x: x.read()).kind == "deterministic"
    assert determinism(lambda x: globals()[x]).kind == "unknown"


def test_classes_can_be_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "registered", {})
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
