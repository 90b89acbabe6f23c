"""Instances of dataclasses and named tuples: what they hold, and how they are made again, running nothing."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

from prebake.errors import Code, Refused
from prebake.instances import hides_state


def is_named_tuple(value: Any) -> bool:
    """Whether a value is a named tuple that holds nothing else."""
    return (
        isinstance(value, tuple) and hasattr(type(value), "_fields") and not getattr(value, "__dict__", None)
    )


def fields(value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What an instance holds, in its dictionary and in slots. Raises `Refused` if that is not all of it."""
    cls = type(value)
    if hides_state(cls):
        raise Refused(
            Code.VALUE,
            f"a value of the class {cls.__qualname__} cannot be stored: it is more than its fields",
        )
    slots = {}
    for each in cls.__mro__:
        for name, slot in vars(each).items():
            if isinstance(slot, types.MemberDescriptorType):
                try:
                    slots[name] = slot.__get__(value)
                except AttributeError:
                    continue
    return dict(getattr(value, "__dict__", {})), slots


def made(cls: type, held: Sequence[str], slots: Sequence[str], parts: Sequence[Any]) -> Any:
    """The instance. Its class may forbid assignments, and do things when one is made: it was made already."""
    value = object.__new__(cls)
    if held:
        vars(value).update(zip(held, parts, strict=False))
    for name, part in zip(slots, parts[len(held) :], strict=True):
        object.__setattr__(value, name, part)
    return value
