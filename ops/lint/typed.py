"""Finds what users get of a package without a type: `typed.py PACKAGE REASONS`. 1 if there is any.

All that is public is gone through: the names that `dir(PACKAGE)` shows, of its modules those in `__all__`,
and the public methods of classes. A return that is `Any`, or holds it, needs a reason in the file of reasons,
which holds by name why the type cannot be known, and a parameter needs a type. A reason for nothing is told
too.
"""

from __future__ import annotations

import ast
import collections.abc
import importlib
import inspect
import json
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: By these a class is used, though they are not shown as its own.
_OPERATORS = ("__call__", "__getitem__", "__getitems__", "__iter__", "__len__", "__get__")


#: Packages whose types are looked into: the others' leave open what they do (the axes of an array).
_OWN = {"builtins", "collections", "prebake", "types", "typing"}


class Unnamed:
    """In place of a type of a package that is not installed here."""

    def __class_getitem__(cls, _: Any) -> type:
        return cls

    def __or__(self, _: Any) -> Any:
        return Unnamed


def public(package: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """The functions and classes that users see, and the methods of these, by their dotted names."""
    for name in dir(package):
        if name.startswith("_"):
            continue
        value = getattr(package, name)
        if isinstance(value, types.ModuleType):
            yield from ((f"{name}.{each}", getattr(value, each)) for each in _shown(value))
            continue
        yield name, value
        if isinstance(value, type):
            yield from methods(name, value)


def _shown(module: types.ModuleType) -> list[str]:
    own = (name for name in vars(module) if not name.startswith("_"))
    made_here = [name for name in own if getattr(getattr(module, name), "__module__", "") == module.__name__]
    return getattr(module, "__all__", made_here)


def methods(name: str, cls: type) -> Iterator[tuple[str, Any]]:
    """Its own public methods and properties, and those of its bases in the same package."""
    package = cls.__module__.partition(".")[0]
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] == package:
            found.update(vars(base))
    for each, value in sorted(found.items()):
        if each.startswith("_") and each not in _OPERATORS:
            continue
        plain = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if isinstance(plain, types.FunctionType):
            yield f"{name}.{each}", plain


def signatures(function: Any) -> list[tuple[dict[str, Any], inspect.Signature]]:
    """The types of a function by parameter: of each overload, if it has some."""
    seen = typing.get_overloads(function) or [function]
    return [(typing.get_type_hints(each, *_spaces(each)), inspect.signature(each)) for each in seen]


def _spaces(function: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What names in annotations stand for: also those that are imported for type checkers only."""
    module = sys.modules[function.__module__]
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    only: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for each in node.body:
                only.update(_imported(each))
    return {**only, **vars(module)}, {}


def _imported(node: ast.stmt) -> Iterator[tuple[str, Any]]:
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return
    for alias in node.names:
        name = alias.asname or alias.name.partition(".")[0]
        try:
            if isinstance(node, ast.Import):
                yield name, importlib.import_module(alias.name)
            else:
                yield name, getattr(importlib.import_module(str(node.module)), alias.name)
        except ImportError:
            yield name, Unnamed


def is_unknown(hint: Any) -> bool:
    """Whether a type is `Any`, or says nothing of its parts."""
    if hint is Any or hint in (list, dict, tuple, set, frozenset):
        return True
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if getattr(origin, "__module__", "").partition(".")[0] not in _OWN:
        return False
    # Of a callable only what it returns: a parameter that may be anything takes anything.
    return any(map(is_unknown, arguments[-1:] if origin is collections.abc.Callable else arguments))


def wanting(package: types.ModuleType) -> dict[str, str]:
    """What has no type, by name, and what of it."""
    found: dict[str, str] = {}
    for name, value in public(package):
        if isinstance(value, type):
            continue
        for hints, signature in signatures(value):
            bare = [each for each in list(signature.parameters)[_first(name) :] if each not in hints]
            if bare:
                found[name] = f"the parameter {bare[0]} has no type"
            elif "return" not in hints:
                found[name] = "what it returns has no type"
            elif is_unknown(hints["return"]):
                found[name] = f"returns {hints['return']}"
    return found


def _first(name: str) -> int:
    """The place of the first parameter that is not the object itself."""
    return 1 if name[:1].isupper() and "." in name else 0


def main() -> int:
    package, reasons = importlib.import_module(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    found = wanting(package)
    for name in sorted(found.keys() - reasons.keys()):
        print(f"{package.__name__}.{name}: {found[name]}; give it a type, or a reason in {sys.argv[2]}")
    for name in sorted(reasons.keys() - found.keys()):
        print(f"{package.__name__}.{name} has its types: take the reason out of {sys.argv[2]}")
    return int(found.keys() != reasons.keys())


if __name__ == "__main__":
    sys.exit(main())
