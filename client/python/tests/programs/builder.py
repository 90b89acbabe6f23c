"""A program as it is put together: modules, data files, variables, arguments, and the function they make up.

Constructs (`constructs_*.py`) add lines and answer with an expression in `i`; fronts (`fronts.py`) have the
function of all these expressions cached. Each construct draws from a generator of its own, so that the others
stay as they are when one is dropped.
"""

from __future__ import annotations

import dataclasses
import random
import textwrap
from collections.abc import Callable, Sequence

#: Modules in the order in which they may import each other: each knows those before it.
ORDER = ("conf", "lib", "setup", "work", "main")


@dataclasses.dataclass
class Program:
    """What is run: files by name, variables, arguments; and what it was drawn from, to be counted by."""

    seed: int
    files: dict[str, str]
    env: dict[str, str]
    argv: list[str]
    front: str = ""
    constructs: list[str] = dataclasses.field(default_factory=list)
    sources: list[str] = dataclasses.field(default_factory=list)

    def copy(self) -> Program:
        return dataclasses.replace(self, files=dict(self.files), env=dict(self.env), argv=list(self.argv))


@dataclasses.dataclass
class Module:
    imports: list[str] = dataclasses.field(default_factory=list)
    lines: list[str] = dataclasses.field(default_factory=list)

    def text(self) -> str:
        return "\n".join([*dict.fromkeys(self.imports), *self.lines]) + "\n"


class Builder:
    """Collects a program. While a construct is at work, `n` numbers it, `rng` is its own, and `home` is the
    module in which its expression is evaluated."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(f"{seed} layout")
        self.modules = {name: Module() for name in ORDER}
        self.data: dict[str, str] = {}
        self.env: dict[str, str] = {}
        self.argv: list[str] = []
        self.host = self.rng.choice(["main", "main", "work"])
        self.home = self.host
        self.n = 0
        self.knobs = 0
        self.sources: list[str] = []
        #: Expressions of context managers around the calls, in the script.
        self.around: list[str] = []
        #: Expressions that are evaluated before each call and after all of them, in the script.
        self.between: list[str] = []
        self.after: list[str] = []
        #: Expressions that are printed after all: what calls did beside their values.
        self.left: list[str] = []
        #: Functions in the script that are given each call, and its number.
        self.inside: list[str] = []
        #: Lines that whoever begins to work on calls runs first, in the script.
        self.begun: list[str] = []
        #: Where rows are made, and where if that is to be another place than the script (`surroundings.py`);
        #: by which kinds of numbers, and what precedes the names of their files.
        self.way = self.way_begun = "here"
        self.is_placed = False
        self.numbers: tuple[str, ...] = ("x",)
        self.prefix = ""
        #: How many calls or elements there are in a run, and the one that alone has what constructs make.
        self.count = 3
        self.rare: int | None = None
        #: What the function returns, in its body.
        self.parts: list[str] = []

    def begin(self, n: int) -> None:
        """The next construct, by its place among all that were drawn."""
        self.n, self.knobs = n, 0
        self.rng = random.Random(f"{self.seed} construct {n}")
        self.home = self.rng.choice([self.host, self.host, "lib"])

    def need(self, module: str, *imports: str) -> None:
        self.modules[module].imports += imports

    def add(self, module: str, *texts: str) -> None:
        """Adds lines; a text that begins on a line of its own is as deep as the code around it."""
        for text in texts:
            plain = textwrap.dedent(text) if text.startswith("\n") else text
            self.modules[module].lines += plain.strip("\n").split("\n")

    def use(self, module: str, other: str) -> str:
        """What a module calls another one, which it imports; empty if it is the same."""
        if module == other:
            return ""
        self.need(module, f"import {other}")
        return f"{other}."

    def place(self) -> str:
        """Where something is set for the whole process."""
        return self.rng.choice(["main", self.home, "setup"])

    def knob(self, module: str) -> str:
        """An expression that is a small number when the module is loaded; where it comes from is drawn."""
        from sources import draw

        self.knobs += 1
        name, expression = draw(self, module, f"k{self.n}_{self.knobs}", self.rng.randrange(2, 9))
        self.sources.append(name)
        return expression

    def setting(self, text: str, *imports: str) -> None:
        """Has lines run that set something by the number `{k}`: as they stand, or by a call."""
        where, way = self.place(), self.rng.choice(["line", "line", "call", "call elsewhere", "branch"])
        at = "setup" if way == "call elsewhere" else where
        self.need(at, *imports)
        body = textwrap.dedent(text).strip("\n")
        if way.startswith("call"):
            self.add(at, f"def set_{self.n}(k):\n" + textwrap.indent(body.replace("{k}", "k"), "    "))
            self.add(where, f"{self.use(where, at)}set_{self.n}({self.knob(where)})")
        elif way == "branch":
            self.add(where, "if True:\n" + textwrap.indent(body.replace("{k}", self.knob(where)), "    "))
        else:
            self.add(where, body.replace("{k}", self.knob(where)))

    def part(self, expression: str) -> None:
        """An element of what the function returns, made in it or by a function beside it."""
        if self.rare is not None:
            # Of another type than all others are, or of the same.
            a, z = ("str(", ")") if self.rare % 2 else ("(", ")")
            expression = f"({a}{expression}{z} if i == {self.rare} else {a}i{z})"
        if self.home == self.host and self.rng.random() < 0.6:
            self.parts.append(expression)
            return
        self.add(self.home, f"def part_{self.n}(i):\n    return {expression}")
        self.parts.append(f"{self.use(self.host, self.home)}part_{self.n}(i)")

    def program(self, front: str, constructs: Sequence[str]) -> Program:
        """The whole, with all modules that are not empty imported by the script."""
        main = self.modules["main"]
        used = [name for name in ORDER[:-1] if self.modules[name].lines]
        main.imports = ["import prebake", *(f"import {name}" for name in used), *main.imports]
        files = {f"{name}.py": self.modules[name].text() for name in (*used, "main")}
        return Program(
            self.seed, {**self.data, **files}, self.env, self.argv, front, list(constructs), self.sources
        )


Construct = Callable[[Builder], str]
#: All constructs by name, in the order in which they were written.
CONSTRUCTS: dict[str, Construct] = {}


def construct(make: Construct) -> Construct:
    """Adds one to the grammar, under its function's name."""
    CONSTRUCTS[make.__name__.replace("_", " ").strip()] = make
    return make
