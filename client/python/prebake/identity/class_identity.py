"""Fingerprints of classes: their members, and which of their methods anything calls."""

from __future__ import annotations

import _abc
import abc
import dataclasses
import enum
import inspect
import types
import typing
from typing import Any

from prebake.bytecode.unordered_iteration import varies
from prebake.encoding import namespaces
from prebake.encoding.dependencies import Pending
from prebake.encoding.encoder import Encoder
from prebake.encoding.instances import order_of
from prebake.encoding.namespaces import Asked
from prebake.identity import introspection, monkeypatches
from prebake.identity.functions import write_code
from prebake.known.marks import PURE
from prebake.purity import clocks, seeds
from prebake.purity.scan import Scan
from prebake.runtime import packages
from prebake.runtime.errors import Code
from prebake.runtime.words import words

#: Entries of a class that are made by the interpreter or only describe it.
CLASS_SKIPPED = frozenset(
    [
        "__dict__",
        "__weakref__",
        "__doc__",
        "__module__",
        "__qualname__",
        "__annotations__",
        "__abstractmethods__",
        "_abc_impl",
        "__orig_bases__",
        "__parameters__",
        "__firstlineno__",
        "__static_attributes__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
        # An enumeration keeps which values were asked for; those that its members also go by are written.
        "_value2member_map_",
        "_unhashable_values_",
        "__dataclass_params__",
        # Pickling leaves it behind.
        "__slotnames__",
        PURE,
    ]
)


def encode(encoder: Encoder, cls: type) -> None:
    module, qualname = cls.__module__, cls.__qualname__
    owner = packages.owner(module) if isinstance(module, str) else None
    if owner is not None and cls.__flags__ & packages.HEAP_TYPE:
        encoder.watch.resolved(cls, module, qualname)
    if owner is not None and (
        not cls.__flags__ & packages.HEAP_TYPE or packages.resolve(module, qualname) is cls
    ):
        encoder.named(owner, module, qualname)
        monkeypatches.write(encoder, cls)
        return
    encoder.number(cls)
    encoder.watch.is_loose = True
    # An instance that is a value is found by its class's name (`named`).
    is_value = dataclasses.is_dataclass(cls) or issubclass(cls, (enum.Enum, tuple))
    encoder.text("class", qualname, *([module] if is_value and module not in packages.SCRIPTS else []))
    encoder.member(".__class__", type(cls))
    encoder.member(".__bases__", cls.__bases__)
    try:
        annotations = inspect.get_annotations(cls)
    except Exception as error:
        raise encoder.refuse(Code.OPAQUE, f"has annotations that cannot be evaluated: {error}") from None
    encoder.member(".__annotations__", annotations)
    if encoder.path[-1] != ".__class__" and ".__bases__" not in encoder.path[-2:]:
        encoder.constructed.update(map(id, cls.__mro__))
    for name, value in sorted(vars(cls).items()):
        if name not in CLASS_SKIPPED and not (name == "__init__" and _is_of_protocol(cls, value)):
            encoder.text("attribute", name)
            _attribute(encoder, cls, name, value)
    if issubclass(cls, enum.Enum):
        also = [
            [value, each._name_]
            for value, each in cls._value2member_map_.items()
            # Bits that were asked for by their complement are kept too.
            if each._name_ in cls._member_map_ and value != each._value_ and not _is_bits(each, value)
        ]
        encoder.unordered("also", also)
    if isinstance(cls, abc.ABCMeta):
        # Classes that were registered as its own: `isinstance` asks for them.
        registered = [found for each in _abc._get_dump(cls)[0] if (found := each()) is not None]
        encoder.unordered("registered", registered)


def _is_of_protocol(cls: type, init: Any) -> bool:
    """Whether `typing` put a class's `__init__` there: a stand-in that its first instance replaces by the one
    that is inherited."""
    inherited = [vars(base).get("__init__") for base in cls.__mro__[1:]]
    return typing.Protocol in cls.__mro__ and (
        getattr(init, "__module__", None) == "typing" or any(init is each for each in inherited)
    )


def _is_bits(member: enum.Enum, value: Any) -> bool:
    return isinstance(member, enum.Flag) and isinstance(value, int)


def _attribute(encoder: Encoder, cls: type, name: str, value: Any) -> None:
    """An entry of a class. A method that must be refused counts only if something calls it."""
    function = (
        getattr(value, "__func__", None) or getattr(value, "fget", None) or getattr(value, "func", value)
    )
    if type(function) is not types.FunctionType:
        # Of names of its own Python knows none that holds more than functions: a decorator put it there.
        special = name.startswith("__") and name.endswith("__")
        encoder.made_installed += special
        encoder.member(f".{name}", value)
        encoder.made_installed -= special
        return
    names, asked = set(encoder.names), encoder.asked
    if name in _MAKING:
        encoder.asked = encoder.making.setdefault(id(cls), Asked())
        encoder.asked.is_made_alike = dataclasses.is_dataclass(cls) or hasattr(cls, "__attrs_attrs__")
        encoder.asked.is_made_by_class = any(type(each) is classmethod for each in vars(cls).values())
    refused = encoder.attempt(lambda: encoder.member(f".{name}", value))
    encoder.asked = asked
    if refused is not None:
        encoder.names = names
        encoder.emit("uncalled")
        write_code(encoder, function.__code__)
        encoder.pending.append(Pending(cls, name, refused))


#: Methods that nothing calls while items are computed, unless code makes or copies instances.
_MAKING = frozenset({"__init__", "__new__", "__post_init__"})
_IDLE = words(
    "__repr__ __del__ __reduce__ __reduce_ex__ __getstate__ __setstate__ __getnewargs__ __copy__ "
    "__deepcopy__ "
    "__init_subclass__ __sizeof__ __dir__"
)


def settle(encoder: Encoder) -> None:
    """Writes what code asks of functions, and raises the refusal of the first method that something calls, as
    far as names tell.
    """
    monkeypatches.added(encoder)
    namespaces.write(encoder)
    introspection.write(encoder)
    _orders(encoder)
    # The last two may have met more of them.
    namespaces.write(encoder)
    seeds.settle(encoder)
    clocks.settle(encoder)
    for each in encoder.pending:
        if _is_called(encoder, each):
            raise each.refused


def _orders(encoder: Encoder) -> None:
    """Refuses attributes of classes that are sets, or methods that return one, if code takes their order."""
    for cls in [each for each in encoder.numbered() if isinstance(each, type) and encoder.ordered]:
        for name in sorted(encoder.ordered & vars(cls).keys()):
            value = vars(cls)[name]
            function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
            if varies(value) or (
                isinstance(function, types.FunctionType) and Scan(encoder, function).orders.returns_set()
            ):
                raise order_of(encoder, name)
            if type(value) in (set, frozenset):
                encoder.member(f".{name} in order", list(value))


def _is_called(encoder: Encoder, each: Pending) -> bool:
    if each.name in _MAKING:
        return id(each.cls) in encoder.constructed
    if each.name in _IDLE:
        return each.name in encoder.names
    if each.name.startswith("__") and each.name.endswith("__"):
        return True
    inherited = any(
        each.name in vars(base) and base is not object and packages.owner(base.__module__) is not None
        for base in each.cls.__mro__[1:]
    )
    return inherited or encoder.computed or each.name in encoder.names
