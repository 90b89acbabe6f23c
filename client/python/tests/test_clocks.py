"""Clocks that are read to be told of, and those that a value may depend on."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest

import prebake
from prebake.identity.code import identify

SETUP = """
import contextlib, datetime, functools, logging, time
from time import perf_counter
LOG = logging.getLogger("data")
class Recorder:
    def __init__(self):
        self.seen = []
    def note(self, value):
        self.seen.append(value)
    __lshift__ = note
def timed(function):
    @functools.wraps(function)
    def wrapper(*args):
        begun = time.perf_counter()
        result = function(*args)
        LOG.info("%s took %.2f s", function.__name__, time.perf_counter() - begun)
        return result
    return wrapper
@contextlib.contextmanager
def timer(name):
    begun = time.time()
    yield
    print(f"{name}: {time.time() - begun:.1f}")
class Step:
    def __init__(self):
        self.log = logging.getLogger("step")
    def __call__(self, x):
        begun = time.monotonic()
        y = x + 1
        self.log.debug("done in %s", round(time.monotonic() - begun, 2))
        return y
step = Step()
class Kept(Step):
    def __init__(self):
        self.log = self
        self.seen = []
    def debug(self, *values):
        self.seen.append(values)
kept = Kept()
class Named:
    log = logging.getLogger("named")
    def __call__(self, x):
        self.log.info("at %s", time.time())
        return x
named = Named()
@timed
def helped(x):
    return x + 1
"""

TOLD = {
    "a log": "begun = time.perf_counter()\n LOG.info('took %s', time.perf_counter() - begun)\n return x + 1",
    "a module's log": "begun = perf_counter()\n logging.info(f'{perf_counter() - begun:.2f}')\n return x + 1",
    "printed": "begun = time.time()\n y = x + 1\n print('took', round(time.time() - begun, 2))\n return y",
    "in a text": "begun = time.time()\n print('took {}'.format(time.time() - begun))\n return x + 1",
    "by percent": "begun = time.time()\n print('took %d' % (time.time() - begun))\n return x + 1",
    "a date": "begun = datetime.datetime.now()\n"
    " LOG.info('%s', (datetime.datetime.now() - begun).total_seconds())\n return x + 1",
    "a variable": "begun = time.time()\n took = time.time() - begun\n LOG.info('%s', took)\n return x + 1",
    "a decorator": "return helped(x)",
    "a context": "with timer('it'):\n  return x + 1",
    "its own log": "return step(x)",
    "its class's log": "return named(x)",
    "nothing": "time.perf_counter()\n return x + 1",
}
KEPT = {
    "returned": "return time.time()",
    "worked out": "begun = time.time()\n return time.time() - begun",
    "in a list": "return [x, time.time()]",
    "in a dictionary": "took = time.time()\n return {'x': x, 'took': took}",
    "in a text": "return f'{x} {time.time()}'",
    "compared": "begun = time.time()\n return x if time.time() - begun < 1 else 0",
    "a number": "return x * int(time.time())",
    "a piece": "return str(time.time())[3]",
    "gone through": "return [each for each in str(time.time())]",
    "divided": "a, b = divmod(time.time(), 60)\n return a",
    "twice bound": "t = 0\n if x:\n  t = time.time()\n return t",
    "both": "t = time.time()\n LOG.info('%s', t)\n return t",
    "by another variable": "a = b = time.time()\n LOG.info('%s', a)\n return b",
    "a walrus": "LOG.info('%s', t := time.time())\n return t",
    "kept": "r = Recorder()\n r.note(time.time())\n return r.seen",
    "a method like a log's": (
        "class Own:\n  def info(self, v):\n   self.v = v\n o = Own()\n o.info(time.time())\n return o.v"
    ),
    "another's log": "kept(x)\n return kept.seen",
    "its log, of two kinds": "step(x)\n return kept(x)",
    "what was its log": "step.log = Recorder()\n step(x)\n return step.log.seen",
    "its log, by another name": "setattr(step, 'log', kept)\n return step(x)",
    "a list's method": "seen = []\n seen.append(time.time())\n return seen",
    "another's": "def inner():\n  return time.time()\n return inner()",
    "a nested one's": ("t = 0\n def inner():\n  nonlocal t\n  t = time.time()\n inner()\n return t"),
    "a class's": "class C:\n  t = time.time()\n return C.t",
    "a default": "def inner(t=time.time()):\n  return t\n return inner()",
    "an attribute": "step.at = time.time()\n return step.at",
    "yielded": "def inner():\n  yield time.time()\n return list(inner())",
    "an argument": "return helped(time.time())",
    "unpacked": "return max(*[x, time.time()])",
    "a file": "import io\n out = io.StringIO()\n print(time.time(), file=out)\n return out.getvalue()",
    "in the next turn": (
        "out = None\n for i in range(3):\n  if i:\n   out = t\n  t = time.perf_counter()\n return out"
    ),
    "a key": "d = {}\n d[time.time()] = 1\n return d",
    "a key that goes": "d = dict.fromkeys(range(9))\n del d[time.time_ns() % 9]\n return d",
    "a matched one": "match {'a': time.time()}:\n  case {'a': v}:\n   return v",
    "a frame's": "t = time.time()\n return x.query('a < @t')",
    "an object's": "return x.info(time.time())",
    "a log that is kept": (
        "import io\n out = io.StringIO()\n LOG.addHandler(logging.StreamHandler(out))\n"
        " LOG.info('%s', time.time())\n return out.getvalue()"
    ),
    "what is printed": (
        "import io\n out = io.StringIO()\n with contextlib.redirect_stdout(out):\n  print(time.time())\n"
        " return out.getvalue()"
    ),
    "its own seconds": "return x.total_seconds(time.time())",
    "a largest by": "return max(time.time(), 0, key=x)",
    "its own form": "print(format(x, str(time.time())))\n return x",
    "its own operator": "print(x << time.time())\n return x",
    "an operator of what it makes": "r = Recorder()\n r << time.time()\n return r.seen",
    "a form": "print(f'{x:{time.time()}}')\n return x",
    "what a log gives": "return LOG.info('%s', time.time())",
    "as a value": "clock = time.time\n return clock()",
    "in a while": "until = time.time() + 1\n while time.time() < until:\n  x += 1\n return x",
    "an exception's": "try:\n  raise ValueError(time.time())\n except ValueError as e:\n  return e.args",
}


def function(body: str) -> Any:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(f"{SETUP}\ndef made(x):\n {body}\n", "main.py", "exec"), space)
    return space["made"]


@pytest.mark.parametrize("way", TOLD)
def test_a_clock_that_is_only_told_of_is_no_part_of_a_value(way: str) -> None:
    identify(function(TOLD[way]))


@pytest.mark.parametrize("way", KEPT)
def test_a_clock_that_a_value_may_depend_on_is_refused(way: str) -> None:
    with pytest.raises(prebake.Refused) as refused:
        identify(function(KEPT[way]))
    assert refused.value.code in ("R21", "R25")


class Windows:
    """A data set that says how long an item took, and knows when it was made."""

    def __init__(self) -> None:
        self.logger, self.made_at, self.lock = logging.getLogger("windows"), time.time(), threading.Lock()

    def __getitem__(self, i: int) -> int:
        begun = time.perf_counter()
        with self.lock:
            item = i + 1
        self.logger.debug("%d took %.2f s", i, time.perf_counter() - begun)
        return item


def test_a_data_set_that_was_made_at_some_time_may_tell_its_log_of_a_clock() -> None:
    windows = Windows()
    assert identify(windows).digest == identify(windows).digest
