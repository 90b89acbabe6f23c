"""Configurations: of what only holds settings, those count that code can ask for."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import types
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from prebake.identity.code import identify


@dataclasses.dataclass
class Config:
    size: int
    lr: float
    seed: int = 7


def as_class(**settings: Any) -> type:
    return type("CFG", (), {**settings, "__module__": "__main__"})


@dataclasses.dataclass
class Working(Config):
    def area(self) -> float:
        return self.size * self.lr


class Old:
    def __init__(self, **settings: Any) -> None:
        self.__dict__.update(settings)


HOLDERS = [argparse.Namespace, types.SimpleNamespace, Config, as_class]
#: With code of their own: all of them counts.
OTHERS = [Working, Old]

#: What asks for `size` alone, and what may ask for more; `args` is the configuration.
ALONE = {
    "a global": "made = lambda x: x * args.size",
    "a global and a seed": "import random\ndef made(x): return random.Random(args.size).random()",
    "a closure": "def outer(args): return lambda x: x * args.size\nmade = outer(args)",
    "a nested function": "def made(x): return [each * args.size for each in x]",
    "its own": (
        "class D:\n def __init__(self, args): self.args, self.size = args, args.size\n"
        " def __getitem__(self, i): return self.args.size\nmade = D(args)"
    ),
    "a helper's": "def helper(x): return args.size\ndef made(x): return helper(x)",
}
MORE = {
    "it is handed on": "def helper(a): return a.lr\ndef made(x): return helper(args)",
    "by another name": "def made(x):\n a = args\n return a.lr",
    "a text": "import operator\ndef made(x): return operator.attrgetter('lr')(args)",
    "a text that is formatted": "def made(x): return '{0.lr}'.format(args)",
    "a name that is worked out": "def made(x): return getattr(args, x)",
    "a name in a text": "def made(x): return getattr(args, 'lr')",
    "its dictionary": "def made(x): return args.__dict__['lr']",
    "compared": "def made(x): return args == x",
    "what is shown": "def made(x): return f'{args}'",
    "a default": "def made(x, a=args): return a.lr",
    "a list": "held = [args]\ndef made(x): return held[0].lr",
    "its object": (
        "class D:\n def __init__(self): self.cfg = args\n"
        " def __getitem__(self, i): return list(vars(self).values())\nmade = D()"
    ),
    "an object that is made": (
        "class D:\n def __init__(self, args): self.args, self.lr = args, args.lr\n"
        " def __getitem__(self, i): return D(self.args).lr\nmade = D(args)\ndel made.lr"
    ),
    "an object like it": (
        "class D:\n def __init__(self, a): self.args, self.lr = a, a.lr\n"
        " def __getitem__(self, i): return self.__class__(self.args).lr\nmade = D(args)\ndel made.lr"
    ),
    "its object's object": (
        "class D:\n def __init__(self): self.cfg = args\n def __call__(self, i): return self.cfg.size\n"
        "d = D()\nimport pickle\ndef made(x): return pickle.dumps(d)"
    ),
    "a helper": "def helper(): return args.lr\ndef made(x): return args.size * helper()",
    "a class's name": "def made(x): return args.size, args.__class__",
    "its own method": "def made(x): return args.size, args.__repr__()",
    "a query of another text": "Q = 'a > @args.lr'\ndef made(x): return args.size, x.query(Q)",
    "a closure that is looked into": (
        "def outer(args):\n def inner(x): return args.size\n"
        " return lambda x: str(inner.__closure__[0].cell_contents)\nmade = outer(args)"
    ),
    "its object by another name": (
        "class D:\n def __init__(self): self.cfg = args\n def get(self): return self.cfg.size\n"
        "d = D()\ne = d\ndef made(x): return d.get(), str(vars(e))"
    ),
    "its object among all": (
        "class D:\n def __init__(self): self.cfg = args\n"
        " def __getitem__(*a): return a[0].cfg.size, vars(a[0])\nmade = D()"
    ),
    "its object, set": (
        "class D:\n def __init__(self): self.cfg = args\n def get(self): return self.cfg.size\n"
        " p = property(get)\n @p.setter\n def p(me, v): return str(vars(me))\n"
        " def __getitem__(self, i): return self.cfg.size\nmade = D()"
    ),
    "an object of its type": (
        "class D:\n def __init__(self, a): self.args, self.lr = a, a.lr\n"
        " def __getitem__(self, i): return type(self)(self.args).lr\nmade = D(args)\ndel made.lr"
    ),
    "a query": "def made(x): return x.query('a > @args.lr')",
    "code in a field": "args.size = lambda x: args.lr\ndef made(x): return args.size(x)",
}


def test_what_a_class_holds_for_its_objects_counts() -> None:
    @dataclasses.dataclass
    class Shared:
        size: int = 3
        mean: ClassVar[float] = 0.1

    Shared.__module__ = "__main__"
    program = "made = lambda x: x * args.mean"
    before = digest(program, Shared())
    Shared.mean = 0.2
    assert digest(program, Shared()) != before


def test_settings_in_a_method_that_is_given_to_a_table_count() -> None:
    import pandas as pd

    program = "import pandas as pd\npd.DataFrame.scaled = lambda self: self * args.lr\n"
    program += "def made(df): return df.scaled()"
    try:
        assert differ(program, argparse.Namespace, lr=0.2)
    finally:
        del pd.DataFrame.scaled


def digest(program: str, args: Any) -> bytes:
    space: dict[str, Any] = {"__name__": "__main__", "args": args}
    exec(compile(program, "main.py", "exec"), space)
    return identify(space["made"]).digest


def differ(program: str, holder: Callable[..., Any], **change: Any) -> bool:
    settings = {"size": 3, "lr": 0.1, "seed": 7}
    return digest(program, holder(**settings)) != digest(program, holder(**{**settings, **change}))


@pytest.mark.parametrize(("way", "holder"), [*itertools.product(ALONE, HOLDERS)])
def test_settings_that_no_code_names_do_not_count(way: str, holder: Callable[..., Any]) -> None:
    assert not differ(ALONE[way], holder, lr=0.2)
    assert differ(ALONE[way], holder, size=4)


@pytest.mark.parametrize(("way", "holder"), [*itertools.product(MORE, [*HOLDERS, *OTHERS])])
def test_settings_that_code_may_ask_for_count(way: str, holder: Callable[..., Any]) -> None:
    assert differ(MORE[way], holder, lr=0.2)


#: A seed in an object that has code is not known.
UNSEEDED = [way for way in ALONE if "seed" not in way]


@pytest.mark.parametrize(("way", "holder"), [*itertools.product(UNSEEDED, OTHERS)])
def test_all_counts_of_what_has_code_of_its_own(way: str, holder: Callable[..., Any]) -> None:
    assert differ(ALONE[way], holder, lr=0.2)
