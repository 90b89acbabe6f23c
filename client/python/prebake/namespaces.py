"""Configurations: of objects that only hold settings, those count that code can ask for.

The trials of a sweep share a script's `args` and differ in its learning rate, its folder, its time. A field
whose name stands nowhere in the code that is described cannot change what it yields, as long as code only
ever takes attributes of the object: where it is handed on, compared or looked through, all of it counts.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
import types
from typing import TYPE_CHECKING, Any, NamedTuple

from prebake import bytecode, packages
from prebake.calls import words

if TYPE_CHECKING:
    from prebake.encoder import Encoder

#: By these names an object is looked through without being handed on, or asked by texts.
_WHOLE = words("__dict__ __getattribute__ __getstate__ __reduce__ __reduce_ex__ attrgetter methodcaller")
#: What a dataclass is given by its decorator.
_GIVEN = words("__init__ __repr__ __eq__ __lt__ __le__ __gt__ __ge__ __hash__ __replace__")
#: Entries of a class that say nothing of its values.
_DESCRIBING = words(
    "__module__ __qualname__ __doc__ __dict__ __weakref__ __annotations__ __annotate__ __annotate_func__ "
    "__annotations_cache__ __firstlineno__ __static_attributes__"
)
#: Base classes that look at nothing of the objects they extend.
_IDLE_BASES = words(
    "builtins.object typing.Generic typing.Protocol abc.ABC collections.abc.Sequence "
    "collections.abc.Iterable torch.utils.data.dataset.Dataset torch.utils.data.dataset.IterableDataset"
)
#: Of which all was written.
_ALL = ""
_STEP = re.compile(r"(?: -> |\.)([^\W\d]\w*)")
_WORD = re.compile(r"[^\W\d]\w*")
#: Characters of texts in code, in which fields may be named.
TEXT_MAX = 1 << 16


class Held(NamedTuple):
    """A configuration, and where it was met: `holders` are the names on the way to it, None where it is in
    something that has none."""

    value: Any
    path: list[str]
    kind: str
    holders: frozenset[str] | None


class Asked:
    """What code asks for: attributes by name, words in its texts, and names of what it hands on."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.handed_on: set[str] = set()
        #: Attributes that are used otherwise than being called; words in texts may be such.
        self.taken: set[str] = set()

    def add(self, code: types.CodeType) -> None:
        used = bytecode.references(code)
        self.names |= used.names | _texts(code)
        self.handed_on |= used.handed_on
        self.taken |= used.taken | _texts(code)

    def merge(self, other: Asked) -> None:
        self.names |= other.names
        self.handed_on |= other.handed_on
        self.taken |= other.taken


def is_one(value: Any) -> bool:
    """Whether an object or a class does nothing but hold settings."""
    cls = type(value)
    if cls is types.SimpleNamespace:
        return True
    argparse = sys.modules.get("argparse")
    if argparse is not None and cls is argparse.Namespace:
        return True
    if cls is type:
        plain = value.__bases__ == (object,) and packages.owner(value.__module__) is None
        return plain and not any(map(_acts, _own(value).values()))
    if not dataclasses.is_dataclass(cls) or packages.owner(cls.__module__) is not None:
        return False
    return type(cls) is type and all(
        base is object or dataclasses.is_dataclass(base) and not any(map(_acts, _own(base).values()))
        for base in cls.__mro__
    )


def _own(cls: type) -> dict[str, Any]:
    given = _GIVEN if dataclasses.is_dataclass(cls) else frozenset[str]()
    entries = {name: value for name, value in vars(cls).items() if name not in _DESCRIBING | given}
    return {name: value for name, value in entries.items() if not name.startswith("__dataclass_")}


def _acts(value: Any) -> bool:
    """Whether what a class holds may run code of its own when it is asked for."""
    return hasattr(type(value), "__get__") or hasattr(type(value), "__set_name__")


def fields(value: Any) -> dict[str, Any]:
    return _own(value) if isinstance(value, type) else vars(value)


@functools.lru_cache(maxsize=bytecode.CODES_MAX)
def _texts(code: types.CodeType) -> frozenset[str]:
    """Words in the texts of a code object and of those nested in it."""
    found, pending = set[str](), list[Any](code.co_consts)
    while pending:
        each = pending.pop()
        if type(each) is str:
            found.update(_WORD.findall(each[:TEXT_MAX]))
        elif type(each) in (tuple, frozenset):
            pending += each
        elif isinstance(each, types.CodeType):
            pending += each.co_consts
    return frozenset(found)


def holders(encoder: Encoder, cls: type) -> frozenset[str] | None:
    """The names on the way to an attribute of an object that is being written, and those that its own methods
    have for it: none of them must be handed on."""
    own = {_first(value) for base in cls.__mro__ for value in vars(base).values()}
    found = [_STEP.fullmatch(step) for step in encoder.path[1:] if not step.startswith(".__self__")]
    return frozenset(each[1] for each in found if each) | own if found and all(found) else None


def _first(entry: Any) -> str:
    """What a method calls its object; empty if an entry of a class is none."""
    function = getattr(entry, "fget", None) or getattr(entry, "func", entry)
    return function.__code__.co_varnames[0] if _has_object(function) else ""


def _has_object(function: Any) -> bool:
    return isinstance(function, types.FunctionType) and function.__code__.co_argcount > 0


def looks_through(cls: type) -> bool:
    """Whether an installed base class may look through the fields of its objects."""
    bases = (base for base in cls.__mro__ if packages.owner(base.__module__) is not None)
    return any(f"{base.__module__}.{base.__qualname__}" not in _IDLE_BASES for base in bases)


def write(encoder: Encoder) -> None:
    """Writes the fields that the code written by now can ask for. What is in them may bring more code."""
    done = [set[str]() for _ in encoder.namespaces]
    while True:
        size, asked = len(encoder.out), _asked(encoder)
        done += [set() for _ in encoder.namespaces[len(done) :]]
        for place, held in enumerate(list(encoder.namespaces)):
            _write(encoder, asked, place, held, done[place])
        if size == len(encoder.out):
            return


def _asked(encoder: Encoder) -> Asked:
    """By all code that may run: of what makes objects, that of classes which code makes objects of."""
    asked = Asked()
    asked.merge(encoder.asked)
    for cls, making in encoder.making.items():
        if cls in encoder.constructed or "__class__" in asked.handed_on:
            asked.merge(making)
    return asked


def _write(encoder: Encoder, asked: Asked, place: int, held: Held, done: set[str]) -> None:
    encoder.path, encoder.kind = [*held.path], held.kind
    if held.holders is None or encoder.computed or held.holders & asked.handed_on or _WHOLE & asked.names:
        if _ALL not in done:
            done.add(_ALL)
            encoder.text("settings", str(place))
            encoder.value(held.value)
        return
    entries = fields(held.value)
    for name in sorted((entries.keys() & asked.names) - done):
        done.add(name)
        encoder.text("setting", str(place), name)
        encoder.member(f".{name}", entries[name])
