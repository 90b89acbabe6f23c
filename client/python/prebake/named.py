"""Classes that values are of, by name: of the user's own code as well as installed."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from prebake import packages
from prebake.code import fingerprint
from prebake.errors import Code, Refused

#: Classes whose identity is kept.
CLASSES_MAX = 1024

Reference = dict[str, str]


def reference(cls: type) -> Reference:
    """Where a class is found, and what it is. Raises `Refused` if it is not found there."""
    where = {
        "module": "__main__" if cls.__module__ in packages.SCRIPTS else cls.__module__,
        "name": cls.__qualname__,
    }
    if packages.resolve(cls.__module__, cls.__qualname__) is not cls:
        raise Refused(
            Code.VALUE,
            f"a value of the class {cls.__qualname__} cannot be stored: its module does not hold it under "
            "that name; define it at the top of a module",
        )
    return where | {"is": _identity(cls)}


def found(where: Reference) -> type:
    """The class of that name, as it is now: a notebook may have defined it anew. Raises `Refused` if it is
    another one."""
    module, name = where["module"], where["name"]
    cls = packages.resolve(module, name)
    if cls is None:
        importlib.import_module(module)
        cls = packages.resolve(module, name)
    if not isinstance(cls, type) or _identity(cls) != where["is"]:
        raise Refused(
            Code.VALUE, f"{module}.{name} is not the class that it was when a value of it was stored"
        )
    return cls


@functools.lru_cache(maxsize=CLASSES_MAX)
def _identity(cls: type) -> str:
    return fingerprint(cls)


def member(where: Reference, name: str) -> Any:
    """The member of an enumeration."""
    return found(where)[name]  # type: ignore[index]
