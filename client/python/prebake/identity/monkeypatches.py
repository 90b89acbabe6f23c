"""What was set in installed code at run time: its version does not tell.

A distribution's version says what its modules and classes hold when they are imported. A job may set a
constant of a module, replace a method of a class, or put an object of its own in the place of either.
"""

from __future__ import annotations

import _abc
import abc
import functools
import sys
import types
from typing import TYPE_CHECKING, Any, NamedTuple

from prebake.runtime import packages
from prebake.runtime.daemon import native

if TYPE_CHECKING:
    from prebake.encoding.encoder import Encoder

#: Members of a table in an installed module that is compared by what it holds.
MEMBERS_MAX = 1000
#: Classes whose instances are handed to code, which need not name the class.
GIVEN = (
    ("pandas", "DataFrame"),
    ("pandas", "Series"),
    ("pandas", "Index"),
    ("polars", "DataFrame"),
    ("polars", "LazyFrame"),
    ("polars", "Series"),
    ("polars", "Expr"),
    ("PIL.Image", "Image"),
    ("torch", "Tensor"),
)
#: Classes of which it is kept what they held: a job's code names some hundred.
LOOKED_MAX = 4096
#: Members in which classes keep account of what runs: the thread that redraws progress bars.
_ACCOUNTS = frozenset({("tqdm", "monitor")})
_SCALARS = (bool, int, float, complex, str, bytes, type(None))
#: Types of what compiled classes hold, none of it the user's: a class has some hundred.
_COMPILED = frozenset(
    {
        types.BuiltinFunctionType,
        types.ClassMethodDescriptorType,
        types.GetSetDescriptorType,
        types.MemberDescriptorType,
        types.MethodDescriptorType,
        types.WrapperDescriptorType,
        *_SCALARS,
    }
)


def is_own(value: Any) -> bool:
    """Whether something is the user's own, wherever it stands."""
    if type(value) in _COMPILED:
        return False
    if isinstance(value, types.FunctionType):
        return _is_own_module(value.__globals__.get("__name__"))
    if isinstance(value, types.MethodType):
        return is_own(value.__func__) or is_own(value.__self__)
    if isinstance(value, (functools.partial, functools.partialmethod)):
        return is_own(value.func)
    if isinstance(value, (staticmethod, classmethod)):
        return is_own(value.__func__)
    if isinstance(value, property):
        return any(is_own(each) for each in (value.fget, value.fset) if each is not None)
    if isinstance(value, types.ModuleType):
        return False
    if (accessor := _accessor(value)) is not None:
        return is_own(accessor)
    cls = value if isinstance(value, type) else type(value)
    return _is_own_module(getattr(cls, "__module__", None))


def _accessor(value: Any) -> Any:
    """The class that pandas or Polars makes of an object whose attribute it is registered as."""
    names = {"CachedAccessor": "_accessor", "Accessor": "_accessor", "NameSpace": "_ns"}
    field = names.get(type(value).__name__)
    return getattr(value, "__dict__", {}).get(field) if field is not None else None


def _is_own_module(name: Any) -> bool:
    """Whether a module is the user's. Generated code names modules that are none, or have no file."""
    if not isinstance(name, str) or name not in sys.modules or packages.owner(name) is not None:
        return False
    return name in packages.SCRIPTS or getattr(sys.modules[name], "__file__", None) is not None


def counts(value: Any) -> bool:
    """Whether a value in an installed module is known by itself: the user's own, a number or text, or a plain
    table of such.
    """
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind in (list, tuple, set, frozenset, dict):
        members = (
            [*value, *(value.values() if kind is dict else ())] if len(value) <= MEMBERS_MAX else [value]
        )
        return all(type(each) in _SCALARS for each in members)
    return is_own(value)


def write(encoder: Encoder, cls: type) -> None:
    """Writes what may have been set in an installed class and those that it extends, once for each."""
    for each in cls.__mro__:
        if id(each) in encoder.looked_at or not each.__flags__ & packages.HEAP_TYPE:
            continue
        encoder.looked_at[id(each)] = each
        encoder.watch.looked_through(each)
        _write(encoder, each, _set(each))
        if isinstance(each, abc.ABCMeta):
            _write_registered(encoder, each)


def _write_registered(encoder: Encoder, cls: abc.ABCMeta) -> None:
    """Writes which classes of the user's own count as an installed one: `isinstance` asks for them."""
    registered = (each() for each in _abc._get_dump(cls)[0])
    own = [each for each in registered if each is not None and packages.owner(each.__module__) is None]
    if own:
        encoder.text("registered", cls.__qualname__)
        encoder.unordered("registered", own)


def _write(encoder: Encoder, cls: type, names: list[str]) -> None:
    for name in names:
        encoder.text("set", cls.__qualname__, name)
        encoder.member(f".{name}", vars(cls)[name])


def added(encoder: Encoder) -> None:
    """Writes methods and accessors of the user's own in classes whose instances code is given, and which it
    names only by what it asks of them."""
    for module, name in GIVEN:
        encoder.watch.looked_up(sys.modules, module)
        loaded = sys.modules.get(module)
        if loaded is not None:
            encoder.watch.looked_up(vars(loaded), name)
        cls = getattr(loaded, name, None)
        for each in cls.__mro__ if isinstance(cls, type) else ():
            if id(each) not in encoder.looked_at and each.__flags__ & packages.HEAP_TYPE:
                encoder.watch.looked_through(each)
                _write(encoder, each, [found for found in _set(each) if found in encoder.names])


class _Looked(NamedTuple):
    """What a class held when it was last looked through, and which of it may have been set."""

    cls: type
    held: list[Any]
    found: list[str]


_LOOKED: dict[int, _Looked] = {}


def _set(cls: type) -> list[str]:
    """Members of an installed class that may have been set, by name."""
    space = vars(cls)
    held = [*space, *space.values()]
    looked, module = _LOOKED.get(id(cls)), native()
    if (
        looked is not None
        and looked.cls is cls
        and module is not None
        and module.identical(looked.held, held)
    ):
        return looked.found
    package = cls.__module__.partition(".")[0]
    found = [
        name
        for name, value in sorted(space.items())
        if (type(value) in _SCALARS and not name.startswith("_") or is_own(value))
        and (package, name) not in _ACCOUNTS
    ]
    if len(_LOOKED) >= LOOKED_MAX:
        _LOOKED.clear()
    _LOOKED[id(cls)] = _Looked(cls, held, found)
    return found
