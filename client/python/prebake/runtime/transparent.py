"""What wraps a data set looks like it: its class to `isinstance`, its attributes, what it holds."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from prebake.runtime.words import words

#: Methods by which Python makes, keeps, copies and shows objects, and those by which this is a wrapper.
_KEPT = words(
    "__new__ __init__ __init_subclass__ __subclasshook__ __class_getitem__ __annotate__ __del__ __slots__ "
    "__dir__ __sizeof__ __getattribute__ __getattr__ __setattr__ __delattr__ __reduce__ __reduce_ex__ "
    "__getstate__ __setstate__ __getnewargs__ __getnewargs_ex__ __copy__ __deepcopy__ __doc__"
)


class Transparent:
    """A wrapper: what it wraps is in `_wrapped`; `_own` names its own fields; all others are that one's."""

    # Libraries walk what a data set holds (MONAI seeds what it finds): its `__dict__` is the wrapped one's.
    __slots__ = ("__weakref__", "_wrapped")

    _own = frozenset({"_wrapped"})

    @classmethod
    def _bare(cls, wrapped: Any) -> Any:
        """A wrapper that is not initialized, of a class that does with operators and statements what that of
        the wrapped one does: Python looks for these in the class only."""
        own = {name for each in cls.__mro__[:-1] for name in vars(each)}
        hidden = frozenset(name for name in own if not name.startswith("_") and _has(wrapped, name))
        return object.__new__(_standing_for(cls, _special(type(wrapped)) - own, hidden))

    @property
    def __class__(self) -> type:
        wrapped = _wrapped(self)
        return type(self) if wrapped is None else type(wrapped)

    @property
    def __dict__(self) -> dict[str, Any]:
        return getattr(_wrapped(self), "__dict__", {})

    def __getattr__(self, name: str) -> Any:
        wrapped = _wrapped(self)
        if wrapped is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__qualname__} has no attribute {name!r}")
        return getattr(wrapped, name)

    def __setattr__(self, name: str, value: Any) -> None:
        wrapped = _wrapped(self)
        if wrapped is None or name in type(self)._own:
            object.__setattr__(self, name, value)
            return
        setattr(wrapped, name, value)

    def __delattr__(self, name: str) -> None:
        wrapped = _wrapped(self)
        if wrapped is None or name in type(self)._own:
            object.__delattr__(self, name)
            return
        delattr(wrapped, name)

    def __repr__(self) -> str:
        wrapped = _wrapped(self)
        return object.__repr__(self) if wrapped is None else repr(wrapped)

    def __add__(self, other: Any) -> Any:
        add = _found(_wrapped(self), "__add__")
        if getattr(add, "__module__", "").partition(".")[0] == "torch":
            # As torch's data sets are put together: of the wrappers, so that both go on being shared.
            return add.__func__(self, other)
        return NotImplemented if add is None else add(_plain(other))


class Standing:
    """In the place of what is a base class to a type checker only."""

    __slots__ = ()

    __class_getitem__ = classmethod(types.GenericAlias)


class Generic:
    """The same for that of `typing`, which has methods of its own: a wrapper has those of what it wraps."""

    __slots__ = ()

    __class_getitem__ = classmethod(types.GenericAlias)


def _has(wrapped: Any, name: str) -> bool:
    """Whether it has an attribute, without running anything."""
    return inspect.getattr_static(wrapped, name, _special) is not _special


def _special(kind: type) -> frozenset[str]:
    """Methods of a class by which it answers to Python itself; `-` before those that it says it has not."""
    if kind is type(None):
        return frozenset()
    found: dict[str, bool] = {}
    for each in kind.__mro__[:-1]:
        for name, what in vars(each).items():
            # What a class has of its own kind (`__qualname__`) the wrapper has too.
            method = what is None or callable(what) or each is not type and hasattr(type(what), "__get__")
            if method and name.startswith("__") and name.endswith("__"):
                found.setdefault(name, what is not None)
    if "__eq__" in found:
        found.setdefault("__hash__", True)
    return frozenset(name if has else f"-{name}" for name, has in found.items() if name not in _KEPT)


@functools.cache
def _standing_for(cls: type, special: frozenset[str], hidden: frozenset[str]) -> type:
    # Of names: it is not to keep the wrapped one's class alive, whose methods may be replaced.
    members: dict[str, Any] = {
        "__slots__": (),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    members |= {name.lstrip("-"): None if name.startswith("-") else _forwarded(name) for name in special}
    members |= {name: _attribute(name) for name in hidden}
    return type(cls.__name__, (cls,), members)


def _forwarded(name: str) -> Callable[..., Any]:
    def call(self: Transparent, *args: Any, **kwargs: Any) -> Any:
        wrapped = _wrapped(self)
        method = _found(wrapped, name)
        if method is None:
            return NotImplemented
        if getattr(method, "__module__", None) == "collections.abc":
            # Made of the elements, which may be shared.
            return method.__func__(self, *args, **kwargs)
        found = method(*map(_plain, args), **kwargs)
        # As `with` and `+=` have it.
        return self if found is wrapped else found

    return call


def _attribute(name: str) -> property:
    """One of the wrapped one's that has the name of the wrapper's own."""

    def assign(self: Transparent, value: Any) -> None:
        setattr(_wrapped(self), name, value)

    return property(lambda self: getattr(_wrapped(self), name), assign)


def _found(wrapped: Any, name: str) -> Any:
    """A method as Python finds it for an operator: in the class, bound."""
    for each in type(wrapped).__mro__:
        if name in vars(each):
            method = vars(each)[name]
            bind = getattr(type(method), "__get__", None)
            return method if bind is None else bind(method, wrapped, type(wrapped))
    return None


def _plain(value: Any) -> Any:
    return _wrapped(value) if issubclass(type(value), Transparent) else value


def _wrapped(wrapper: Transparent) -> Any:
    """What is wrapped; None before that is known."""
    try:
        return object.__getattribute__(wrapper, "_wrapped")
    except AttributeError:
        return None
