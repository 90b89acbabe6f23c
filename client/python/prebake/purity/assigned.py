"""What the user's own modules set in installed modules and classes: attributes they assign, data that
functions keep which they call for nothing but their effect, and tables and objects that they name.

Installed code comes upon them wherever it runs, also for one item in a thousand, and also where no code of
the user's names them: computing some items again may not show what they change. So each counts, by its value,
for all that uses the distribution it is set in, or that package of the standard library.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import gc
import sys
import threading
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from prebake.known import marks
from prebake.purity import kept, said
from prebake.runtime import packages
from prebake.runtime.describe import described
from prebake.runtime.errors import Code, Refused
from prebake.world import user_modules, user_sources

if TYPE_CHECKING:
    from prebake.encoding.encoder import Encoder

#: Packages whose state is no setting: generators are compared around each element; what is logged, and when a
#: process ends, changes no value.
_NO_SETTINGS = frozenset({"prebake", "random", "logging", "warnings", "atexit", "signal", "gc", "threading"})


class Assigned(NamedTuple):
    """One attribute that somewhere is assigned; or one that counts while it is data, which may be changed in
    place."""

    owner: Any
    name: str
    distribution: str
    is_data: bool


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
    try:
        every = _assigned(len(sys.modules))
    except Refused:
        # Nor can anything be described that relies on them.
        return []
    found = []
    for each in every:
        if (each.distribution in _relied_on or _is_everywhere(each)) and _counts(each):
            found.append((_names(each.owner), each.name))
    return found


def _names(owner: Any) -> dict[str, Any]:
    """The namespace itself: what `vars` gives of a class only shows it."""
    space = _space(owner)
    assert space is not None, "it has a distribution"
    found: dict[str, Any] = space if type(space) is dict else gc.get_referents(space)[0]
    return found


#: What the descriptions of this process rely on.
_relied_on: set[str] = set()


def _counts(each: Assigned) -> bool:
    return not each.is_data or kept.counts(each.owner, each.name)


def _is_everywhere(each: Assigned) -> bool:
    """Whether all installed code may come upon it: a registry, a table or a function of the standard library,
    in which modules go on to each other (`pickle` to `copyreg`), and methods of bytes to `encodings`."""
    standard = each.distribution.startswith(_STANDARD.format(""))
    found = _member(each.owner, each.name) if standard and not each.is_data else None
    return standard and (each.is_data or callable(found) or issubclass(type(found), kept.TABLES))


#: What is assigned may itself use the distribution.
_within = threading.local()


def _write(encoder: Encoder, each: Assigned) -> None:
    space = _names(each.owner)
    encoder.watch.looked_up(space, each.name)
    if each.name not in space or not _counts(each):
        return
    is_module = issubclass(type(each.owner), types.ModuleType)
    owner = "" if is_module else getattr(each.owner, "__qualname__", type(each.owner).__qualname__)
    of = each.owner.__name__ if is_module else each.owner.__module__
    label = ".".join(filter(None, (of, owner, each.name)))
    try:
        known = described(kept.value(space[each.name]), label, by_itself=encoder.by_itself)
    except Refused:
        _write_refused(encoder, label, space[each.name])
        return
    if not isinstance(space[each.name], _COMPARED):
        _watch(encoder, space[each.name])
    start = len(encoder.out)
    encoder.text("assigned", label)
    encoder.emit("value", known.digest)
    encoder.reached.update(known.reached)
    encoder.path.append(f" {label}")
    encoder.leaf(start, space[each.name], "environment")
    encoder.path.pop()


def _watch(encoder: Encoder, found: Any) -> None:
    """Has it noticed that data is changed in place."""
    kind = type(found)
    if _is_bare(kind):
        encoder.watch.looked_through(kind)
        attributes = object.__getattribute__(found, "__dict__")
        encoder.watch.relied_on(found)
        found = attributes
    members = list(found.values()) if type(found) is dict else [...]
    if all(issubclass(type(each), (*_COMPARED, *_REPLACED)) for each in members):
        encoder.watch.looked_into(found)
        for each in members:
            if issubclass(type(each), _REPLACED):
                encoder.watch.relied_on(each)
    else:
        encoder.watch.is_loose = True


def _write_refused(encoder: Encoder, label: str, found: Any) -> None:
    """What draws, or asks the time, is known by its code: what uses the distribution may not come upon it.
    What cannot be described at all is known by its type, and a table by its members."""
    encoder.watch.is_loose = True
    encoder.text("assigned", label)
    known = [_known_by(encoder, each, label) for each in _parts(kept.value(found))]
    # A set has another order in each process.
    for each in sorted(known) if type(found) is set else known:
        encoder.emit("value", each)


def _known_by(encoder: Encoder, value: Any, label: str) -> bytes:
    try:
        return described(value, label).digest
    except Refused as refused:
        encoder.reached.may_draw |= refused.code in (Code.RANDOM, Code.CLOCK)
    with contextlib.suppress(Refused):
        return described(marks.Pure(value, None), label).digest
    return type(value).__qualname__.encode()


def _parts(value: Any) -> list[Any]:
    """A table's members, whatever it says of them itself; any other value is its only part."""
    kind = type(value)
    if issubclass(kind, dict):
        return [part for pair in dict.items(value) for part in pair]
    return list(value) if kind in kept.TABLES else [value]


#: Members of a table that another one stands for where it is another one.
_REPLACED = (type, types.FunctionType, types.BuiltinFunctionType)


class _Bare:
    """Attributes are all that its instances are made of, and those of other classes laid out like it."""


def _is_bare(kind: type) -> bool:
    """Whether it is a class of installed code whose instances are their attributes: code of the user's may be
    changed in more places."""
    alike = kind.__basicsize__ == _Bare.__basicsize__ and kind.__dictoffset__ == _Bare.__dictoffset__
    is_plain = kind.__mro__[1:] == (object,) and not {"__slots__", "__getattribute__"} & vars(kind).keys()
    held_as = type(vars(kind).get("__dict__"))
    installed = type(kind.__module__) is str and packages.owner(kind.__module__) is not None
    return alike and is_plain and held_as is types.GetSetDescriptorType and installed


#: A look at the name sees all that they are.
_COMPARED = (type(None), bool, int, float, str, bytes)


@functools.lru_cache(maxsize=1)
def _assigned(modules: int) -> tuple[Assigned, ...]:
    """All of them; looked for again once another module is imported."""
    found: dict[tuple[int, str], Assigned] = {}
    own = user_modules.own_files()
    for _, file in own:
        user_sources.source(file)
    said.learn([file for _, file in own])
    sources = [(vars(sys.modules.get(name, types)), said.of(file)) for name, file in own]
    for space, source in sources:
        for each in (*_targets(space, source), *_called(space, source)):
            found.setdefault((id(each.owner), each.name), each)
    for each in _named([source for _, source in sources]):
        found.setdefault((id(each.owner), each.name), each)
    return tuple(found.values())


def _targets(space: dict[str, Any], source: said.Source) -> Iterator[Assigned]:
    """What a source assigns to, or changes in place."""
    for *path, last in source.targets:
        for owner in _holders(_resolved(path, space, source.imported), last):
            if distribution := _distribution(owner):
                yield Assigned(owner, last, distribution, False)


def _called(space: dict[str, Any], source: said.Source) -> Iterator[Assigned]:
    """What functions keep that a source calls."""
    for path, is_for_nothing in (*((p, True) for p in source.called), *((p, False) for p in source.taken)):
        for called in map(_wrapped, _resolved(list(path), space, source.imported)):
            called: Any = called.__func__ if type(called) is staticmethod else called
            if type(called) is types.FunctionType:
                yield from _kept(kept.by(called, is_for_nothing))
            elif type(called) is types.BuiltinFunctionType and is_for_nothing:
                yield from _kept(kept.by_compiled(called))
        if is_for_nothing and len(path) > 1:
            yield from _set_in_class(_resolved(list(path[:-1]), space, source.imported), path[-1])


def _kept(found: Iterator[tuple[Any, str]]) -> Iterator[Assigned]:
    for owner, name in found:
        if owner.__name__ not in _LEFT_OUT and (distribution := _distribution(owner)):
            yield Assigned(owner, name, distribution, not issubclass(type(owner), type))


def _set_in_class(classes: list[Any], method: str) -> Iterator[Assigned]:
    """Attributes that a method of a class sets in it."""
    for cls in classes:
        found: Any = next(
            (vars(each)[method] for each in getattr(cls, "__mro__", ()) if method in vars(each)), None
        )
        distribution = _distribution(cls) if type(found) is classmethod else ""
        if distribution and type(found.__func__) is types.FunctionType:
            for name in sorted(kept.of_its_own(found.__func__)):
                yield from (Assigned(each, name, distribution, False) for each in _holders([cls], name))


def _named(sources: list[said.Source]) -> Iterator[Assigned]:
    """Tables, objects, classes and setters of installed modules that any source names, of those that any
    imports: by another name, as an argument, through an object, they may be changed, or called, in ways that
    no statement shows."""
    names = {name for source in sources for name in source.names}
    for imported in sorted({module for source in sources for module in source.modules}):
        module = sys.modules.get(imported)
        if type(module) is not types.ModuleType or imported in _LEFT_OUT:
            continue
        if not (distribution := _distribution(module)):
            continue
        for name in sorted(names & vars(module).keys()):
            # What the interpreter keeps of a module (`__all__`, `__spec__`) is no setting of it.
            if name.startswith("__"):
                continue
            found = vars(module)[name]
            if issubclass(type(found), type):
                yield from _tables(found)
            elif type(found) is types.FunctionType and kept.is_setter(found):
                yield from _kept(kept.by(found))
            elif kept.counts(module, name) and _is_changed_in_place(found):
                yield Assigned(module, name, distribution, True)


def _tables(cls: type) -> Iterator[Assigned]:
    """Tables of an installed class and those that it extends. Functions that are given the class may write
    into them (`yaml.add_constructor(..., Loader=SafeLoader)`)."""
    for each in cls.__mro__:
        if distribution := _distribution(each):
            for name, found in vars(each).items():
                # What is private is the class's own, and so are tables of kinds that packages made for
                # themselves: it remembers there what it found (`sympy`'s assumptions, in any order).
                if _is_plain_table(found) and not name.startswith("_"):
                    yield from (Assigned(of, name, distribution, True) for of in dict.fromkeys((cls, each)))


def _is_plain_table(value: Any) -> bool:
    kind = type(value)
    return issubclass(kind, kept.TABLES) and packages.owner(kind.__module__) is packages.PYTHON


def _is_changed_in_place(value: Any) -> bool:
    kind = type(value)
    return issubclass(kind, kept.TABLES) or not issubclass(kind, enum.Enum) and _space(value) is not None


#: What the first hold counts where it is read, or is told by itself (`ambient.py`); objects of the others
#: stand for something.
_LEFT_OUT = frozenset(
    {"os", "posix", "sys", "_csv", "__future__", "typing", "typing_extensions", "unittest.mock"}
)


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
    if found is None or name.partition(".")[0].lstrip("_") in _NO_SETTINGS:
        return ""
    return _STANDARD.format(name.partition(".")[0]) if found is packages.PYTHON else found.name


#: What stands for a distribution where something is of the standard library.
_STANDARD = "python {}"
