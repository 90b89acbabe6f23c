"""The user's own modules that are imported, and what is installed."""

from __future__ import annotations

import functools
import operator
import os
import sys
from collections.abc import Iterator
from typing import Any

from prebake.runtime import packages
from prebake.world.parts import folder


def own_modules() -> list[str]:
    """The user's own modules that are imported, beside the script, in the order in which they were."""
    return [name for name, _ in _own() if name not in packages.SCRIPTS]


def own_files() -> list[tuple[str, str]]:
    """The user's own modules that are imported, the script among them, and their files."""
    return list(_own())


def _own() -> list[tuple[str, str]]:
    """The user's own modules that are imported, and their files: looked for again once another module is, or
    it is another place to look from. A first batch asks twice."""
    global _owned
    held = [*sys.modules, *sys.modules.values()]
    seen = tuple(sys.path), folder(), _temporary(), len(_inner)
    last = _owned
    if (
        last is None
        or last[1] != seen
        or len(last[0]) != len(held)
        or not all(map(operator.is_, last[0], held))
    ):
        _owned = last = held, seen, list(_looked_for())
    return last[2]


_owned: tuple[list[Any], Any, list[tuple[str, str]]] | None = None


def _looked_for() -> Iterator[tuple[str, str]]:
    modules = [(name, module) for name, module in list(sys.modules.items()) if module is not None]
    installed = _roots(tuple(sys.path))
    own = {name for name, module in modules if "." not in name and _is_own(name, module, installed)}
    for name, module in modules:
        if name.partition(".")[0] in own:
            file = vars(module).get("__file__")
            if type(file) is str and not is_installed(file) and not is_generated(file) and file not in _inner:
                yield name, file


#: Files of modules that were imported while elements were made. Those are inputs of these elements: a process
#: that is served them does not import them.
_inner: set[str] = set()


def leave_out(file: str) -> None:
    """Takes the file of a module that is imported while an element is made for no part of the world."""
    _inner.add(file)


def is_generated(file: str) -> bool:
    """Whether a module was written while the program ran, as TensorFlow's autograph does: to a temporary
    folder, under another name each time."""
    if not file.startswith(_temporary()):
        return False
    script = getattr(sys.modules.get("__main__"), "__file__", None) or os.path.join(folder(), "")
    # The working folder may itself be listed.
    return not os.path.join(file, "").startswith(
        (os.path.join(folder(), ""), os.path.join(os.path.dirname(script), ""))
    )


def _temporary() -> tuple[str, ...]:
    """Where temporary files may lie. Python's own look for it writes one."""
    named = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return tuple(os.path.join(each, "") for each in (*filter(None, named), "/tmp", "/var/tmp", "/usr/tmp"))


def _is_own(name: str, module: Any, installed: tuple[str, ...]) -> bool:
    held = getattr(module, "__dict__", None)
    if name == "prebake" or held is None:
        return False
    file = held.get("__file__")
    if type(file) is str:
        return not file.startswith(installed)
    return name in packages.SCRIPTS or getattr(module, "__path__", None) is not None


def is_installed(file: str) -> bool:
    """Whether a file is the interpreter's or of an installed package."""
    return file.startswith(_roots(tuple(sys.path)))


@functools.lru_cache(maxsize=16)
def _roots(path: tuple[Any, ...]) -> tuple[str, ...]:
    found = {*packages._site_roots(), *packages._stdlib_roots()}
    return tuple(os.path.join(each, "") for each in found)
