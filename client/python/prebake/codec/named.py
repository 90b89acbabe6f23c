"""Classes that values are of, by name: of the user's own code as well as installed.

What their methods do counts where it is called, as code does. Here it counts that an instance is one, and has
the place for what it held.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import types
from typing import Any

from prebake.identity.code import fingerprint
from prebake.runtime import packages
from prebake.runtime.errors import Code, Refused

#: Classes whose form is kept.
CLASSES_MAX = 1024

Reference = dict[str, str]

#: By address, since classes may compare as they like; held, so that an address is not used again.
_forms: dict[int, tuple[type, str]] = {}


def reference(cls: type) -> Reference:
    """Where a class is found, and its form. Raises `Refused` if it is not found there."""
    module = "__main__" if cls.__module__ in packages.SCRIPTS else cls.__module__
    if packages.resolve(cls.__module__, cls.__qualname__) is not cls:
        why = "its module does not hold it under that name; define it at the top of a module"
        raise Refused(Code.VALUE, f"a value of the class {cls.__qualname__} cannot be stored: {why}")
    return {"module": module, "name": cls.__qualname__, "form": _form(cls)}


def found(where: Reference) -> type:
    """The class of that name, as it is now: a notebook may have defined it anew. Raises `Refused` if it is
    another one."""
    module, name = where["module"], where["name"]
    cls = packages.resolve(module, name)
    if cls is None:
        importlib.import_module(module)
        cls = packages.resolve(module, name)
    if not isinstance(cls, type) or _form(cls) != where["form"]:
        raise Refused(
            Code.VALUE, f"{module}.{name} is not the class that it was when a value of it was stored"
        )
    return cls


def member(where: Reference, name: str) -> Any:
    """The member of an enumeration."""
    return members(found(where))[name]


def members(cls: type) -> dict[str, Any]:
    """The members of an enumeration by name, other names of theirs included. Raises `Refused` for others."""
    if not issubclass(cls, enum.Enum):
        raise Refused(Code.VALUE, f"{cls.__qualname__} is no enumeration")
    found: dict[str, Any] = vars(cls)["_member_map_"]
    return found


def _form(cls: type) -> str:
    known = _forms.get(id(cls))
    if known is None:
        if len(_forms) >= CLASSES_MAX:
            _forms.clear()
        known = _forms[id(cls)] = cls, fingerprint(_facts(cls))
    return known[1]


def _facts(cls: type) -> Any:
    if issubclass(cls, enum.Enum):
        return {name: each._value_ for name, each in members(cls).items()}
    if issubclass(cls, tuple):
        return list(getattr(cls, "_fields", ()))
    names = [each.name for each in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []
    return [names, [[each.__qualname__, *_slots(each)] for each in cls.__mro__]]


def _slots(cls: type) -> list[str]:
    return [name for name, slot in vars(cls).items() if isinstance(slot, types.MemberDescriptorType)]
