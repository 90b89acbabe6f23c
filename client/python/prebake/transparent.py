"""What wraps a data set looks like it: its class to `isinstance`, its attributes, what it holds."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from prebake.calls import words

#: Methods by which Python makes, keeps, copies and shows objects, and those by which this is a wrapper.
_KEPT = words(
    "__new__ __init__ __init_subclass__ __subclasshook__ __class_getitem__ __annotate__ __del__ __slots__ "
    "__dir__ __sizeof__ __getattribute__ __getattr__ __setattr__ __delattr__ __reduce__ __reduce_ex__ "
    "__getstate__ __setstate__ __getnewargs__ __getnewargs_ex__ __copy__ __deepcopy__"
)


class Transparent:
    """A wrapper: what it wraps is in `_wrapped`; `_own` names its own fields; all others are that one's."""

    # Libraries walk what a data set holds (MONAI seeds what it finds): its `__dict__` is the wrapped one's.
    __slots__ = ("__weakref__", "_wrapped")

    _own = frozenset({"_wrapped"})

    @classmethod
    def bare(cls, wrapped: Any) -> Any:
        """A wrapper that is not initialized, of a class that does with operators and statements what that of
        the wrapped one does: Python looks for these in the class only."""
        return object.__new__(_standing_for(cls, type(wrapped)))

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

    def __add__(self, other: Any) -> Any:
        # As torch's data sets are put together: of the wrappers, so that both go on being shared.
        add = getattr(type(_wrapped(self)), "__add__", None)
        return NotImplemented if add is None else add(self, other)


@functools.cache
def _standing_for(cls: type, kind: type) -> type:
    if kind is type(None):
        return cls
    said = {name for each in kind.__mro__[:-1] for name, what in vars(each).items() if callable(what)}
    if kind.__hash__ is None:
        said.add("__hash__")
    own = {name for each in cls.__mro__[:-1] for name in vars(each)}
    methods: dict[str, Any] = {
        "__slots__": (),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    for name in said - own - _KEPT:
        if name.startswith("__") and name.endswith("__"):
            method = getattr(kind, name)
            # What cannot be hashed says so by `None`.
            methods[name] = method if method is None else _forwarded(method)
    return type(cls.__name__, (cls,), methods)


def _forwarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Transparent, *args: Any, **kwargs: Any) -> Any:
        wrapped = _wrapped(self)
        found = method(wrapped, *args, **kwargs)
        # As `with` and `+=` have it.
        return self if found is wrapped else found

    return call


def _wrapped(wrapper: Transparent) -> Any:
    """What is wrapped; None before that is known."""
    try:
        return object.__getattribute__(wrapper, "_wrapped")
    except AttributeError:
        return None
