"""What wraps a data set looks like it: its class to `isinstance`, its attributes, what it holds."""

from __future__ import annotations

from typing import Any


class Transparent:
    """A wrapper: what it wraps is in `_wrapped`; `_own` names its own fields; all others are that one's."""

    # Libraries walk what a data set holds (MONAI seeds what it finds): its `__dict__` is the wrapped one's.
    __slots__ = ("__weakref__", "_wrapped")

    _own = frozenset({"_wrapped"})

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


def _wrapped(wrapper: Transparent) -> Any:
    """What is wrapped; None before that is known."""
    try:
        return object.__getattribute__(wrapper, "_wrapped")
    except AttributeError:
        return None
