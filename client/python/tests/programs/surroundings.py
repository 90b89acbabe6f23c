"""Where a program's rows are made: in threads, children and tasks, which first set something up; and by which
kinds of numbers, and from files of which names, they are asked for."""

from __future__ import annotations

import random
from collections.abc import Callable

from builder import Builder

#: What precedes the names of files that a front reads; some are no characters of any encoding.
PREFIXES = ("", "", "", "a b/", "\u00e9", "\udce9", "-", "it's ", "[a]/")
#: The same number as others: expressions in `x`. What a function is given may tell them apart.
NUMBERS = (
    ("x",),
    ("x",),
    ("x",),
    ("x", "np.int64(x)"),
    ("np.int64(x)", "x"),
    ("x", "Number(x)"),
    ("x > 1 and x or bool(x)", "x"),
    ("Member(x)", "x"),
)
_CHILD = "mp.get_context('fork')"
#: Expressions of all rows, of the functions `made()` and `begin(w)`; and what they need.
WAYS: dict[str, tuple[str, str]] = {
    "here": ("made()", ""),
    "begun here": ("[*(begin(0), made())[1], *(begin(1), made())[1]]", ""),
    "thread": (
        "[row for w in (0, 1) for row in apart(w)]",
        "with cf.ThreadPoolExecutor(1, f't{w}', begin, (w,)) as pool:\n    return pool.submit(made).result()",
    ),
    "thread beside": (
        "[*made(), *apart(1), *made()]",
        "with cf.ThreadPoolExecutor(1, f't{w}', begin, (w,)) as pool:\n    return pool.submit(made).result()",
    ),
    "child": (
        "[row for w in (0, 1) for row in apart(w)]",
        f"with cf.ProcessPoolExecutor(1, {_CHILD}, begin, (w,)) as pool:\n"
        "    return pool.submit(made).result()",
    ),
    "child beside": (
        "[*made(), *apart(0), *apart(1), *made()]",
        f"with cf.ProcessPoolExecutor(1, {_CHILD}, begin, (w,)) as pool:\n"
        "    return pool.submit(made).result()",
    ),
    "pool": (
        "[row for w in (0, 1) for row in apart(w)]",
        f"with {_CHILD}.Pool(1, begin, (w,)) as pool:\n    return pool.apply(made)",
    ),
    "forked": (
        "[*apart(0), *made(), *apart(1)]",
        # An edit may take the child's end away: it goes on then, and must not read what its parent reads.
        "out, into = os.pipe()\nif not os.fork():\n    os.close(out)\n    try:\n        begin(w)\n"
        "        os.write(into, pickle.dumps(made()))\n    finally:\n        os._exit(0)\n"
        "os.close(into)\nwith open(out, 'rb') as file:\n    rows = pickle.load(file)\nos.wait()\nreturn rows",
    ),
    "coroutine": (
        "[row for w in (0, 1) for row in apart(w)]",
        "async def task():\n    asyncio.current_task().set_name(f't{w}')\n    begin(w)\n"
        "    return made()\nreturn asyncio.run(task())",
    ),
    "tasks": (
        "apart(1)",
        "async def task(w):\n    asyncio.current_task().set_name(f't{w}')\n    begin(w)\n    return made()\n"
        "async def both():\n    return await asyncio.gather(task(0), task(w))\n"
        "return [row for rows in asyncio.run(both()) for row in rows]",
    ),
    "task in a thread": (
        "[*apart(0), *made(), *apart(1)]",
        "async def task():\n    return await asyncio.to_thread(lambda: (begin(w), made())[1])\n"
        "return asyncio.run(task())",
    ),
    "context": (
        "[*apart(0), *made(), *apart(1)]",
        "return contextvars.copy_context().run(lambda: (begin(w), made())[1])",
    ),
    "late": ("[row for w in (0, 1) for row in next(made() for _ in [begin(w)])]", ""),
}


def draw(b: Builder) -> None:
    """Draws the way, the numbers and the names of a program."""
    rng = random.Random(f"{b.seed} surroundings")
    b.way = rng.choice(["here"] * len(WAYS) + list(WAYS))
    b.way_begun = rng.choice([each for each in WAYS if each != "here"])
    b.numbers, b.prefix = rng.choice(NUMBERS), rng.choice(PREFIXES)


def number(b: Builder, of: str) -> str:
    """The end of a comprehension that goes through numbers `i`: `of` is an iterable of them."""
    if b.numbers == ("x",):
        return f"for i in {of}"
    b.need("main", "import enum", "import numpy as np")
    b.add(
        "main",
        "class Number(int):\n    pass",
        "Member = enum.IntEnum('Member', [(f'M{j}', j) for j in range(40)])",
    )
    return f"for x in {of} for i in [{', '.join(b.numbers)}]"


def file(b: Builder) -> Callable[[str], str]:
    """An expression of the name of file `i`, which is there for each number."""
    b.data |= {f"{b.prefix}{i}.dat": f"{i}\n" for i in range(b.count)}
    return lambda i: f"({b.prefix!a} + str(int({i})) + '.dat')"


def rows(b: Builder, expression: str) -> str:
    """The expression of all rows, made where the program makes them."""
    b.way = b.way_begun if b.begun or b.is_placed else b.way
    if b.way == "here":
        return expression
    every, apart = WAYS[b.way]
    b.need("main", "import asyncio, concurrent.futures as cf, contextvars, multiprocessing as mp, os, pickle")
    b.add("main", f"def made():\n    return {expression}")
    b.add("main", "def begin(w):", *("    " + line for line in [*b.begun, "pass"]))
    if apart:
        b.add("main", "def apart(w):", *("    " + line for line in apart.split("\n")))
    return every
