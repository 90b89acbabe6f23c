"""What the user's own modules assign in installed modules and classes: settings, and members they replace.

Installed code comes upon them wherever it runs, also for one item in a thousand, and also where no code of
the user's names them: computing some items again may not show what they change. So each counts, by its value,
for all that uses the distribution it is assigned in.
"""

from __future__ import annotations

import ast
import functools
import sys
import threading
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from prebake import packages
from prebake.errors import Refused
from prebake.identity import world

if TYPE_CHECKING:
    from prebake.encoder import Encoder

#: Source files whose assignments are kept.
FILES_MAX = 1024


class Assigned(NamedTuple):
    """One attribute that somewhere is assigned."""

    owner: Any
    name: str
    distribution: str


class _Source(NamedTuple):
    """What a module's source says: dotted names that it assigns to, and what it imports by which name."""

    targets: tuple[tuple[str, ...], ...]
    imported: dict[str, tuple[str, str]]


def write(encoder: Encoder) -> None:
    """Writes the values of those in the distributions that a description relies on."""
    if not encoder.packages or getattr(_within, "busy", False):
        return
    _within.busy = True
    try:
        for each in _assigned(len(sys.modules)):
            if each.distribution in encoder.packages:
                _write(encoder, each)
    finally:
        _within.busy = False


#: What is assigned may itself use the distribution.
_within = threading.local()


def _write(encoder: Encoder, each: Assigned) -> None:
    # Descriptions are made of these.
    from prebake.code import identify

    space = vars(each.owner)
    encoder.watch.looked_up(space, each.name)
    if each.name not in space:
        return
    owner = getattr(each.owner, "__qualname__", "")
    of = each.owner.__module__ if owner else each.owner.__name__
    label = ".".join(filter(None, (of, owner, each.name)))
    try:
        known = identify(space[each.name], label, by_itself=encoder.by_itself)
    except Refused:
        # It cannot be told from another: evidence has to.
        encoder.watch.is_loose = True
        encoder.text("assigned", label)
        return
    encoder.watch.is_loose = encoder.watch.is_loose or not isinstance(space[each.name], _COMPARED)
    start = len(encoder.out)
    encoder.text("assigned", label)
    encoder.emit("value", known.digest)
    encoder.reached.update(known.reached)
    encoder.path.append(f" {label}")
    encoder.leaf(start, space[each.name], "environment")
    encoder.path.pop()


#: A look at the name sees all that they are.
_COMPARED = (type(None), bool, int, float, str, bytes)


@functools.lru_cache(maxsize=1)
def _assigned(_: int) -> tuple[Assigned, ...]:
    """All of them; looked for again once another module is imported."""
    found: dict[tuple[int, str], Assigned] = {}
    for name, file in world.own_files():
        space = vars(sys.modules.get(name, types))
        said = _said(file, world.source(file))
        for *path, last in said.targets if said is not None else ():
            owner = _resolved(path, space, said.imported)
            distribution = _distribution(owner)
            if distribution:
                found[id(owner), last] = Assigned(owner, last, distribution)
    return tuple(found.values())


def _resolved(path: list[str], space: dict[str, Any], imported: dict[str, tuple[str, str]]) -> Any:
    first, *rest = path
    module, attribute = imported.get(first, ("", ""))
    found = sys.modules.get(module) if module else space.get(first)
    if attribute and found is not None:
        found = getattr(found, attribute, None) or sys.modules.get(f"{module}.{attribute}")
    for part in rest:
        # An object's own code is not to run for this.
        found = vars(found).get(part) if isinstance(found, (types.ModuleType, type)) else None
    return found


def _distribution(owner: Any) -> str:
    """The installed distribution that a module or class is of."""
    if not isinstance(owner, (types.ModuleType, type)):
        return ""
    name = owner.__name__ if isinstance(owner, types.ModuleType) else owner.__module__
    found = packages.owner(name) if isinstance(name, str) else None
    return "" if found is None or found is packages.PYTHON else found.name


@functools.lru_cache(maxsize=FILES_MAX)
def _said(file: str, _: str) -> _Source | None:
    try:
        tree = ast.parse(world.text(file))
    except (SyntaxError, ValueError, RecursionError):
        return None
    imported: dict[str, tuple[str, str]] = {}
    targets: dict[tuple[str, ...], None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                imported[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0],
                    "",
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
        else:
            targets |= dict.fromkeys(_targets(node))
    return _Source(tuple(targets), imported)


def _targets(node: ast.AST) -> Iterator[tuple[str, ...]]:
    """Dotted names that a statement assigns to."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
        if len(path := _dotted(node)) > 1:
            yield path
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
        match node.args:
            case [of, ast.Constant(value=str(name)), _] if path := _dotted(of):
                yield (*path, name)


def _dotted(node: ast.AST) -> tuple[str, ...]:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id, *reversed(parts)) if isinstance(node, ast.Name) else ()
