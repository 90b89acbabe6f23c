"""What a description was made of beside the objects that a snapshot compares.

Where all of it is compared, a look tells whether the same description would be made again, and none is made.
What is not known here to be compared makes a description loose: it is made anew at each epoch.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, NamedTuple

from prebake._job import native

if TYPE_CHECKING:
    from prebake.snapshot import Snapshot

_ABSENT = object()
#: Types of values of which a snapshot compares all that is described, or which never change. Members of a
#: dictionary are compared without their names, those of arrays and instances by bounds or not at all.
COMPARED = frozenset(
    {
        types.BuiltinFunctionType,
        types.CellType,
        types.CodeType,
        types.FunctionType,
        types.ModuleType,
        list,
        tuple,
        type,
    }
)


class Watch:
    """What a description reads while it is made."""

    __slots__ = ("_classes", "_looked_up", "_objects", "_values", "is_loose")

    def __init__(self) -> None:
        #: It reads what nothing compares.
        self.is_loose = False
        #: Objects that it followed.
        self._objects: list[Any] = []
        #: Namespaces of installed code and the names that were looked up there, and what they stood for.
        self._looked_up: list[tuple[dict[str, Any], tuple[str]]] = []
        self._values: list[Any] = []
        #: Installed classes that were looked through, and what they held.
        self._classes: list[tuple[type, list[Any]]] = []

    def followed(self, value: Any) -> None:
        """To be called of what is described by what it refers to."""
        self._objects.append(value)

    def looked_up(self, space: dict[str, Any], name: str) -> None:
        """To be called before a name is looked up in installed code."""
        self._looked_up.append((space, (name,)))
        self._values.append(space.get(name, _ABSENT))

    def looked_through(self, cls: type) -> None:
        """To be called before an installed class is looked through."""
        self._classes.append((cls, _held(cls)))

    def watched(self, held: Snapshot) -> Watched | None:
        """What tells, beside a snapshot that was taken before, that nothing changed; None where nothing
        does."""
        module = native()
        if self.is_loose or module is None or not held.compares(self._objects):
            return None
        look = module.Look([], [], [], self._looked_up, self._values, _ABSENT, [], None, {}, None)
        return Watched(look, self._classes, module.identical)


class Watched(NamedTuple):
    """What a description was made of beside the objects of a snapshot."""

    look: Any
    classes: list[tuple[type, list[Any]]]
    identical: Any

    def holds(self) -> bool:
        """Whether all of it is as it was."""
        return self.look.holds([]) and all(self.identical(held, _held(cls)) for cls, held in self.classes)


def _held(cls: type) -> list[Any]:
    space = vars(cls)
    return [cls.__mro__, *space, *space.values()]
