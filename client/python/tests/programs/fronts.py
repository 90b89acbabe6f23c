"""How the function of a program is cached: what the script does with it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import surroundings
from builder import Builder

#: Calls where something changes between them.
CALLS = 5
Front = Callable[[Builder], str]
#: Each adds what it needs to the host module and the script, and answers with the expression of all rows. The
#: number says how often it is drawn: what is wrapped is run in two more processes before it is shared.
FRONTS: dict[str, tuple[Front, int]] = {}


def front(weight: int) -> Callable[[Front], Front]:
    def add(make: Front) -> Front:
        FRONTS[make.__name__.replace("_", " ")] = make, weight
        return make

    return add


def _function(b: Builder, head: str = "def f(i):", *decorators: str) -> None:
    """The function in the host module, its parts one a line or in one list."""
    parts = [f"    a{j} = {each}" for j, each in enumerate(b.parts)]
    names = ", ".join(f"a{j}" for j in range(len(parts)))
    b.add(b.host, "\n".join([*decorators, head, *parts, f"    return [{names}]"]))


def _calls(b: Builder, call: str) -> str:
    """The rows of all calls; where something changes between them, two arguments take turns."""
    if not b.between:
        return f"[{call} {surroundings.number(b, f'range({b.count})')}]"
    for each in b.inside:
        call = f"{each}(j, lambda i=i: {call})"
    before, after = ", ".join(b.between), "".join(f", {each}" for each in b.after)
    each = surroundings.number(b, "[j % 2]")
    return f"[({before}, {call}{after})[{len(b.between)}] for j in range({CALLS}) {each}]"


def _whole(b: Builder, every: str) -> str:
    """The rows of what is asked for whole, as often as others are for a row."""
    if not b.inside:
        return every
    for each in b.inside:
        every = f"{each}(j, lambda j=j: {every})"
    return f"[row for j in range({CALLS}) for row in {every}]"


def finish(b: Builder, name: str) -> None:
    """Adds the front, and the lines that print what is found."""
    b.need(b.host, "import prebake")
    rows = FRONTS[name][0](b)
    if b.between and b.between[0] not in rows:
        # All is made in one call: what is set is set before it.
        b.add("main", f"for j in range(1):\n    {', '.join(b.between)}")
    body = f"rows = {surroundings.rows(b, rows)}"
    for each in reversed(b.around):
        body = f"with {each}:\n" + textwrap.indent(body, "    ")
    b.add("main", body, "for row in rows:\n    print(repr(row))")
    for each in b.left:
        b.add("main", f"print({each})")


@front(8)
def function(b: Builder) -> str:
    _function(b, "def f(i):", "@prebake.cached")
    return _calls(b, f"{b.use('main', b.host)}f(i)")


@front(3)
def function_of_files(b: Builder) -> str:
    file = surroundings.file(b)
    _function(b, "def f(path):\n    i = int(open(path).read())", "@prebake.cached(inputs=['path'])")
    return _calls(b, f"{b.use('main', b.host)}f({file('i')})")


@front(3)
def partial(b: Builder) -> str:
    b.need("main", "import functools")
    _function(b, "def f(i, more=0):")
    b.add("main", f"g = prebake.cached(functools.partial({b.use('main', b.host)}f, more={b.knob('main')}))")
    return _calls(b, "g(i)")


@front(3)
def callable_object(b: Builder) -> str:
    _function(b)
    b.add(
        b.host,
        "class Call:\n    def __init__(self, k):\n        self.k = k\n"
        "    def __call__(self, i):\n        return [*f(i), self.k]",
    )
    b.add("main", f"g = prebake.cached({b.use('main', b.host)}Call({b.knob('main')}))")
    return _calls(b, "g(i)")


@front(2)
def method(b: Builder) -> str:
    _function(b)
    b.add(
        b.host,
        "class Maker:\n    def __init__(self, k):\n        self.k = k\n"
        "    @prebake.cached\n    def make(self, i):\n        return [*f(i), self.k]",
    )
    b.add("main", f"maker = {b.use('main', b.host)}Maker({b.knob('main')})")
    return _calls(b, "maker.make(i)")


@front(3)
def generator(b: Builder) -> str:
    _function(b)
    b.add(b.host, "@prebake.cached\ndef each(count):\n    for i in range(count):\n        yield f(i)")
    return _whole(b, f"list({b.use('main', b.host)}each({b.count}))")


@front(1)
def steps(b: Builder) -> str:
    file = surroundings.file(b)
    b.add(b.host, "def load(path):\n    return int(open(path).read())")
    _function(b)
    host = b.use("main", b.host)
    b.add("main", f"ds = prebake.wrap([{file('i')} for i in range({b.count})], [{host}load, {host}f])")
    return _calls(b, "ds[i]")


@front(1)
def dataset(b: Builder) -> str:
    _function(b)
    b.add(
        b.host,
        f"class Data:\n    def __len__(self):\n        return {b.count}\n"
        "    def __getitem__(self, i):\n        return f(i)",
    )
    b.add("main", f"ds = prebake.wrap({b.use('main', b.host)}Data())")
    return _calls(b, "ds[i]")


@front(1)
def iterable(b: Builder) -> str:
    _function(b)
    b.add(b.host, f"class Stream:\n    def __iter__(self):\n        return (f(i) for i in range({b.count}))")
    b.add("main", f"ds = prebake.wrap({b.use('main', b.host)}Stream())")
    return _whole(b, "list(ds)")
