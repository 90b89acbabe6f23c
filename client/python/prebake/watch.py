"""What a description was made of beside the objects that a snapshot compares.

Where all of it is compared, a look tells whether the same description would be made again, and none is made.
What is not known here to be compared makes a description loose: it is made anew at each epoch.
"""

from __future__ import annotations

import gc
import types
from typing import TYPE_CHECKING, Any

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

    __slots__ = (
        "_classes",
        "_looked_up",
        "_members",
        "_objects",
        "_referents",
        "_values",
        "is_loose",
    )

    def __init__(self) -> None:
        #: It reads what nothing compares.
        self.is_loose = False
        #: Objects that it followed.
        self._objects: list[Any] = []
        #: Namespaces of installed code and the names that were looked up there, and what they stood for.
        self._looked_up: list[tuple[dict[str, Any], tuple[str]]] = []
        self._values: list[Any] = []
        #: Installed classes that were looked through, and what they held: members, and what they extend.
        self._classes: list[type] = []
        self._members: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._referents: list[Any] = []

    def followed(self, value: Any) -> None:
        """To be called of what is described by what it refers to."""
        self._objects.append(value)

    def looked_up(self, space: dict[str, Any], name: str) -> None:
        """To be called before a name is looked up in installed code."""
        self._looked_up.append((space, (name,)))
        self._values.append(space.get(name, _ABSENT))

    def looked_through(self, cls: type) -> None:
        """To be called before an installed class is looked through."""
        self._classes.append(cls)
        self._members += [(space, space.copy()) for space in gc.get_referents(vars(cls))]
        self._referents += gc.get_referents(cls)

    def watched(self, held: Snapshot) -> Any:
        """What compares it beside a snapshot that was taken before; None where not all of it can be."""
        module = native()
        if self.is_loose or module is None or not held.compares(self._objects):
            return None
        names = self._looked_up, self._values, _ABSENT
        return module.Look([], self._classes, self._referents, *names, [], None, self._members, {}, None)
