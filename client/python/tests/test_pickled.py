"""What `prebake.cached` makes can be pickled and copied wherever the function itself can be."""

from __future__ import annotations

import pytest
from conftest import Run

import prebake

HELPER = """
import functools
import prebake

def plain(x, more=1):
    return x + more

class Times:
    def __init__(self, n):
        self.n = n
    def __call__(self, x):
        return self.n * x

@prebake.cached
def decorated(x):
    "Adds seven."
    return x + 7

class Holder:
    @prebake.cached
    def method(self, x):
        return x - 1

@prebake.cached
def elements(x):
    yield x
    yield x + 1

by_call = prebake.cached(plain)
by_partial = prebake.cached(functools.partial(plain, more=5))
by_object = prebake.cached(Times(3))
with_input = prebake.cached(len, inputs=["obj"])
"""

MAIN = """
import copy, multiprocessing, pickle, sys
import cloudpickle
import helper
import prebake

@prebake.cached
def here(x):
    return x * 2

def value(function):
    made = function("four") if function is not None and "len" in repr(function) else function(4)
    return list(made) if hasattr(made, "__next__") else made

def work(all):
    return list(map(value, all))

if __name__ == "__main__":
    all = [helper.decorated, helper.elements, helper.by_call, helper.by_partial, helper.by_object,
           helper.with_input, helper.Holder().method, here]
    expected = [11, [4, 5], 5, 9, 12, 4, 3, 8]
    assert work(all) == expected
    ways = [lambda f: pickle.loads(pickle.dumps(f)), copy.copy, copy.deepcopy,
            lambda f: cloudpickle.loads(cloudpickle.dumps(f))]
    for way in ways:
        assert work(map(way, all)) == expected
    assert pickle.loads(pickle.dumps(helper.decorated)) is helper.decorated
    assert helper.decorated.__doc__ == "Adds seven." and helper.decorated.__wrapped__(1) == 8
    with multiprocessing.get_context(sys.argv[1] if sys.argv[1:] else "spawn").Pool(1) as pool:
        assert pool.map(work, [all]) == [expected]
    with open("sent", "wb") as file:
        cloudpickle.dump(here, file)
    print(prebake.fingerprint(helper.by_call) == prebake.fingerprint(copy.deepcopy(helper.by_call)))
"""

#: Another program: nothing of the first one's script is there.
OTHER = """
import pickle
with open("sent", "rb") as file:
    print(pickle.load(file)(4))
"""


@pytest.mark.parametrize("off", [False, True])
def test_a_cached_function_goes_to_other_processes(script: Run, off: bool) -> None:
    environment = {"PREBAKE": "off" if off else "on", "PREBAKE_AUTOSTART": "0"}
    assert script(MAIN, helper=HELPER, environment=environment) == "True"
    assert script(OTHER, helper=HELPER, environment=environment) == "8"


def test_what_tells_no_parameters_is_called() -> None:
    with pytest.warns(prebake.PrebakeWarning, match="R31"):
        made = prebake.cached(int)
    assert made("7") == 7
