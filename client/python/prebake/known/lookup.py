"""What the table of calls says of names, and of values by the name that people know them by."""

from __future__ import annotations

import functools
import os
import sys
import types
from typing import TYPE_CHECKING, Any

from prebake.known import calls
from prebake.runtime import packages
from prebake.runtime.errors import Code, Refused

if TYPE_CHECKING:
    from prebake.encoding.encoder import Encoder

_ABSENT = object()


def verdict_of(dotted: str) -> Code | str | None:
    """What the table says of a dotted name: its longest entry."""
    while dotted:
        found = calls.CALLS.get(dotted)
        if found is not None:
            return found
        dotted = dotted.rpartition(".")[0]
    return None


@functools.cache
def is_listed(module: str) -> bool:
    """Whether the table names anything in a module, so that it matters what is used of it."""
    return any(
        isinstance(v, Code) or v == calls.SEEDED for name, v in calls.CALLS.items() if _is_in(name, module)
    )


def _is_in(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


def as_value(encoder: Encoder, module: str) -> Refused:
    """Why a module must not be passed around."""
    verdict = verdict_of(module)
    return encoder.refuse(
        verdict if isinstance(verdict, Code) else Code.MODULE_AS_VALUE,
        f"uses the module {module} as a value: what is used of it is unseen; name the attributes instead",
    )


#: C modules of Python, and parts of packages, by the name that people import.
_HOMES = {
    "posix": "os",
    "posixpath": "os.path",
    "genericpath": "os.path",
    "_datetime": "datetime",
    "_io": "io",
    "pathlib._local": "pathlib",
    "_random": "random",
}
#: Modules whose functions do not say where they are from.
_SILENT = ("torch", "torch.nn.functional")


def covers(value: Any) -> bool:
    """Whether all that code does with a value that it names is judged here, so that the value itself says
    nothing.
    """
    return value is os.environ or isinstance(verdict_of(dotted_of(value)), Code)


def dotted_of(value: Any) -> str:
    """The name in the table of something installed; empty for the user's own, and for values."""
    if isinstance(value, types.ModuleType):
        return value.__name__ if packages.owner(value.__name__) is not None else ""
    if value is os.environ:
        return "os.environ"
    for name in ("modules", "argv", "path", "stdin"):
        if value is getattr(sys, name):
            return f"sys.{name}"
    if not callable(value):
        return ""
    names = (getattr(value, each, None) for each in ("__qualname__", "__name__"))
    name = next((each for each in names if isinstance(each, str)), None)
    if not name:
        return ""
    for home in _SILENT:
        space = sys.modules.get(home)
        if space is not None and vars(space).get(name.rpartition(".")[2], _ABSENT) is value:
            return f"{home}.{name.rpartition('.')[2]}"
    module = getattr(value, "__module__", None)
    if not isinstance(module, str):
        bound = getattr(value, "__self__", None)
        module = bound.__name__ if isinstance(bound, types.ModuleType) else None
    if not isinstance(module, str) or packages.owner(module) is None:
        return ""
    return (
        "builtins.open" if (module, name) in (("io", "open"), ("_io", "open")) else f"{public(module)}.{name}"
    )


def public(module: str) -> str:
    """The module that people import a thing from, of the one that says to hold it."""
    return "numpy.random" if module.startswith("numpy.random.") else _HOMES.get(module, module)
