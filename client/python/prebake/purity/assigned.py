"""What the user's own modules set in installed modules and classes: attributes they assign, and data that
functions keep which they call for nothing but their effect.

Installed code comes upon them wherever it runs, also for one item in a thousand, and also where no code of
the user's names them: computing some items again may not show what they change. So each counts, by its value,
for all that uses the distribution it is set in, or that package of the standard library.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import itertools
import re
import sys
import threading
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from prebake import marks, packages
from prebake.calls import MUTATORS
from prebake.errors import Refused
from prebake.identity import world
from prebake.purity import kept, sources

if TYPE_CHECKING:
    from prebake.encoder import Encoder

#: Source files whose assignments are kept; others are parsed again whenever a module was imported.
FILES_MAX = 8192
#: Packages whose state is no setting: generators are compared around each element; what is logged, and when a
#: process ends, changes no value.
_NO_SETTINGS = frozenset({"prebake", "random", "logging", "warnings", "atexit", "signal", "gc", "threading"})


class Assigned(NamedTuple):
    """One attribute that somewhere is assigned, or data that is set `by_call`."""

    owner: Any
    name: str
    distribution: str
    by_call: bool


class _Source(NamedTuple):
    """What a module's source says: dotted names that it assigns to, those that it calls and takes nothing
    from, those of which it keeps what they return, and what it imports by which name."""

    targets: tuple[tuple[str, ...], ...]
    called: tuple[tuple[str, ...], ...]
    taken: tuple[tuple[str, ...], ...]
    #: Module and attribute, or only a module: in functions a name may stand for another than outside of them.
    imported: dict[str, set[tuple[str, str]]]


def write(encoder: Encoder) -> None:
    """Writes the values of those in the distributions that a description relies on."""
    if not encoder.packages or getattr(_within, "busy", False):
        return
    _within.busy = True
    try:
        relied_on = {*encoder.packages, *map(_STANDARD.format, encoder.standard)}
        _relied_on.update(relied_on)
        for each in _assigned(len(sys.modules)):
            if each.distribution in relied_on or _is_everywhere(each):
                _write(encoder, each)
    finally:
        _within.busy = False


def places() -> list[tuple[dict[str, Any], str]]:
    """Where those lie that descriptions made so far rely on: a namespace, and the name in it."""
    if not _relied_on:
        return []
    found = []
    for each in _assigned(len(sys.modules)):
        if (each.distribution in _relied_on or _is_everywhere(each)) and _counts(each):
            space = _space(each.owner)
            # What `vars` gives of a class only shows it.
            held = space if type(space) is dict else gc.get_referents(space)[0]
            found.append((held, each.name))
    return found


#: What the descriptions of this process rely on.
_relied_on: set[str] = set()


def _counts(each: Assigned) -> bool:
    return not each.by_call or kept.counts(each.owner, each.name)


def _is_everywhere(each: Assigned) -> bool:
    """Whether all installed code may come upon it: a registry, a table or a function of the standard library,
    in which modules go on to each other (`pickle` to `copyreg`), and methods of bytes to `encodings`."""
    standard = each.distribution.startswith(_STANDARD.format(""))
    found = _member(each.owner, each.name) if standard and not each.by_call else None
    return standard and (each.by_call or callable(found) or issubclass(type(found), kept.TABLES))


#: What is assigned may itself use the distribution.
_within = threading.local()


def _write(encoder: Encoder, each: Assigned) -> None:
    # Descriptions are made of these.
    from prebake.code import identify

    space = _space(each.owner)
    assert space is not None, "it has a distribution"
    encoder.watch.looked_up(space, each.name)
    if each.name not in space or not _counts(each):
        return
    is_module = issubclass(type(each.owner), types.ModuleType)
    owner = "" if is_module else getattr(each.owner, "__qualname__", type(each.owner).__qualname__)
    of = each.owner.__name__ if is_module else each.owner.__module__
    label = ".".join(filter(None, (of, owner, each.name)))
    try:
        known = identify(kept.value(space[each.name]), label, by_itself=encoder.by_itself)
    except Refused:
        _write_refused(encoder, label, space[each.name])
        return
    encoder.watch.is_loose = encoder.watch.is_loose or not isinstance(space[each.name], _COMPARED)
    start = len(encoder.out)
    encoder.text("assigned", label)
    encoder.emit("value", known.digest)
    encoder.reached.update(known.reached)
    encoder.path.append(f" {label}")
    encoder.leaf(start, space[each.name], "environment")
    encoder.path.pop()


def _write_refused(encoder: Encoder, label: str, found: Any) -> None:
    """What draws, or asks the time, is known by its code: what uses the distribution may not come upon it."""
    from prebake.code import identify

    encoder.watch.is_loose = True
    with contextlib.suppress(Refused):
        encoder.text("assigned", label)
        encoder.emit("value", identify(marks.Pure(kept.value(found), None), label).digest)


#: A look at the name sees all that they are.
_COMPARED = (type(None), bool, int, float, str, bytes)


@functools.lru_cache(maxsize=1)
def _assigned(_: int) -> tuple[Assigned, ...]:
    """All of them; looked for again once another module is imported."""
    found: dict[tuple[int, str], Assigned] = {}
    own = world.own_files()
    for _, file in own:
        world.source(file)
    _learn([file for _, file in own if file not in _sources])
    for name, file in own:
        space = vars(sys.modules.get(name, types))
        said = _said(file)
        for *path, last in said.targets:
            for owner in _holders(_resolved(path, space, said.imported), last):
                distribution = _distribution(owner)
                if distribution:
                    found[id(owner), last] = Assigned(owner, last, distribution, False)
        for path, is_for_nothing in (*((p, True) for p in said.called), *((p, False) for p in said.taken)):
            for called in _resolved(list(path), space, said.imported):
                called = _wrapped(called)
                if type(called) is not types.FunctionType:
                    continue
                for module, name in kept.by(called, is_for_nothing):
                    if distribution := _distribution(module):
                        found.setdefault((id(module), name), Assigned(module, name, distribution, True))
    return tuple(found.values())


def _holders(owners: list[Any], name: str) -> Iterator[Any]:
    """Owners, and for a class the one that it has the name from: what that holds may be changed in place."""
    for owner in owners:
        yield owner
        if issubclass(type(owner), type):
            yield from (each for each in owner.__mro__[1:] if name in vars(each))


def _wrapped(called: Any) -> Any:
    """What `contextlib.contextmanager` made a context manager of."""
    if type(called) is types.FunctionType and called.__module__ != called.__globals__.get("__name__"):
        return called.__dict__.get("__wrapped__", called)
    return called


_NAMED = (types.ModuleType, type, types.FunctionType)


def _resolved(path: list[str], space: dict[str, Any], imported: dict[str, set[tuple[str, str]]]) -> list[Any]:
    """What a dotted name may stand for. No object's own code is run for this. What the user's modules made
    themselves are no settings, of whichever class it is."""
    first, *rest = path
    found = space.get(first)
    begun = [found if issubclass(type(found), _NAMED) else None]
    for module, attribute in imported.get(first, ()):
        begun.append(_below(sys.modules.get(module), attribute) if attribute else sys.modules.get(module))
        begun.append(sys.modules.get(f"{module}.{attribute}"))
    for part in rest:
        begun = [_below(found, part) for found in begun]
    return begun


def _below(found: Any, name: str) -> Any:
    """A member. What a module or class of the user's holds of the standard library's objects is his own."""
    member = _member(found, name)
    if issubclass(type(member), _NAMED) or _distribution(found):
        return member
    return None if packages.owner(type(member).__module__) is packages.PYTHON else member


def _member(found: Any, name: str) -> Any:
    space = _space(found)
    return None if space is None else space.get(name)


def _space(found: Any) -> dict[str, Any] | types.MappingProxyType[str, Any] | None:
    """Where the attributes of a module, a class, or an object that an installed package made lie."""
    if issubclass(type(found), (types.ModuleType, type)):
        return vars(found)
    if packages.owner(type(found).__module__) is None:
        return None
    of = threading.local if issubclass(type(found), threading.local) else object
    try:
        space = of.__getattribute__(found, "__dict__")
    except AttributeError:
        return None
    return space if type(space) is dict else None


def _distribution(owner: Any) -> str:
    """The installed distribution that a module, a class, or an object of one is of."""
    if _space(owner) is None:
        return ""
    if not issubclass(type(owner), (types.ModuleType, type)):
        owner = type(owner)
    name = vars(owner).get("__name__" if issubclass(type(owner), types.ModuleType) else "__module__")
    found = packages.owner(name) if isinstance(name, str) else None
    if found is None or name.partition(".")[0] in _NO_SETTINGS:
        return ""
    return _STANDARD.format(name.partition(".")[0]) if found is packages.PYTHON else found.name


#: What stands for a distribution where something is of the standard library.
_STANDARD = "python {}"

#: By file: a module's source is what it was when it was first asked for.
_sources: dict[str, _Source] = {}
#: What stands in any source that assigns to an attribute, or has a line that begins with a call or takes what
#: one returns: parsing one takes a millisecond for 500 lines.
_SETS = re.compile(
    rb"\.\s*\w+[^\n]*=|\bsetattr\b|\bdel\b|\bfor\b[^\n]*\.|\bas\b[^\n]*\.|(?m:^|[;:=])\s*[\w.]+\("
)


def _said(file: str) -> _Source:
    known = _sources.get(file)
    return _parsed(file) if known is None else known


def _learn(files: list[str]) -> None:
    """Has it known what sources say, by what another process found in the same texts where that is stored."""
    files = files[: FILES_MAX - len(_sources)]
    texts = list(map(world.text, files))
    found = sources.known(texts)
    if found is not None:
        _sources.update(zip(files, itertools.starmap(_read, found), strict=True))
        return
    parsed = list(map(_parsed, files))
    _sources.update(zip(files, parsed, strict=True))
    sources.store(texts, list(map(_written, parsed)))


def _written(said: _Source) -> tuple[Any, ...]:
    """As JSON can tell it: the same each time."""
    imported = {name: sorted(each) for name, each in sorted(said.imported.items())}
    return said.targets, said.called, said.taken, imported


def _read(targets: Any, called: Any, taken: Any, imported: Any) -> _Source:
    named = {name: {(module, attribute) for module, attribute in each} for name, each in imported.items()}
    return _Source(*(tuple(map(tuple, paths)) for paths in (targets, called, taken)), named)


def _parsed(file: str) -> _Source:
    text = world.text(file)
    try:
        tree = ast.parse(text if _SETS.search(text) else b"")
    except (SyntaxError, ValueError, RecursionError):
        return _Source((), (), (), {})
    called: dict[tuple[str, ...], None] = {}
    taken: dict[tuple[str, ...], None] = {}
    imported: dict[str, set[tuple[str, str]]] = {}
    targets: dict[tuple[str, ...], None] = {}
    for node in _nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                imported.setdefault(alias.asname or top, set()).add((alias.name if alias.asname else top, ""))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                imported.setdefault(alias.asname or alias.name, set()).add((node.module, alias.name))
        elif isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
            targets |= dict.fromkeys(_targets(node))
            called |= dict.fromkeys(_entered(node))
        if isinstance(node, ast.Expr):
            match node.value:
                # What is given nothing sets nothing.
                case ast.Call(func=func, args=args, keywords=keywords) if args or keywords:
                    called[_dotted(func)] = None
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
            match node.value:
                case ast.Call(func=func, args=args, keywords=keywords) if args or keywords:
                    taken[_dotted(func)] = None
    called.pop((), None)
    taken.pop((), None)
    return _Source(tuple(targets), tuple(called), tuple(taken), imported)


def _nodes(tree: ast.AST) -> list[ast.AST]:
    """The nodes of a tree that may hold others, outer ones first. Those that `ast.walk` gives beside are the
    most, and it takes three times as long, for which a job's first batch waits."""
    nodes = [tree]
    for node in nodes:
        for held in vars(node).values():
            kind = type(held)
            if kind is list:
                nodes += [each for each in held if type(each) not in _ENDS]
            elif kind not in _ENDS:
                nodes.append(held)
    return nodes


#: What a node holds that says nothing of an assignment by itself, and holds none.
_ENDS = frozenset(
    {
        *(type(None), bool, int, float, complex, str, bytes, type(...)),
        *(ast.Name, ast.Constant, ast.alias, ast.Pass, ast.Break, ast.Continue),
        *ast.expr_context.__subclasses__(),
        *(*ast.operator.__subclasses__(), *ast.unaryop.__subclasses__()),
        *(*ast.boolop.__subclasses__(), *ast.cmpop.__subclasses__()),
    }
)


def _targets(node: ast.AST) -> Iterator[tuple[str, ...]]:
    """Dotted names that a statement assigns to, or changes in place."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
        if len(path := _dotted(node)) > 1:
            yield path
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
        if len(path := _dotted(node.value)) > 1 and path[0] not in _OWN_PLACE:
            yield path
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
        if len(path := _dotted(node.func.value)) > 1 and path[0] not in _OWN_PLACE:
            yield path
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
        match node.args:
            case [of, ast.Constant(value=str(name)), _] if path := _dotted(of):
                yield (*path, name)


#: What these hold counts where it is read: variables, folders of modules, arguments.
_OWN_PLACE = frozenset({"os", "sys", "environ"})


def _entered(node: ast.AST) -> Iterator[tuple[str, ...]]:
    """What makes a context manager that is entered by a call, and so for nothing but its effect."""
    match node:
        case ast.Call(func=ast.Attribute(attr="enter_context"), args=[ast.Call(func=func, args=[_, *_])]):
            yield _dotted(func)
        case ast.Call(func=ast.Attribute(attr="__enter__", value=ast.Call(func=func, args=[_, *_]))):
            yield _dotted(func)


def _dotted(node: ast.AST) -> tuple[str, ...]:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id, *reversed(parts)) if isinstance(node, ast.Name) else ()
