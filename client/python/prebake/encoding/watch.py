"""What a description was made of beside the objects that a snapshot compares.

Where all of it is compared, a look tells whether the same description would be made again, and none is made.
What is not known here to be compared makes a description loose: it is made anew at each epoch.
"""

from __future__ import annotations

import gc
import os
import sys
import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prebake.runtime import packages
from prebake.runtime.daemon import native

if TYPE_CHECKING:
    from prebake.identity.snapshot import Snapshot

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
        "_installed",
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
        self._looked_up: list[tuple[Mapping[str, Any], tuple[str]]] = []
        self._values: list[Any] = []
        # Code reaches it in more ways than by its name.
        self.looked_up(vars(os), "environ")
        #: Installed functions and classes, and what they refer to.
        self._installed: list[Any] = []
        self._referents: list[Any] = []
        #: Members of installed classes, attributes of functions, and what those were.
        self._members: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def followed(self, value: Any) -> None:
        """To be called of what is described by what it refers to."""
        self._objects.append(value)

    def looked_up(self, space: Mapping[str, Any], name: str) -> None:
        """To be called before a name is looked up in installed code."""
        self._looked_up.append((space, (name,)))
        self._values.append(space.get(name, _ABSENT))

    def looked_into(self, space: dict[str, Any]) -> None:
        """To be called before all names of a namespace are looked at."""
        self._members.append((space, space.copy()))

    def looked_through(self, cls: type) -> None:
        """To be called before an installed class is looked through."""
        self.relied_on(cls)
        for space in gc.get_referents(vars(cls)):
            self.looked_into(space)

    def resolved(self, value: Any, module: str, name: str) -> None:
        """To be called before an installed function or class is known by the name that its module has for
        it."""
        if isinstance(value, types.FunctionType):
            self.relied_on(value)
        space = sys.modules.get(module)
        self.looked_up(sys.modules, module)
        first, _, rest = name.partition(".")
        if rest or not isinstance(space, types.ModuleType):
            self.is_loose = True
            return
        self.looked_up(vars(space), "__file__")
        self.looked_up(vars(space), first)

    def variables(self) -> None:
        """To be called before the first variable of the process is read."""
        self.relied_on(os.environ)
        self.looked_into(vars(os.environ))
        for each in type(os.environ).__mro__[:-1]:
            self.looked_through(each)

    def installed(self, value: Any) -> None:
        """To be called of a value of a type that is not compared: it may be a compiled function that a module
        offers."""
        if packages.offers(value):
            self.resolved(value, value.__module__, value.__qualname__)
        else:
            self.is_loose = True

    def taken(self, value: Any) -> None:
        """To be called of what code takes from an installed module: an instance may be given another
        class."""
        kind = type(value)
        if isinstance(value, (type, types.FunctionType, types.ModuleType)) or packages.offers(value):
            return
        bound = getattr(value, "__self__", None)
        own = bound is not None and not isinstance(bound, types.ModuleType)
        self.is_loose |= own or bool(kind.__flags__ & packages.HEAP_TYPE)

    def relied_on(self, value: Any) -> None:
        """To be called before an installed function or class is known by what it says of itself."""
        self._installed.append(value)
        self._referents += gc.get_referents(value)

    def watched(self, held: Snapshot) -> Any:
        """What compares it beside a snapshot that was taken before; None where not all of it can be."""
        module = native()
        if self.is_loose or module is None or not held.compares(self._objects):
            return None
        names = self._looked_up, self._values, _ABSENT
        return module.Look([], self._installed, self._referents, *names, [], None, self._members, {}, None)
