"""Instances of dataclasses and named tuples: what they hold, and how they are made again, running nothing."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Sequence
from typing import Any, NamedTuple

from prebake.encoding.instances import hides_state
from prebake.runtime.errors import Code, Refused
from prebake.runtime.packages import HEAP_TYPE

#: Where a slot is, since classes that extend each other may have two of one name: which of the classes, and
#: its name there.
Slot = tuple[int, str]


class Fields(NamedTuple):
    """What an instance holds, in its dictionary and in slots."""

    named: dict[str, Any]
    slots: dict[Slot, Any]


def is_named_tuple(value: Any) -> bool:
    """Whether a value is a named tuple that holds nothing else."""
    cls = type(value)
    return (
        isinstance(value, tuple)
        and hasattr(cls, "_fields")
        and cls.__itemsize__ > 0
        and not _dictionary(value)
    )


def named_tuple(cls: type, members: Sequence[Any]) -> Any:
    """The named tuple. Its class may do things when one is made: it was made already. Raises `Refused`."""
    if not (issubclass(cls, tuple) and hasattr(cls, "_fields")):
        raise _refused(cls, "it is no named tuple")
    return tuple.__new__(cls, members)


def fields(value: Any) -> Fields:
    """What a dataclass's instance holds. Raises `Refused` if that is not all of it."""
    cls = type(value)
    if hides_state(cls) or not all(each.__flags__ & HEAP_TYPE for each in cls.__mro__[:-1]):
        raise _refused(cls, "it is more than its fields")
    found = Fields(_dictionary(value), {})
    if set(map(type, found.named)) - {str}:
        raise _refused(cls, "it has fields that no text names")
    for at, each in enumerate(cls.__mro__):
        for name, slot in vars(each).items():
            if isinstance(slot, types.MemberDescriptorType):
                try:
                    found.slots[at, name] = slot.__get__(value)
                except AttributeError:
                    continue
    kept = {*found.named, *(name for _, name in found.slots)}
    if cls.__hash__ not in (None, object.__hash__) and not kept <= _declared(cls):
        # Hashes of texts are others in each process, and this may be one.
        raise _refused(cls, "it has a hash, and keeps more than its declared fields")
    return found


def made(cls: type, names: Sequence[str], slots: Sequence[Slot], parts: Sequence[Any]) -> Any:
    """The instance. Its class may forbid assignments, and do things when one is made: it was made already.
    Raises `Refused` if none was ever stored of it: one that was never made may do anything when it ends."""
    if not dataclasses.is_dataclass(cls):
        raise _refused(cls, "it is no dataclass")
    value = object.__new__(cls)
    if names:
        _dictionary(value).update(zip(names, parts, strict=False))
    for (at, name), part in zip(slots, parts[len(names) :], strict=True):
        slot = vars(cls.__mro__[at])[name]
        if not isinstance(slot, types.MemberDescriptorType):
            raise _refused(cls, f"{name} is no slot of it")
        slot.__set__(value, part)
    return value


def _dictionary(value: Any) -> dict[str, Any]:
    """What an instance keeps by name, whatever its class makes of attributes. Raises `Refused`."""
    for each in type(value).__mro__:
        held = vars(each).get("__dict__")
        if isinstance(held, types.GetSetDescriptorType):
            found: dict[str, Any] = held.__get__(value)
            return found
        if held is not None:
            raise _refused(type(value), "its __dict__ is its own")
    return {}


def _declared(cls: type) -> set[str]:
    return {each.name for each in dataclasses.fields(cls)}


def _refused(cls: type, why: str) -> Refused:
    return Refused(Code.VALUE, f"a value of the class {cls.__qualname__} cannot be stored: {why}")
