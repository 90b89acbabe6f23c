"""The tripwire sees every draw from a shared generator, and puts back what was drawn."""

import ctypes
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from prebake.purity import generators, tripwire


@pytest.fixture(params=["as it lies in memory", "as documented"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of reading states; the second is for interpreters where the first fails its self-test."""
    # As in a job that asked for some already.
    monkeypatch.setattr(tripwire, "_asked", tripwire.DOCUMENTED)
    if request.param == "as documented":
        monkeypatch.setattr(generators, "_python_readable", lambda: False)
        monkeypatch.setattr(generators, "_numpy_cache", lambda: None)


def test_states_can_be_read_where_they_lie() -> None:
    # Else every fill would pay for the documented way.
    assert generators._python_readable() and generators._numpy_cache() is not None


def test_the_first_states_are_read_as_documented_and_hold_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    def tested() -> None:
        raise AssertionError("where states lie is tested before many are asked for")

    with monkeypatch.context() as early:
        early.setattr(tripwire, "_asked", 0)
        early.setattr(generators, "_python_readable", tested)
        early.setattr(generators, "_numpy_cache", tested)
        token = tripwire.state()
        assert tripwire.moved(token) is None
    monkeypatch.setattr(tripwire, "_asked", tripwire.DOCUMENTED)
    for draw, name in ((random.random, "random"), (np.random.random_sample, "numpy.random")):
        assert tripwire.moved(token) is None
        first = draw()
        assert tripwire.moved(token) == name
        tripwire.restore(token)
        assert draw() == first
        tripwire.restore(token)


#: What an element does that imports NumPy, and whether that counts as drawing.
FIRST = {
    "": False,
    "numpy.random.RandomState(3).rand()": False,
    "numpy.random.default_rng(3).random()": False,
    "numpy.random.rand()": True,
    "numpy.random.randn(3)": True,
    "numpy.random.seed(3)": True,
}


@pytest.mark.parametrize("does", FIRST)
def test_a_generator_that_comes_with_its_package_was_drawn_from_or_was_not(does: str) -> None:
    program = (
        "import sys\nfrom prebake.purity import tripwire\ntoken = tripwire.state()\n"
        "assert 'numpy' not in sys.modules\nimport numpy, numpy.random\n"
        f"{does}\nprint(tripwire.moved(token))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == ("numpy.random\n" if FIRST[does] else "None\n")


def test_after_some_comparisons_states_are_worth_taking_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tripwire, "_asked", 0)
    token = tripwire.state()
    for _ in range(tripwire.DOCUMENTED):
        assert not tripwire.is_slow(token) and tripwire.moved(token) is None
    assert tripwire.is_slow(token)
    token = tripwire.state()
    assert tripwire._holds(token) and not tripwire.is_slow(token)


def test_one_look_at_memory_tells_whether_anything_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tripwire, "_asked", tripwire.DOCUMENTED)
    token = tripwire.state()
    # The second deviate is the cached one.
    for draw in (random.random, np.random.random_sample, np.random.randn, np.random.randn):
        assert tripwire._holds(token)
        before = token
        draw()
        assert not tripwire._holds(before)
        token = tripwire.state()
    tripwire.restore(token)
    other = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.MT19937(3))
    assert not tripwire._holds(token)
    np.random.set_bit_generator(other)
    assert tripwire._holds(token)


DRAWS = {
    "random": [
        random.random,
        lambda: random.gauss(0, 1),
        lambda: random.getrandbits(1),
        lambda: random.seed(3),
    ],
    "numpy.random": [
        np.random.random_sample,
        np.random.randn,
        lambda: np.random.randint(2),
        lambda: np.random.binomial(10, 0.5),
        lambda: np.random.shuffle([1, 2]),
        lambda: np.random.seed(3),
    ],
}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("name", "draw"),
    [
        pytest.param(name, draw, id=f"{name}-{i}")
        for name, draws in DRAWS.items()
        for i, draw in enumerate(draws)
    ],
)
def test_every_draw_is_seen_and_undone(name: str, draw: Callable[[], Any]) -> None:
    def following() -> tuple[Any, ...]:
        return random.gauss(0, 1), random.random(), np.random.randn(3).tolist(), np.random.random_sample()

    token = tripwire.state()
    assert tripwire.moved(token) is None
    draw()
    assert tripwire.moved(token) == name
    tripwire.restore(token)
    assert tripwire.moved(token) is None
    expected = following()
    tripwire.restore(token)
    draw()
    tripwire.restore(token)
    assert following() == expected


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("name", "draw"), [("random", random.gauss), ("numpy.random", np.random.normal)])
def test_a_cached_deviate_is_a_draw(name: str, draw: Callable[[float, float], float]) -> None:
    # Every second one takes no step of the generator.
    random.seed(5)
    np.random.seed(5)
    draw(0, 1)
    token = tripwire.state()
    second = draw(0, 1)
    assert tripwire.moved(token) == name
    tripwire.restore(token)
    assert draw(0, 1) == second


@pytest.mark.usefixtures("way")
def test_many_draws_are_seen_one_by_one() -> None:
    # The generator makes new words every 624 draws; a place that comes round again is no rest.
    token = tripwire.state()
    for _ in range(2000):
        random.getrandbits(32)
        np.random.randint(0, 1 << 32, dtype=np.uint32)
        assert tripwire.moved(token) == "random"


def test_what_is_not_shared_does_not_count() -> None:
    token = tripwire.state()
    random.Random(1).random()
    np.random.default_rng(1).random()
    np.random.RandomState(1).rand()
    random.getstate()
    np.random.get_state()
    assert tripwire.moved(token) is None


def test_another_kind_of_generator_in_numpy_s_place() -> None:
    mine = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(3))
        token = tripwire.state()
        assert tripwire.moved(token) is None
        first = np.random.random_sample()
        assert tripwire.moved(token) == "numpy.random"
        tripwire.restore(token)
        assert tripwire.moved(token) is None and np.random.random_sample() == first
    finally:
        np.random.set_bit_generator(mine)


@pytest.mark.usefixtures("way")
def test_another_kind_of_generator_put_there_by_a_step() -> None:
    mine = np.random.get_bit_generator()
    try:
        token = tripwire.state()
        first = np.random.random_sample()
        tripwire.restore(token)
        np.random.set_bit_generator(np.random.PCG64(3))
        assert tripwire.moved(token) == "numpy.random"
        tripwire.restore(token)
        assert tripwire.moved(token) is None and np.random.random_sample() == first
    finally:
        np.random.set_bit_generator(mine)


def test_numpy_imported_meanwhile() -> None:
    code = """
from prebake.purity import generators, tripwire
token = tripwire.state()
import numpy
assert tripwire.moved(token) is None
numpy.random.random_sample()
assert tripwire.moved(token) == "numpy.random"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.torch
def test_the_generator_of_torch() -> None:
    torch = pytest.importorskip("torch")
    for draw in (torch.rand, torch.randn, torch.randperm):
        token = tripwire.state()
        assert tripwire.moved(token) is None
        first = draw(3)
        assert tripwire.moved(token) == "torch"
        tripwire.restore(token)
        assert tripwire.moved(token) is None and torch.equal(draw(3), first)
    token = tripwire.state()
    torch.rand(3, generator=torch.Generator().manual_seed(1))
    assert tripwire.moved(token) is None


def test_generators_of_a_user_s_own() -> None:
    for made, draw in (
        (random.Random(1), lambda g: g.random()),
        (np.random.RandomState(1), lambda g: g.rand()),
        (np.random.default_rng(1), lambda g: g.random()),
        (np.random.Generator(np.random.MT19937(1)), lambda g: g.random()),
    ):
        before = generators.held_state(made)
        assert before is not None and before == generators.held_state(made)
        draw(made)
        assert generators.held_state(made) != before
    assert generators.held_state(object()) is None


@pytest.mark.parametrize("times", [1, 2, 30])
def test_compiled_code_that_draws_by_rand_is_seen_and_put_back(times: int) -> None:
    libc = ctypes.CDLL(None)
    libc.srand(7)
    libc.rand()
    token = tripwire.state()
    assert tripwire.moved(token) is None
    first = [libc.rand() for _ in range(times)]
    assert tripwire.moved(token) == "rand of C"
    tripwire.restore(token)
    assert tripwire.moved(token) is None
    assert [libc.rand() for _ in range(times)] == first
