"""What a source of the user's says of names: what it assigns to, calls, imports and names."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from prebake.known.calls import MUTATORS
from prebake.world import user_sources

#: Source files whose assignments are kept; others are parsed again whenever a module was imported.
FILES_MAX = 8192


class Source(NamedTuple):
    """What a module's source says: dotted names that it assigns to, those that it calls and takes nothing
    from, those of which it keeps what they return, what it imports by which name; and all modules that it
    imports, and names of what it takes from anything."""

    targets: tuple[tuple[str, ...], ...]
    called: tuple[tuple[str, ...], ...]
    taken: tuple[tuple[str, ...], ...]
    #: Module and attribute, or only a module: in functions a name may stand for another than outside of them.
    imported: dict[str, set[tuple[str, str]]]
    modules: tuple[str, ...]
    names: tuple[str, ...]


#: By file: a module's source is what it was when it was first asked for.
_sources: dict[str, Source] = {}
#: In texts that are given to calls (`mock.patch.dict("a.b")`); of longer ones nothing is taken for a name.
_WORD = re.compile(r"[^\W\d]\w*")
TEXT_MAX = 256


class Kept(Protocol):
    """Where what sources say is kept for other processes."""

    def known(self, texts: Sequence[bytes]) -> Any:
        """What was stored of these sources; None if nothing was."""

    def store(self, texts: Sequence[bytes], found: Any) -> None:
        """Has it known to all jobs from now on what these sources say: anything that JSON can tell."""


_kept: Kept | None = None


def keep_in(kept: Kept) -> None:
    """Where what is found from now on is kept, and looked for."""
    global _kept
    _kept = kept


def of(file: str) -> Source:
    """What one of the user's files says."""
    known = _sources.get(file)
    return _parsed(file) if known is None else known


def learn(files: list[str]) -> None:
    """Has it known what files say, by what another process found in the same texts where that is stored."""
    files = [each for each in files if each not in _sources][: FILES_MAX - len(_sources)]
    if not files:
        return
    texts = list(map(user_sources.text, files))
    found = _kept.known(texts) if _kept else None
    if found is not None:
        _sources.update(zip(files, itertools.starmap(_read, found), strict=True))
        return
    parsed = list(map(_parsed, files))
    _sources.update(zip(files, parsed, strict=True))
    if _kept:
        _kept.store(texts, list(map(_written, parsed)))


def _written(said: Source) -> tuple[Any, ...]:
    """As JSON can tell it: the same each time."""
    imported = {name: sorted(each) for name, each in sorted(said.imported.items())}
    return said.targets, said.called, said.taken, imported, said.modules, said.names


def _read(targets: Any, called: Any, taken: Any, imported: Any, modules: Any, names: Any) -> Source:
    named = {name: {(module, attribute) for module, attribute in each} for name, each in imported.items()}
    targets, called, taken = (tuple(map(tuple, each)) for each in (targets, called, taken))
    return Source(targets, called, taken, named, tuple(modules), tuple(names))


def _parsed(file: str) -> Source:
    found = _Found()
    try:
        found.tree(ast.parse(user_sources.text(file)))
    except (SyntaxError, ValueError, RecursionError):
        found = _Found()
    return found.source()


class _Found:
    """What is found in one tree."""

    def __init__(self) -> None:
        # Ordered as they were met: what is stored is the same each time.
        self.targets: dict[tuple[str, ...], None] = {}
        self.called: dict[tuple[str, ...], None] = {}
        self.taken: dict[tuple[str, ...], None] = {}
        self.imported: dict[str, set[tuple[str, str]]] = {}
        self.modules: dict[str, None] = {}
        self.names: dict[str, None] = {}

    def source(self) -> Source:
        said = (tuple(path for path in each if path) for each in (self.targets, self.called, self.taken))
        targets, called, taken = said
        return Source(targets, called, taken, self.imported, tuple(self.modules), tuple(self.names))

    def tree(self, tree: ast.AST) -> None:
        for node in _nodes(tree):
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                self._import_from(node, node.module)
            elif isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
                self.targets |= dict.fromkeys(_targets(node))
                self.called |= dict.fromkeys(_entered(node))
                self.names |= dict.fromkeys(_names(node))
            elif isinstance(node, ast.Expr):
                # What is given nothing sets nothing, or is a setter by its code (`kept.is_setter`).
                self.called |= dict.fromkeys(_given(node.value))
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
                self.taken |= dict.fromkeys(_given(node.value))

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            top = alias.name.partition(".")[0]
            module = alias.name if alias.asname else top
            self.imported.setdefault(alias.asname or top, set()).add((module, ""))
            self.modules[alias.name] = None

    def _import_from(self, node: ast.ImportFrom, module: str) -> None:
        self.modules[module] = None
        for alias in node.names:
            self.imported.setdefault(alias.asname or alias.name, set()).add((module, alias.name))
            self.modules[f"{module}.{alias.name}"] = self.names[alias.name] = None


def _given(node: ast.AST | None) -> Iterator[tuple[str, ...]]:
    """What is called, and given something."""
    match node:
        case ast.Call(func=func, args=args, keywords=keywords) if args or keywords:
            yield _dotted(func)


def _names(node: ast.AST) -> Iterator[str]:
    """Names of what is taken from something, in code or in texts that calls are given."""
    if isinstance(node, ast.Attribute):
        # A private attribute of an object's own (`self._cache`) is none of a module.
        own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        if not (own and node.attr.startswith("_")):
            yield node.attr
    elif isinstance(node, ast.Call):
        for each in node.args:
            match each:
                case ast.Constant(value=str(text)) if len(text) <= TEXT_MAX:
                    yield from _WORD.findall(text)


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
