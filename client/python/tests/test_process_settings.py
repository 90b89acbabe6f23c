"""What tells how a process is set is as without the cache, also where a job switches it between two calls."""

import random
import warnings
from pathlib import Path

import pytest
from scripts import run_main

from prebake.demo.daemon import PrivateDaemon
from prebake.world import package_settings

#: What asks, and what sets it to the first and to the second.
SETTINGS = {
    "gc.isenabled()": ("gc.enable()", "gc.disable()"),
    "gc.get_threshold()": ("gc.set_threshold(700)", "gc.set_threshold(50)"),
    "resource.getrlimit(resource.RLIMIT_NOFILE)": (
        "resource.setrlimit(resource.RLIMIT_NOFILE, (300, 600))",
        "resource.setrlimit(resource.RLIMIT_NOFILE, (400, 600))",
    ),
    "mp.get_start_method()": (
        "mp.set_start_method('fork', force=True)",
        "mp.set_start_method('spawn', force=True)",
    ),
    "faulthandler.is_enabled()": ("faulthandler.enable()", "faulthandler.disable()"),
    "tracemalloc.is_tracing()": ("tracemalloc.start()", "tracemalloc.stop()"),
}
SCRIPT = """
import faulthandler, gc, json, multiprocessing as mp, resource, sys, tracemalloc
import prebake
def asked(i):
    return [{asks}, i]
{front}
print(json.dumps([({first}, each(0), {second}, each(0), each(1))[1::2] for _ in range(3)], default=str))
"""
FRONTS = {
    "function": "each = prebake.cached(asked)",
    "data set": """
class Data:
    def __len__(self):
        return 2
    def __getitem__(self, i):
        return asked(i)
data = prebake.wrap(Data())
each = lambda i: data[i]
""",
}


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("asks", SETTINGS)
def test_what_is_switched_is_told(daemon: PrivateDaemon, tmp_path: Path, asks: str, front: str) -> None:
    first, second = SETTINGS[asks]
    script = SCRIPT.format(asks=asks, front=FRONTS[front], first=first, second=second)
    (tmp_path / "main.py").write_text(
        script.replace("prebake.cached(asked)", "asked").replace("prebake.wrap", "")
    )
    expected = run_main(daemon, tmp_path)
    (tmp_path / "main.py").write_text(script)
    for _ in range(3):
        assert run_main(daemon, tmp_path) == expected


def test_filters_of_warnings_that_are_told_alike_raise_alike() -> None:
    draw = random.Random(22)
    raises: dict[str, set[tuple[bool, ...]]] = {}
    for _ in range(1_000):
        with warnings.catch_warnings():
            warnings.resetwarnings()
            warnings.showwarning = lambda *of, **named: None
            for _ in range(draw.randrange(4)):
                action = draw.choice(("error", "ignore", "always", "default"))
                category = draw.choice((Warning, UserWarning, RuntimeWarning))
                warnings.filterwarnings(action, draw.choice(("", "tried", "x" * 300 + "|tried")), category)
            raises.setdefault(str(package_settings.raising_warnings()), set()).add(_raised())
    assert len(raises) > 3
    assert [told for told, raised in raises.items() if len(raised) > 1] == []


def _raised() -> tuple[bool, ...]:
    """Which of several warnings are raised."""
    raised = []
    for category in (UserWarning, RuntimeWarning, ImportWarning):
        try:
            warnings.warn("tried", category, stacklevel=1)
            raised.append(False)
        except Warning:
            raised.append(True)
    return tuple(raised)
