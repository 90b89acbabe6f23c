"""Which transforms are random, by what their user marks and by what tables know."""

from __future__ import annotations

import functools
import types
from typing import Any, NamedTuple

from prebake.known import classes, marks
from prebake.known.marks import DETERMINISTIC, PURE, RANDOM, Pure, Random, is_pure
from prebake.runtime import packages

UNKNOWN = "unknown"
#: Transforms in transforms that are looked through.
DEPTH_MAX = 16


class Verdict(NamedTuple):
    """`kind` is deterministic, random or unknown; `reason` says why it is not the first."""

    kind: str
    reason: str = ""


def tolerance(value: Any, depth: int = DEPTH_MAX) -> float | None:
    """By how much a recomputed value may differ; None for not at all. Of a container, the most of any."""
    if not depth:
        return None
    if type(value) is Pure:
        return value.tolerance
    if isinstance(value, functools.partial):
        return tolerance(value.func, depth - 1)
    if isinstance(value, types.MethodType):
        return tolerance(value.__func__, depth - 1)
    if type(value) in (list, tuple) or _is_container(type(value)):
        members = value if type(value) in (list, tuple) else _members(value)
        return max(filter(None, (tolerance(each, depth - 1) for each in members)), default=None)
    marked = value if type(value) is types.FunctionType else type(value)
    found = getattr(marked, "__dict__", {}).get(PURE)
    return found if isinstance(found, float) else None


def is_random(transform: Any) -> bool:
    """Whether a transform is marked as random or is known to be."""
    return known(transform).kind == RANDOM


def known(value: Any, depth: int = DEPTH_MAX) -> Verdict:
    """What marks and tables say of a value; unknown if nothing."""
    cls = type(value)
    if issubclass(cls, Random):
        return Verdict(RANDOM, "is marked with prebake.random()")
    if is_pure(value):
        return Verdict(DETERMINISTIC)
    if not depth:
        return Verdict(UNKNOWN, "is nested too deeply")
    if cls in (list, tuple):
        return _all(value, depth)
    if cls is functools.partial:
        return known(value.func, depth - 1)
    if cls in marks.registered:
        return Verdict(marks.registered[cls], f"{cls.__qualname__} is registered so")
    for base in cls.__mro__:
        verdict = _by_base(base)
        if verdict is not None and not _is_container(cls):
            return _unless_fixed(value, base.__qualname__, verdict)
    for package, base, method in classes.DRAWS:
        if _overrides(cls, package, base, method):
            return Verdict(RANDOM, f"{cls.__qualname__} overrides {method}, which draws")
    installed = packages.owner(cls.__module__)
    if installed is None or installed is packages.PYTHON:
        return Verdict(UNKNOWN, f"{cls.__qualname__} is in no table")
    return _by_table(value, depth)


def _by_table(value: Any, depth: int) -> Verdict:
    cls = type(value)
    entry = _entry(cls)
    if entry == classes.CONTAINER:
        members = _members(value)
        chance = getattr(value, "p", 1)
        if cls.__module__.startswith(("albumentations", "audiomentations")) and (
            chance < 1 or getattr(value, "shuffle", False)
        ):
            return Verdict(RANDOM, f"{cls.__qualname__} applies its transforms by chance")
        return _all(members, depth)
    if entry == classes.OPAQUE:
        return _all(_functions(value), depth)
    if entry == classes.RANDOM:
        return _unless_fixed(value, cls.__qualname__, classes.RANDOM)
    if entry == classes.DETERMINISTIC:
        return _if_fixed(value)
    if any(word in cls.__qualname__ for word in classes.WORDS) and not _has_seed(value):
        return Verdict(RANDOM, f"{cls.__module__}.{cls.__qualname__} is random by its name")
    return Verdict(UNKNOWN, f"{cls.__module__}.{cls.__qualname__} is in no table; mark it pure or random")


def _has_seed(value: Any) -> bool:
    """Whether an object holds the seed of all that it draws, as a fitted forest does."""
    fields = getattr(value, "__dict__", {})
    return type(fields.get("random_state")) is int


def _entry(cls: type) -> str | None:
    module = cls.__module__
    while module:
        found = classes.CLASSES.get(module)
        if found is not None:
            return found.get(cls.__qualname__, found.get("*"))
        module = module.rpartition(".")[0]
    return None


def _is_container(cls: type) -> bool:
    return _entry(cls) == classes.CONTAINER


def _by_base(base: type) -> str | None:
    package, verdict = classes.BASES.get(base.__qualname__, ("", None))
    return verdict if package and base.__module__.partition(".")[0] == package else None


@functools.lru_cache(maxsize=1024)
def _overrides(cls: type, package: str, base: str, method: str) -> bool:
    """Whether a class has another method than the base class of a package that it extends."""
    for each in cls.__mro__:
        if each.__qualname__ == base and each.__module__.partition(".")[0] == package:
            # Of installed classes the table says which draw after all.
            own = packages.owner(cls.__module__) is None
            return own and getattr(cls, method, None) is not getattr(each, method, None)
    return False


def _all(members: Any, depth: int) -> Verdict:
    worst = Verdict(DETERMINISTIC)
    for member in members:
        verdict = known(member, depth - 1)
        if verdict.kind == RANDOM:
            return verdict
        if verdict.kind == UNKNOWN:
            worst = verdict
    return worst


def _members(value: Any) -> list[Any]:
    found = getattr(value, "transforms", None)
    if found is None:
        found = list(getattr(value, "_modules", {}).values())
    return list(found) if isinstance(found, (list, tuple)) else [found]


def _functions(value: Any) -> list[Any]:
    """The callables in a transform that applies them."""
    fields = getattr(value, "__dict__", {})
    return [each for each in fields.values() if callable(each)] or [None]


def _unless_fixed(value: Any, name: str, verdict: str) -> Verdict:
    """A random transform whose arguments leave nothing to chance draws nothing."""
    package = type(value).__module__.partition(".")[0]
    fields = getattr(value, "__dict__", {})
    if verdict == classes.RANDOM:
        if package == "torch" and not fields.get("training", True):
            return Verdict(DETERMINISTIC)
        if name == "GriffinLim" and fields.get("rand_init") is False:
            return Verdict(DETERMINISTIC)
        if package == "audiomentations" and fields.get("are_parameters_frozen"):
            return Verdict(DETERMINISTIC)
        if package == "kornia" and fields.get("p") == 1 and fields.get("_param_generator") is None:
            return Verdict(DETERMINISTIC)
    return Verdict(verdict, f"{type(value).__qualname__} draws random numbers")


def _if_fixed(value: Any) -> Verdict:
    """A deterministic transform may still be applied by chance, or hold what draws."""
    cls, fields = type(value), getattr(value, "__dict__", {})
    package = cls.__module__.partition(".")[0]
    if package == "albumentations":
        if fields.get("p", 1) < 1 or fields.get("position") in ("random", "PositionType.RANDOM"):
            return Verdict(RANDOM, f"{cls.__qualname__} is applied by chance (p={fields.get('p')})")
        if any(isinstance(fields.get(name), (list, tuple)) for name in ("max_size",)):
            return Verdict(RANDOM, f"{cls.__qualname__} draws one of several sizes")
    modules = fields.get("_modules")
    if modules:
        return _all([each for each in modules.values() if each is not None], DEPTH_MAX)
    return Verdict(DETERMINISTIC)
