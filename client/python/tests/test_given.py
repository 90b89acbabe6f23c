"""Functions that return what they were given, or change it: the caller's objects are as without the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prebake.demo.daemon import PrivateDaemon

PROGRAM = """
import sys
import numpy as np
import prebake

TABLE = [1, 2, 3]
TABLES = dict(a=[1, 2])
ARRAY = np.arange(6.0)

def f({parameters}):
    sys.stderr.write("called\\n")
{body}

f = prebake.cached(f) if len(sys.argv) > 1 else f

def shown(x):
    return x.tolist() if isinstance(x, np.ndarray) else x

{given}
result = f({arguments})
{after}
"""

#: What a function does with its arguments, how often two processes call it, and what is seen afterwards.
CASES = {
    "an array in place": (
        "x",
        "    x *= 2\n    return x",
        "x = np.arange(4.0)",
        "x",
        "print(x, result is x)",
        2,
    ),
    "a list in place": ("x", "    x.append(5)\n    return x", "x = [1, 2]", "x", "print(x, result is x)", 2),
    "a dictionary": (
        "d",
        "    d['sum'] = d['x'].sum()\n    return d",
        "x = np.arange(4.0); d = {'x': x}",
        "d",
        "x += 1; print(d, result is d, d['x'] is x)",
        1,
    ),
    "a dictionary without one": (
        "d",
        "    d['y'] = d.pop('x')\n    return d",
        "x = np.arange(4.0); d = {'x': x, 'n': 1}",
        "d",
        "x += 1; print(d, result is d)",
        1,
    ),
    "a dictionary's array": (
        "d",
        "    d['x'] *= 2\n    d['y'] = 1\n    return d",
        "x = np.arange(4.0); d = {'x': x}",
        "d",
        "print(d, x)",
        2,
    ),
    "a dictionary that is not returned": (
        "d",
        "    d['y'] = 1\n    return 3",
        "d = {'x': 2}",
        "d",
        "print(d, result)",
        2,
    ),
    "unchanged": ("x", "    return x", "x = np.arange(4.0)", "x", "result += 1; print(x)", 1),
    "inside": (
        "d, y",
        "    return {'a': d['x'], 'b': [y, 3], 'c': d['x'] + 1}",
        "d = {'x': np.arange(4.0)}; y = np.ones(2)",
        "d, y=y",
        "result['a'] += 1; result['b'][0] += 2; print(d, y, result)",
        1,
    ),
    "twice": (
        "x",
        "    return [x, x]",
        "x = np.arange(4.0)",
        "x",
        "result[0] += 1; print(x, result)",
        1,
    ),
    "a view": ("x", "    return x[1:]", "x = np.arange(4.0)", "x", "result += 1; print(x)", 2),
    "a table of its module": (
        "n",
        "    return TABLE",
        "",
        "1",
        "result.append(n := 4); print(TABLE, f(1))",
        None,
    ),
    "what a table of its module holds": (
        "n",
        "    return [TABLES['a'], n]",
        "",
        "1",
        "result[0].append(n := 4); print(TABLES, f(1))",
        None,
    ),
    "a table that another function returns": (
        "n",
        "    return [n, shared()]",
        "shared = lambda: TABLE",
        "1",
        "result[1].append(n := 4); print(TABLE, f(1))",
        None,
    ),
    "what is an attribute of a function": (
        "n",
        "    return [n, shown.held]",
        "shown.held = [1]",
        "1",
        "result[1].append(n := 4); print(shown.held, f(1))",
        None,
    ),
    "what a function that was made here closes over": (
        "n",
        "    return [n, shared()]",
        "shared = (lambda held: lambda: held)([1])",
        "1",
        "result[1].append(n := 4); print(shared(), f(1))",
        None,
    ),
    "an array of its module": ("n", "    return ARRAY", "", "1", "result += 1; print(ARRAY)", 2),
    "a part of an array of its module": (
        "n",
        "    return ARRAY[n:]",
        "",
        "1",
        "result += 1; print(ARRAY)",
        2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_given_and_returned(daemon: PrivateDaemon, tmp_path: Path, name: str) -> None:
    parameters, body, given, arguments, after, calls = CASES[name]
    program = tmp_path / "main.py"
    program.write_text(
        PROGRAM.format(parameters=parameters, body=body, given=given, arguments=arguments, after=after)
    )
    environment = {**os.environ, "PREBAKE": "on", "PREBAKE_DIR": str(daemon.folder / "cache")}

    def run(*how: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, str(program), *how], env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done

    plain = run().stdout
    cached = [run("cached") for _ in range(2)]
    assert [each.stdout for each in cached] == [plain, plain]
    if calls is not None:
        assert sum(each.stderr.count("called\n") for each in cached) == calls
