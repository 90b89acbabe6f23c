"""Descriptions of values by themselves, for what descriptions are made of (settings, registries, code).
`code.identify` makes them. It builds on those modules, and so says here that it is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prebake.identity.code import Identity

_front: list[Callable[..., Identity]] = []


def made_by(identify: Callable[..., Identity]) -> None:
    """What describes values of all kinds."""
    _front[:] = [identify]


def described(value: Any, name: str, **how: Any) -> Identity:
    """What a value is; see `code.identify`. Raises `Refused` if it is unknowable."""
    return _front[0](value, name, **how)
