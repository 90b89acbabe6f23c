"""Configurations: of objects that only hold settings, those count that code can ask for.

The trials of a sweep share a script's `args` and differ in its learning rate, its folder, its time. A field
whose name stands nowhere in the code that is described cannot change what it yields, as long as code only
ever takes attributes of the object: where it is handed on, compared or looked through, all of it counts.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import sys
import types
from typing import TYPE_CHECKING, Any, NamedTuple

from prebake.bytecode import instructions
from prebake.runtime import packages
from prebake.runtime.words import words
from prebake.world.frame_names import READERS

if TYPE_CHECKING:
    from prebake.encoding.encoder import Encoder

#: By these names objects and functions are looked through without being handed on, or asked by texts.
_WHOLE = READERS | words(
    "__dict__ __getattribute__ __getstate__ __reduce__ __reduce_ex__ attrgetter methodcaller __closure__ "
    "getclosurevars getmembers cloudpickle dill joblib"
)
#: By these names objects of a class are made without its name.
_MAKES = words("type __class__ __new__ __init__")
#: The same of classes whose objects say how they are made.
_MAKES_ALIKE = words("replace __replace__ evolve")
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
_WORD = re.compile(r"[^\W\d]\w*")
#: Characters of texts in code, in which fields may be named.
TEXT_MAX = 1 << 16


class Held(NamedTuple):
    """A configuration, and where it was met: `holders` are the names by which code has it, None if it may
    have it by others; `owner` is the object that holds it, if one does. `done` are the fields that were
    written."""

    value: Any
    path: list[str]
    kind: str
    holders: frozenset[str] | None
    owner: Any
    done: set[str]


class Asked:
    """What code asks for: attributes by name, words in its texts, and names of what it hands on."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.handed_on: set[str] = set()
        #: Attributes that are used otherwise than being called; words in texts may be such.
        self.taken: set[str] = set()
        #: Whether a method of the class is given the class itself, and may make objects of it; and whether
        #: its objects say how they are made.
        self.is_made_by_class = self.is_made_alike = False

    def add(self, code: types.CodeType) -> None:
        used = instructions.references(code)
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
    """What code can ask of a configuration by a name of the user's."""
    if isinstance(value, type):
        return _own(value)
    found = dict[str, Any]()
    if dataclasses.is_dataclass(value):
        for cls in reversed(type(value).__mro__[:-1]):
            found |= _own(cls)
    return found | vars(value)


@functools.lru_cache(maxsize=instructions.CODES_MAX)
def _names(cls: type) -> frozenset[str]:
    return frozenset(dir(cls)) - {"__init__"}


def _others(value: Any, entries: dict[str, Any]) -> frozenset[str]:
    """What else it can be asked for, by names of Python's or of its class."""
    names = _names(type(value))
    return (names | _names(value) if isinstance(value, type) else names) - entries.keys()


@functools.lru_cache(maxsize=instructions.CODES_MAX)
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


def holders(encoder: Encoder, cls: type, name: str) -> frozenset[str] | None:
    """By which names code has what an object that is described itself holds; of others it may be had by way
    of what holds them."""
    if len(encoder.path) != 1:
        return None
    found = {name}
    for entry in (entry for base in cls.__mro__[:-1] for entry in vars(base).values()):
        kind = type(entry)
        if hasattr(kind, "__get__") and packages.owner(kind.__module__) is None:
            # A descriptor of the user's is given the object.
            return None
        accessors = (getattr(entry, each, None) for each in ("fget", "fset", "fdel", "func", "__func__"))
        functions: list[Any] = [each for each in (entry, *accessors) if _is_function(each)]
        for function in functions:
            code = function.__code__
            if not code.co_argcount and code.co_flags & inspect.CO_VARARGS:
                return None
            found.update(code.co_varnames[: bool(code.co_argcount)])
    return frozenset(found)


def _is_function(value: Any) -> bool:
    return type(value) is types.FunctionType


def looks_through(cls: type) -> bool:
    """Whether an installed base class may look through the fields of its objects."""
    bases = (base for base in cls.__mro__ if packages.owner(base.__module__) is not None)
    return any(f"{base.__module__}.{base.__qualname__}" not in _IDLE_BASES for base in bases)


def write(encoder: Encoder) -> None:
    """Writes the fields that the code written by now can ask for, and that were not yet. What is in them may
    bring more code."""
    while True:
        size, asked = len(encoder.out), _asked(encoder)
        for place, held in enumerate(list(encoder.namespaces)):
            _write(encoder, asked, place, held)
        if size == len(encoder.out):
            return


def _asked(encoder: Encoder) -> Asked:
    """By all code that may run: of what makes objects, that of classes which code makes objects of."""
    asked = Asked()
    asked.merge(encoder.asked)
    for cls, making in encoder.making.items():
        names = _MAKES | (_MAKES_ALIKE if making.is_made_alike else frozenset())
        if cls in encoder.constructed or names & encoder.asked.names or making.is_made_by_class:
            asked.merge(making)
    return asked


def _write(encoder: Encoder, asked: Asked, place: int, held: Held) -> None:
    encoder.path, encoder.kind = [*held.path], held.kind
    if _ALL in held.done:
        return
    entries = fields(held.value)
    if (
        held.holders is None
        or encoder.computed
        or held.holders & asked.handed_on
        or (_WHOLE | _others(held.value, entries)) & asked.names
        or held.owner is not None
        and id(held.owner) in encoder.met_again
    ):
        held.done.add(_ALL)
        encoder.text("settings", str(place))
        encoder.value(held.value)
        return
    for name in sorted((entries.keys() & asked.names) - held.done):
        held.done.add(name)
        encoder.text("setting", str(place), name)
        encoder.member(f".{name}", entries[name])
