"""Settings that a job switches on and off around what it does, of which an identity knows nothing: under
`torch.autocast` a step yields another type, with another number of threads other last bits.

They are parts of the world (`world.py`), looked at before every batch. Between processes the world has what
sets them too: files, arguments, variables. Within one process only what is listed here tells.
"""

from __future__ import annotations

import _csv
import _locale
import contextvars
import csv
import decimal
import functools
import operator
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prebake.world import codec_registries, package_settings

#: Modules and the functions of theirs that tell a setting, and what it is when they are imported.
_FLAGS: tuple[tuple[str, str, Any], ...] = (
    ("torch", "is_grad_enabled", True),
    ("torch", "is_inference_mode_enabled", False),
    ("torch", "get_num_threads", len(os.sched_getaffinity(0))),
    ("torch", "are_deterministic_algorithms_enabled", False),
    ("torch", "get_float32_matmul_precision", "highest"),
    ("torch._C", "_len_torch_dispatch_stack", 0),
    ("cv2", "getNumThreads", len(os.sched_getaffinity(0))),
    ("cv2", "useOptimized", True),
    ("torchvision.tv_tensors._torch_function_helpers", "_TORCHFUNCTION_SUBCLASS", False),
)
#: The same without the values, and what tells whether others may have changed: as few calls as can be, since
#: all are asked before each item. So are functions of `asked`, and natively the locale (`snapshot.py`).
SETTINGS = (
    *((module, name) for module, name, _ in _FLAGS),
    ("sys", "getrecursionlimit"),
    ("sys", "get_int_max_str_digits"),
    ("_csv", "field_size_limit"),
    ("PIL.Image", "MAX_IMAGE_PIXELS"),
    ("PIL.ImageFile", "LOAD_TRUNCATED_IMAGES"),
    (__name__, "arithmetic"),
    (__name__, "torch_modes"),
    (__name__, "decimal_context"),
    # Last: to ask for the decimal context makes one.
    (__name__, "kept"),
)
#: Types of values that are compared by what they are. Of others nothing is known.
_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
#: Of a decimal context.
_DECIMAL = operator.attrgetter("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
_TRAPS = operator.itemgetter(*decimal.Context().traps)
#: As `logging` comes with them.
_LEVELS = {0: "NOTSET", 10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}
_BY_NAME = {name: level for level, name in _LEVELS.items()} | {"FATAL": 50, "WARN": 30}
#: The registered dialects, in an interpreter that shows where it keeps them.
_DIALECTS = getattr(_csv, "_dialects", None)
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


def is_traced() -> bool:
    """Whether what runs now is looked at by torch and not only run: to be made a graph, differentiated,
    mapped over batches, or run without data. What is returned must then be made of what was given."""
    torch = sys.modules.get("torch._C")
    if torch is None:
        return False
    try:
        return bool(
            torch._get_tracing_state() is not None
            or torch._len_torch_dispatch_stack()
            or torch._functorch.peek_interpreter_stack() is not None
        )
    except AttributeError:
        # It is being imported, or is a version that names them otherwise.
        return False


class Seen:
    """What tells that a setting may be another one, as it is now. Objects that are `kept` are equal only to
    themselves."""

    __slots__ = ("_kept", "_said")

    def __init__(self) -> None:
        self._said = [*said(), *(("table", dict(each)) for each in tables())]
        self._kept = kept()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Seen) or self._said != other._said or len(self._kept) != len(other._kept):
            return False
        return all(map(operator.is_, self._kept, other._kept))

    __hash__ = None  # type: ignore[assignment]


def said() -> list[tuple[str, Any]]:
    """What is said of each setting, of modules that are imported, and its name."""
    found = _said(each for each in SETTINGS if each[1] != "kept")
    found += [(tells.__name__, tells()) for tells in asked()]
    return [*found, ("locale", numeric_locale())]


def asked() -> Iterator[Callable[[], Any]]:
    """Functions that tell settings of modules that are imported."""
    return (tells for name, tells in package_settings.ASKED if name in sys.modules)


def _said(settings: Iterable[tuple[str, str]]) -> list[tuple[str, Any]]:
    found = list[tuple[str, Any]]()
    modules = sys.modules
    for name, attribute in settings:
        if name in modules:
            # One that is being imported by another thread has none yet.
            tells = getattr(modules[name], attribute, None)
            found.append((f"{name}.{attribute}", tells() if callable(tells) else tells))
    return found


def kept() -> list[Any]:
    """Objects of which another one stands where a setting is another one."""
    found = [value for _, value in _variables()]
    found += warnings.filters
    if _DIALECTS is None:
        found += map(csv.get_dialect, csv.list_dialects())
    for registered in codec_registries.registered():
        found += registered
    if "matplotlib" in sys.modules:
        found += package_settings.matplotlib_values()
    if "pandas._config.config" in sys.modules:
        found += package_settings.pandas_values()
    return found


def tables() -> list[dict[Any, Any]]:
    """Dictionaries that are settings: dialects of CSV files, and what levels of logging are called."""
    logging = sys.modules.get("logging")
    found = (_DIALECTS, getattr(logging, "_levelToName", None), getattr(logging, "_nameToLevel", None))
    return [each for each in found if type(each) is dict]


def values() -> Iterator[tuple[str, Any]]:
    """The settings that are not as they are at first, by name: the same in any process, whether or not it
    has imported the modules yet."""
    first = {f"{module}.{name}": value for module, name, value in _FLAGS}
    for name, value in _said((module, name) for module, name, _ in _FLAGS):
        if value is not None and value != first[name]:
            yield name, value
    yield "contexts", contexts()
    yield "dialects", dialects()
    yield "locale", numeric_locale()
    if set_so := arithmetic():
        yield "arithmetic", set_so
    if modes := torch_modes():
        yield "modes of torch", modes
    if options := pandas_options():
        yield "pandas options", options
    if functions := codec_registries.described():
        yield "codecs", functions
    if names := level_names():
        yield "names of logging's levels", names
    yield from package_settings.changed()


def contexts() -> Any:
    """Context variables of plain values, as NumPy keeps how numbers are printed, and decimal arithmetic's."""
    found = [
        (var.name, held)
        for var, value in _variables()
        if type(value) is not decimal.Context and (held := _plain(value)) is not None
    ]
    return decimal_context(), sorted(found, key=lambda each: each[0])


def _variables() -> list[tuple[contextvars.ContextVar[Any], Any]]:
    """The job's context variables. Ours tell what happens for whom, and are set around each element."""
    # A list, as short as can be: it is asked before each item.
    return [each for each in contextvars.copy_context().items() if each[0].name not in _OURS]


_OURS = frozenset({"prebake_record", "prebake_inside"})


def decimal_context() -> tuple[Any, ...]:
    """By what decimal arithmetic is done; flags only tell what happened."""
    context = decimal.getcontext()
    found: tuple[Any, ...] = _DECIMAL(context)
    return *found, *_TRAPS(context.traps)


def arithmetic() -> tuple[bool, ...]:
    """How the processor does it, where compiled code had it do otherwise than at first: whether numbers next
    to zero are taken for zero, and whereto it rounds."""
    # Before each item: as little as tells all of them apart from rounding to nearest.
    if _SMALLEST * 1.0 and 1.0 / _THREE == _THIRD and 1.0 / _TEN == _TENTH:
        return ()
    return bool(_SMALLEST * 1.0), 1.0 / _THREE == _THIRD, 1.0 / _TEN == _TENTH, -1.0 / _TEN == -_TENTH


#: Operands that no compiler folds, and what is nearest to their quotients: below the third, above the tenth.
_SMALLEST, _THREE, _TEN = 5e-324, 3.0, 10.0
_THIRD, _TENTH = float("0.3333333333333333"), float("0.1")


def torch_modes() -> list[str]:
    """What takes calls of torch for itself: `with torch.device(...)`, `torch.set_default_device`."""
    torch = sys.modules.get("torch._C")
    try:
        if torch is None or not torch._len_torch_function_stack():
            return []
        stack = map(torch._get_function_stack_at, range(torch._len_torch_function_stack()))
        return [f"{type(each).__qualname__} {getattr(each, 'device', '')}" for each in stack]
    except AttributeError:
        return []


def dialects() -> Any:
    """The registered dialects of CSV files."""
    found = [(name, csv.get_dialect(name)) for name in csv.list_dialects()]
    said = [(name, *(getattr(each, field) for field in _DIALECT)) for name, each in found]
    return csv.field_size_limit(), said


def level_names() -> list[str]:
    """What messages call their levels, where that is not as it is at first."""
    logging = sys.modules.get("logging")
    names, levels = getattr(logging, "_levelToName", _LEVELS), getattr(logging, "_nameToLevel", _BY_NAME)
    if names == _LEVELS and levels == _BY_NAME:
        return []
    return sorted(map(str, [*dict(names).items(), *dict(levels).items()]))


#: How numbers and texts are written and ordered.
numeric_locale = functools.partial(_locale.setlocale, _locale.LC_ALL)


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
