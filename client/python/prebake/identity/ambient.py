"""Settings that a job switches on and off around what it does, of which an identity knows nothing: under
`torch.autocast` a step yields another type, with another number of threads other last bits.

They are parts of the world (`world.py`), looked at before every batch. Between processes the world has what
sets them too: files, arguments, variables. Within one process only what is listed here tells.
"""

from __future__ import annotations

import _locale
import contextvars
import csv
import decimal
import operator
import os
import sys
from collections.abc import Iterator
from typing import Any

from prebake.identity import package_settings

#: Modules and the functions of theirs that tell a setting, and what it is when they are imported.
_FLAGS: tuple[tuple[str, str, Any], ...] = (
    ("torch", "is_grad_enabled", True),
    ("torch", "is_inference_mode_enabled", False),
    ("torch._C", "_is_any_autocast_enabled", False),
    ("torch", "get_num_threads", len(os.sched_getaffinity(0))),
    ("torch", "are_deterministic_algorithms_enabled", False),
    ("torch", "get_float32_matmul_precision", "highest"),
    # `with torch.device(...)`, and whatever else takes calls of torch for itself.
    ("torch._C", "_len_torch_function_stack", 0),
    ("torch._C", "_len_torch_dispatch_stack", 0),
)
#: The same without the values; the last tells whether others may have changed.
SETTINGS = (*((module, name) for module, name, _ in _FLAGS), (__name__, "switched"))
#: What Pillow takes for no attack, in pixels.
_PIXELS = 1024 * 1024 * 1024 // 4 // 3
#: Types of values that are compared by what they are. Of others nothing is known.
_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
#: Of a dialect, besides its name.
_DIALECT = [
    "delimiter",
    "quotechar",
    "escapechar",
    "doublequote",
    "skipinitialspace",
    "lineterminator",
    "quoting",
    "strict",
]


class Held:
    """Objects that are equal only to themselves."""

    __slots__ = ("_objects",)

    def __init__(self, objects: tuple[Any, ...]) -> None:
        self._objects = objects

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Held) or len(self._objects) != len(other._objects):
            return False
        return all(map(operator.is_, self._objects, other._objects))

    __hash__ = None  # type: ignore[assignment]


def cheap() -> list[tuple[str, Any]]:
    """What tells that a setting of a module that is imported may be another, by name."""
    found = []
    for name, attribute in SETTINGS:
        module = sys.modules.get(name)
        # One that is being imported by another thread has none yet.
        tells = None if module is None else getattr(module, attribute, None)
        if callable(tells):
            found.append((f"{name}.{attribute}", tells()))
    return found


def switched() -> Any:
    """Changes with any of `settings`. Asked before every batch, so that each is held and not looked into."""
    options = sys.modules.get("pandas._config.config")
    dialects = map(csv.get_dialect, csv.list_dialects())
    return (
        decimal_context(),
        csv.field_size_limit(),
        _locale.setlocale(_locale.LC_ALL, None),
        largest_image(),
        Held((*dialects, *contextvars.copy_context().values(), *package_settings.held())),
        None if options is None else _plain(getattr(options, "_global_config", None)),
        package_settings.quick(),
    )


def values() -> Iterator[tuple[str, Any]]:
    """The settings that are not as they are at first, by name: the same in any process, whether or not it
    has imported the modules yet."""
    first = {f"{module}.{name}": value for module, name, value in _FLAGS}
    yield from ((name, value) for name, value in cheap() if name in first and value != first[name])
    for tells in (contexts, dialects, numeric_locale):
        yield tells.__name__, tells()
    if (pixels := largest_image()) not in (None, _PIXELS):
        yield "largest image", pixels
    if options := pandas_options():
        yield "pandas options", options
    yield from package_settings.changed()


def contexts() -> Any:
    """Context variables of plain values, as NumPy keeps how numbers are printed, and decimal arithmetic's."""
    found = [
        (var.name, held)
        for var, value in contextvars.copy_context().items()
        if type(value) is not decimal.Context and (held := _plain(value)) is not None
    ]
    return decimal_context(), sorted(found, key=lambda each: each[0])


def decimal_context() -> tuple[Any, ...]:
    """By what decimal arithmetic is done; flags only tell what happened."""
    now = decimal.getcontext()
    return now.prec, now.rounding, now.Emin, now.Emax, now.capitals, now.clamp


def dialects() -> Any:
    """The registered dialects of CSV files."""
    found = [(name, csv.get_dialect(name)) for name in csv.list_dialects()]
    said = [(name, *(getattr(each, field) for field in _DIALECT)) for name, each in found]
    return csv.field_size_limit(), said


def numeric_locale() -> str:
    """How numbers and texts are written and ordered."""
    return _locale.setlocale(_locale.LC_ALL, None)


def pandas_options() -> Any:
    """The options of pandas that are not as they are at first."""
    config = sys.modules.get("pandas._config.config")
    found = {}
    for name, option in dict(getattr(config, "_registered_options", None) or {}).items():
        # Not by its function, which warns of those that are deprecated.
        value = getattr(config, "_global_config", None)
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value != option.defval:
            found[name] = _plain(value)
    return found


def largest_image() -> Any:
    """How many pixels Pillow takes for no attack."""
    image = sys.modules.get("PIL.Image")
    return None if image is None else getattr(image, "MAX_IMAGE_PIXELS", None)


def _plain(value: Any) -> Any:
    """A value if all in it is plain; else None."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        return {key: held for key, each in value.items() if (held := _plain(each)) is not None}
    if kind in (tuple, list):
        return [_plain(each) for each in value]
    return None
