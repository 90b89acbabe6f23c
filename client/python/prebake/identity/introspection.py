"""What code asks of functions and classes beside calling them: docstrings, names, annotations, lines.

None of it counts, but where code names what tells of it, or a class is of a kind that a package made: those
make schemas and prompts of what a class says of itself.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from prebake.encoding.encoder import Encoder
from prebake.runtime import packages
from prebake.runtime.words import words

#: What nothing tells of a function but to code that asks for it, by the names that ask.
_DESCRIBING: tuple[tuple[frozenset[str], Callable[[Any], Any]], ...] = (
    (words("__doc__ getdoc render_doc"), lambda each: each.__doc__),
    # What aggregates a table names its columns by the functions that it is given.
    (words("__name__ __qualname__ agg aggregate"), lambda each: each.__qualname__),
    (
        words("__annotations__ get_type_hints get_annotations signature getfullargspec"),
        lambda each: dict(vars(each).get("__annotations__") or getattr(each, "__annotations__", {})),
    ),
    (
        words("__code__ func_code"),
        lambda each: (
            (each.__code__.co_varnames, each.__code__.co_firstlineno)
            if isinstance(each, types.FunctionType)
            else None
        ),
    ),
    (
        words("co_filename"),
        lambda each: each.__code__.co_filename if isinstance(each, types.FunctionType) else None,
    ),
)


def write(encoder: Encoder) -> None:
    """Docstrings, names, annotations and lines of functions, if any code of theirs asks for such things."""
    for asking, tell in _DESCRIBING:
        if not asking & encoder.names:
            continue
        for each in encoder.numbered():
            if isinstance(each, (types.FunctionType, type)):
                encoder.emit("described")
                encoder.value(tell(each))
    for each in encoder.numbered():
        if isinstance(each, type) and _is_of_package_s_kind(each):
            encoder.text("called", each.__qualname__, str(vars(each).get("__doc__")))


def _is_of_package_s_kind(cls: type) -> bool:
    """Whether a package's metaclass made a class of the user's."""
    if type(cls) is type or packages.owner(cls.__module__) is not None:
        return False
    return packages.owner(type(cls).__module__) not in (None, packages.PYTHON)
