"""Instructions of Python: none that is unknown is skipped, and how the compiler puts them is no matter."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import dis
import random
import sys
import types
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import prebake
from prebake.bytecode import abstract_interpreter, instructions, opcodes
from prebake.bytecode.stack_machine import StackMachine
from prebake.bytecode.symbols import Made, Name, Symbols
from prebake.purity import kept
from prebake.world import within

FUNCTIONS = 600
#: Instructions that CPython 3.13 makes of two.
FUSED = {"LOAD_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "STORE_FAST_LOAD_FAST"}

Found = dict[str, Any]


def doubled(x: Any) -> Any:
    return x * 2


def plain(x: int) -> int:
    return x


def counted(count: int) -> Iterator[int]:
    for i in range(count):
        yield i * 2


def test_every_instruction_of_this_interpreter_was_looked_at() -> None:
    own = {name for name, opcode in dis.opmap.items() if opcode < 256}
    assert own == opcodes.KNOWN | {name for name in own if name.startswith("INSTRUMENTED_")}


def test_walkers_handle_no_instruction_that_no_version_has() -> None:
    machine = abstract_interpreter._Pass
    handlers = {name.upper() for base in machine.__mro__ for name in vars(base) if not name.startswith("_")}
    own = {name.upper() for name in vars(StackMachine)} | {"CODE", "RUN"}
    assert handlers - own <= frozenset().union(*opcodes.LOOKED_AT.values())


def test_an_instruction_that_is_not_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch, "BINARY_OP")
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    code = doubled.__code__
    for look in (
        instructions.instructions_of,
        instructions.body,
        instructions.references,
        abstract_interpreter.of,
    ):
        with pytest.raises(
            prebake.Refused, match=f"doubled has the instruction BINARY_OP of {version}"
        ) as refused:
            look(code)
        assert refused.value.code == "R31"
    with pytest.raises(prebake.Refused, match="instruction BINARY_OP"):
        prebake.fingerprint(doubled)
    assert len(prebake.fingerprint(plain)) == 64


@pytest.mark.usefixtures("connected")
def test_a_job_under_another_python_goes_on(images: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [path * 2 for path in images]
    forget(monkeypatch, *opcodes.KNOWN)
    data_set = prebake.wrap(images, [doubled])
    jobs: list[tuple[Callable[[], Any], Any]] = [
        (lambda: [data_set[i] for i in range(len(data_set))], expected),
        (lambda: prebake.cached(doubled)(4), 8),
        (lambda: list(prebake.cached(counted)(3)), [0, 2, 4]),
        (lambda: list(prebake.wrap(Numbers())), [0, 1, 2]),
        (lambda: [prebake.wrap(Squares())[i] for i in range(3)], [0, 1, 4]),
    ]
    for job, value in jobs:
        monkeypatch.setattr("prebake.runtime.errors._said", set())
        with pytest.warns(prebake.PrebakeWarning, match="not cached: R31 .* has the instruction "):
            assert job() == value
    assert data_set.stats().get("computed", 0) == 0


class Numbers:
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


class Squares:
    def __len__(self) -> int:
        return 3

    def __getitem__(self, i: int) -> int:
        return i * i


def forget(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """As under a Python of which nobody looked at some instructions."""
    monkeypatch.setattr(opcodes, "KNOWN", opcodes.KNOWN - set(names))
    caches = (instructions.instructions_of, instructions.body, instructions.references)
    for each in (*caches, abstract_interpreter._of):
        each.cache_clear()


# -- what differs has another body


#: Each pair does another thing with the same instructions, but for where they jump to, or what they load.
PAIRS = {
    "a jump over lines that are broken": (
        "def f(c, a, b, x, y):\n if c:\n  p(a, b)\n  p(a, b)\n  x = y\n return x",
        "def f(c, a, b, x, y):\n if c:\n  p(a,\n   b)\n  p(a,\n   b)\n x = y\n return x",
    ),
    "an error over lines that are broken": (
        "def f(a, b):\n try:\n  p(a, b)\n  p(a, b)\n  p(a)\n except E:\n  pass",
        "def f(a, b):\n try:\n  p(a,\n   b)\n  p(a,\n   b)\n except E:\n  pass\n else:\n  p(a)",
    ),
    "before the name of a line": (
        "def f(g): return g(1, '__firstlineno__')",
        "def f(g): return g(2, '__firstlineno__')",
    ),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_what_does_another_thing_has_another_body(pair: tuple[str, str]) -> None:
    first, second = (instructions.body(compiled(text)) for text in pair)
    assert first != second


def test_where_lines_are_broken_does_not_matter() -> None:
    long = compiled("def f(a, b):\n for i in a:\n  try:\n   p(a, b)\n  except E:\n   return b, a")
    broken = compiled("def f(a, b):\n for i in a:\n  try:\n   p(a,\n     b)\n  except E:\n   return b, a")
    assert instructions.body(long) == instructions.body(broken)


# -- the same instructions, put otherwise


def test_what_is_found_does_not_depend_on_fusing() -> None:
    fused = set()
    for seed in range(FUNCTIONS):
        text = function(random.Random(seed))
        together, apart = compiled(text), compiled(text, apart=True)
        fused |= FUSED & names(together)
        assert not FUSED & names(apart)
        assert found_in(together) == found_in(apart), text
    assert fused == (FUSED if sys.version_info >= (3, 13) else set())


#: By a function's body on one line, what fusing hid: its walker, and what it must find.
HIDDEN: dict[str, tuple[Callable[[types.CodeType], Any], Any]] = {
    "import a; a.b()": (lambda code: instructions.references(code).imported_as, {"a"}),
    "x = p; p.G = q, x": (lambda code: instructions.references(code).bare >= {"p", "q", "x"}, True),
}


@pytest.mark.parametrize("body", HIDDEN)
def test_what_fusing_hid(body: str) -> None:
    look, expected = HIDDEN[body]
    assert look(compiled(f"def f(p, q, r): {body}")) == expected


def test_the_second_manager_of_a_statement_is_named() -> None:
    places = []

    class Manager:
        def __enter__(self) -> Manager:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    def entered(given: Manager) -> None:
        with given as first, first as _second:
            places.append(within._around(entered.__code__, sys._getframe().f_lasti))

    entered(Manager())
    # Before CPython 3.12 all names of the statement.
    assert "first" in places[0][0][1] and places[0][1][1] == ("given",)


def test_the_manager_of_an_asynchronous_statement_is_named() -> None:
    places = []

    @contextlib.asynccontextmanager
    async def manager(_: Any) -> AsyncIterator[None]:
        yield

    async def entered(given: int) -> None:
        async with manager(given):
            places.append(within._around(entered.__code__, sys._getframe().f_lasti))

    asyncio.run(entered(1))
    assert {names for _, names in places[0]} == {("given", "manager")}


# -- the same statements, in other instructions from version to version

#: By a function's body, what is found of it in each version: of its symbols, and of what it sets.
EVERYWHERE: dict[str, tuple[Callable[[Symbols], Any], Any]] = {
    "T[1:p] = q": (lambda found: found.written, [Name("global", ("T",))]),
    "T[p:]": (lambda found: [container for container, _ in found.keyed], [Name("global", ("T",))]),
    "T[G():H()]": (lambda found: [call.escapes for call in found.calls], [True, True]),
    "return T.k[p:]": (lambda found: found.returned[0].of, Name("global", ("T", "k"))),
    "return +p": (lambda found: found.returned, [Made("UNARY_POSITIVE")]),
    "open(f'{T}')": (lambda found: found.calls[0].args[0].operands, (Name("global", ("T",)),)),
    "open(f'/{T!r}')": (lambda found: "Name" in str(found.calls[0].args[0].operands), False),
    "open(f'/{T:>3}')": (lambda found: found.calls[0].args[0].operands[1].operands, ()),
    "class A:\n  x = G(p)": (lambda found: found.loaded, [Name("free", ("p",))]),
    "class A:\n  def m(self): return super().m(p)": (
        lambda found: [
            found.calls[1].callee,
            found.calls[1].args,
            found.calls[2].callee.of is found.calls[1],
        ],
        [Name("global", ("super",)), (), True],
    ),
    "class A:\n  def m(self): return super(A, self).k(p)": (
        lambda found: [len(found.calls[1].args), found.calls[2].callee.name, len(found.calls[2].args)],
        [2, "k", 1],
    ),
}


@pytest.mark.parametrize("body", EVERYWHERE)
def test_every_version_finds_the_same(body: str) -> None:
    look, expected = EVERYWHERE[body]
    assert look(abstract_interpreter.of(compiled(f"def f(p, q, r):\n {body}"))) == expected


def function(numbers: random.Random) -> str:
    """A small function, its statements on as few lines as may be."""

    def value(depth: int = 2) -> str:
        leaf = ["p", "q", "r", "x", "y", "z", "1", "'a'", "G", "H.k"]
        if not depth:
            return numbers.choice(leaf)
        one, two = value(depth - 1), value(depth - 1)
        return numbers.choice(
            [
                *leaf,
                f"G({one}, {two})",
                f"H.m({one}, k={two})",
                f"({one}).n({two})",
                f"({one}, {two})",
                f"({one})[{two}]",
                f"({one}) + ({two})",
                f"(lambda: ({one}, p))",
                f"(w := {one}, w)",
                f"[{one} for v in (p, x)]",
                f"sorted({one}, key=lambda a: (a, a))",
            ]
        )

    def simple() -> str:
        return numbers.choice(
            [
                f"x = {value()}",
                # Of a display the compiler would leave out the tuple, if its names are on one line.
                f"x, y = G({value()})",
                f"x = y = {value()}",
                f"x, H.k = y, {value()}",
                f"G({value()})[{value()}] = {value()}",
                f"H.k = {value()}",
                f"T = {value()}",
                f"import a.b as x; x.c({value()})",
                f"import a; a.b({value()})",
                f"p[{value()}] = y",
                value(),
            ]
        )

    def line() -> str:
        return "; ".join(simple() for _ in range(numbers.randint(1, 4)))

    def block() -> str:
        return numbers.choice(
            [
                f" {line()}",
                f" if {value()}: {line()}",
                f" for x in {value()}: {line()}",
                f" with {value()} as x, x.o(y) as z, z as y: {line()}",
                f" while {value()}: {line()}",
                f" yield {value()}",
            ]
        )

    blocks = "\n".join(block() for _ in range(numbers.randint(1, 4)))
    return f"def f(p, q, r):\n global T\n{blocks}\n return {value()}"


def compiled(text: str, apart: bool = False) -> types.CodeType:
    """A function's code; `apart`, each name is on a line of its own, and nothing is fused."""
    tree = ast.parse(text)
    if apart:
        for line, node in enumerate(each for each in ast.walk(tree) if hasattr(each, "lineno")):
            if isinstance(node, (ast.Name, ast.alias, ast.arg)):
                # Where it ends stays after where it begins.
                node.lineno = node.end_lineno = 1000 + line  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        # Of calls of numbers, and the like.
        warnings.simplefilter("ignore", SyntaxWarning)
        module = compile(tree, "<made>", "exec")
    return next(each for each in module.co_consts if isinstance(each, types.CodeType))


def names(code: types.CodeType) -> set[str]:
    """Of its instructions, as the compiler wrote them."""
    named = {number: name for name, number in dis.opmap.items()}
    return {named[each] for each in code.co_code[::2] if each in named}


def found_in(code: types.CodeType) -> Found:
    """What the walkers find in a function's code, in an order and spelling of its own."""
    used = instructions.references(code)
    symbols: Symbols = abstract_interpreter._of.__wrapped__(code, code.co_qualname)
    return {
        "references": {name: sorted(map(str, each)) for name, each in vars(used).items()},
        "symbols": spelled(symbols, {}),
        "does": kept._does(code),
        "converses": bool(code.co_flags & 0x20) and instructions.converses(code),
        "setter": kept.is_setter(types.FunctionType(code, {})),
    }


def spelled(value: Any, seen: dict[int, int]) -> Any:
    """Symbols as plain values; calls, which refer to each other, by when they are met."""
    if isinstance(value, types.CodeType):
        return value.co_qualname
    if isinstance(value, (list, tuple)):
        return [spelled(each, seen) for each in value]
    if isinstance(value, dict):
        return [(spelled(key, seen), spelled(each, seen)) for key, each in value.items()]
    if not hasattr(value, "__dataclass_fields__"):
        return type(value).__name__ if type(value).__module__.startswith("prebake") else repr(value)
    if id(value) in seen:
        return seen[id(value)]
    seen[id(value)] = len(seen)
    return [type(value).__name__, *(spelled(each, seen) for each in vars(value).values())]
