"""Settings that packages keep in objects of their own, as far as the packages are imported.

Each is told as what is not as it is at first: where nothing is set, nothing is told, so that a process that
imports a package later is in the same world. `ambient.py` asks before every item whether one may be another.
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

#: What `sys` has when nobody set it.
_RECURSION_LIMIT, _DIGITS_MAX = 1000, sys.int_info.default_max_str_digits
_NUMPY_ERRORS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
_MPMATH_BITS = 53
#: Devices that types are chosen for.
_AUTOCAST = ("cpu", "cuda")
_PILLOW = (
    ("PIL.Image", "MAX_IMAGE_PIXELS", 1024 * 1024 * 1024 // 4 // 3),
    ("PIL.ImageFile", "LOAD_TRUNCATED_IMAGES", False),
)


def interpreter() -> dict[str, int]:
    """How deep calls may go, and how long a number may be as a text."""
    depth, digits = sys.getrecursionlimit(), sys.get_int_max_str_digits()
    found = {"recursion": (depth, _RECURSION_LIMIT), "digits": (digits, _DIGITS_MAX)}
    return {name: value for name, (value, first) in found.items() if value != first}


def raising_warnings() -> list[tuple[str, ...]]:
    """Warnings that are errors, and what comes before them: code that catches them goes another way."""
    filters = list(warnings.filters)
    # What is met by none.
    filters.append((warnings.defaultaction, *_ANY))  # type: ignore[attr-defined]
    # What is behind one that takes all is met by none either.
    filters = filters[: 1 + next(i for i, each in enumerate(filters) if each[1:] == _ANY)]
    while filters and filters[-1][0] != "error":
        filters.pop()
    return [("error" if action == "error" else "", *map(_shown, rest)) for action, *rest in filters]


#: Of a filter that takes all: message, category, module and line.
_ANY = (None, Warning, None, 0)


def _shown(part: Any) -> str:
    """A part of a filter. As a text, a pattern is cut."""
    return f"{part.pattern!r} {part.flags}" if isinstance(part, re.Pattern) else str(part)


def numpy_errors() -> dict[str, str]:
    """What NumPy does where a number is divided by zero, or leaves its range."""
    numpy = sys.modules.get("numpy")
    tells: Any = getattr(numpy, "geterr", None)
    return _beside(_NUMPY_ERRORS, tells()) if tells is not None else {}


def sklearn() -> dict[str, Any]:
    """What scikit-learn is configured to yield."""
    config = sys.modules.get("sklearn._config")
    tells: Any = getattr(config, "get_config", None)
    return _beside(getattr(config, "_global_config", {}), tells()) if tells is not None else {}


def matplotlib() -> dict[str, Any]:
    """How Matplotlib draws."""
    package = sys.modules.get("matplotlib")
    settings, first = (getattr(package, name, None) for name in ("rcParams", "rcParamsOrig"))
    if not isinstance(settings, dict) or not isinstance(first, dict):
        return {}
    # Not by its own look-up, which loads a backend.
    return _beside(dict(dict.items(first)), dict(dict.items(settings)))


def mpmath() -> dict[str, int]:
    """How many bits numbers of mpmath have."""
    bits = getattr(getattr(sys.modules.get("mpmath"), "mp", None), "prec", _MPMATH_BITS)
    return {} if bits == _MPMATH_BITS else {"bits": bits}


def torch() -> dict[str, str]:
    """Of what type new tensors are, and what `torch.autocast` makes of others."""
    package: Any = sys.modules.get("torch")
    # One that is being imported by another thread has none yet.
    default, cast = (getattr(package, name, None) for name in ("get_default_dtype", "get_autocast_dtype"))
    if default is None or cast is None:
        return {}
    found = {} if (made := default()) is package.float32 else {"default": str(made)}
    if package._C._is_any_autocast_enabled():
        found |= {device: str(cast(device)) for device in _AUTOCAST if package.is_autocast_enabled(device)}
    return found


def pillow() -> dict[str, Any]:
    """How many pixels Pillow takes for no attack, and whether it goes on where a file ends too early."""
    found = {}
    for module, name, first in _PILLOW:
        value = getattr(sys.modules.get(module), name, first)
        if value != first:
            found[name] = value
    return found


_ALL: tuple[Callable[[], Any], ...] = (
    interpreter,
    raising_warnings,
    numpy_errors,
    sklearn,
    matplotlib,
    mpmath,
    torch,
    pillow,
)
#: Of those, what `ambient.py` asks before each item once a module is imported: others are seen by objects
#: that are replaced, or are names in a module.
ASKED: tuple[tuple[str, Callable[[], Any]], ...] = (
    ("sklearn._config", sklearn),
    ("mpmath", mpmath),
    ("torch", torch),
)


def matplotlib_values() -> Iterable[Any]:
    """Settings too many to be looked into each time: replaced where one is another one."""
    settings = getattr(sys.modules.get("matplotlib"), "rcParams", None)
    return dict.values(settings) if isinstance(settings, dict) else ()


def pandas_values() -> Iterable[Any]:
    """The same of pandas' options, which lie in dictionaries in a dictionary."""
    config = sys.modules.get("pandas._config.config")
    options, registered = (getattr(config, name, None) for name in ("_global_config", "_registered_options"))
    if not isinstance(options, dict) or not isinstance(registered, dict):
        return ()
    return itertools.chain.from_iterable(map(dict.values, _dictionaries(_Same(options), len(registered))))


class _Same:
    """An object, for what is kept of it: equal where it is the same."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


@functools.lru_cache(maxsize=4)
def _dictionaries(of: _Same, registered: int) -> list[dict[str, Any]]:
    """A dictionary and all within it, once so many options are registered."""
    found = [of.value]
    for each in found:
        found += [inner for inner in each.values() if isinstance(inner, dict)]
    return found


def changed() -> Iterator[tuple[str, Any]]:
    """Those that are not as they are at first, by name."""
    yield from ((tells.__name__, found) for tells in _ALL if (found := tells()))


def _beside(first: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    return {name: _told(value) for name, value in now.items() if name not in first or value != first[name]}


def _told(value: Any) -> Any:
    """A value as it is told: of what has no text of its own, only that there is something."""
    kind = type(value)
    if kind in (list, tuple):
        return [_told(each) for each in value]
    return value if kind in (type(None), bool, int, float, str) else kind.__qualname__
