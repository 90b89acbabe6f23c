"""What transforms hold, by identity: a look that is cheap enough for every batch.

While it holds, nothing was assigned since it was taken: to a field, a global, a name in a module or class of
the user's, a small array or a variable of the process; nor to a name of an installed module or a member of
an installed class that their code names. A change inside a large array or a long table, deeper in installed
code, or deeper than the bounds, is left to the full description, which is made before anything is stored.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import operator
import os
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from prebake.bytecode import instructions
from prebake.encoding import process_environment
from prebake.purity import assigned
from prebake.runtime import packages
from prebake.runtime.daemon import native
from prebake.runtime.errors import Refused
from prebake.world import ambient, contents

#: Objects in a snapshot: transforms hold a few dozen, and each costs some 50 ns at every batch.
OBJECTS_MAX = 512
#: The same of what is set in installed code.
SET_MAX = 128
#: Members of a container that are looked into one by one; larger ones are tables.
MEMBERS_MAX = 64
#: Members of a table that are compared, for some ns each. Of a larger one only the length is.
TABLE_MAX = 65_536
#: Containers in tables whose own members are compared too.
ROWS_MAX = 1024
#: Bytes of contents that are compared in one snapshot.
CONTENTS_BYTES_MAX = 1 << 20

#: By number, since how a class is hashed and compared may be the user's; by exact type, since what extends
#: them may have fields.
_CONTAINERS = frozenset(map(id, (list, tuple, dict, set, frozenset)))
_LEAVES = frozenset(map(id, (type(None), bool, int, float, complex, str, bytes, types.CodeType)))


class Snapshot:
    """The objects that transforms reach. It holds them, so that an address is not used again."""

    __slots__ = (
        "_arrays",
        "_asks_level",
        "_classes",
        "_contents",
        "_contents_bytes",
        "_copies",
        "_counts",
        "_has_all_set",
        "_lengths",
        "_places",
        "_referents",
        "_rows",
        "_spaces",
        "_tables",
        "_tensors",
        "_values",
        "_walked",
        "look",
        "reached",
    )

    def __init__(self, roots: Sequence[Any], fixed: int = 0, folder: str | None = None) -> None:
        """The first `fixed` roots are the same for as long as it is asked; names of files are relative to
        `folder`, if to any."""
        #: Objects whose references are looked at, and those one after the other.
        self._walked: list[Any] = []
        self._referents: list[Any] = []
        #: Where names are looked up, and what is there.
        self._spaces: list[tuple[dict[str, Any], tuple[str, ...]]] = []
        self._values: list[Any] = []
        #: Containers that are not looked into, and how long they are.
        self._tables: list[Any] = []
        self._rows = 0
        #: Installed classes of which all members are compared.
        self._classes: set[int] = set()
        #: Arrays, which are written to in place.
        self._arrays: list[Any] = []
        self._contents_bytes = 0
        #: Tensors, of as many as are not compared by what they hold.
        self._tensors: list[Any] = []
        #: Of arrays of objects: they hold those, so that an address is not used again.
        self._copies: list[Any] = []
        #: Whether code asks which messages would be written.
        self._asks_level = False
        #: All that was met.
        self.reached: list[Any] = list(roots)
        self._reach(self.reached, OBJECTS_MAX)
        # What the user's modules set in installed code, wherever that comes upon it.
        self._places = assigned.places()
        found = [held for space, name in self._places for held in self._space(space, (name,))]
        #: Whether it goes into all of that.
        self._has_all_set = self._reach(found, SET_MAX)
        if self._asks_level and "logging" in sys.modules:
            self._take_levels(sys.modules["logging"])
        self._lengths = list(map(len, self._tables))
        self._contents = list(map(contents.of, self._arrays))
        self._counts = list(map(contents.counted, self._tensors))
        calls = [(tells, tells()) for tells in ambient.asked()]
        for name, attribute in (*process_environment.FLAGS_OF, *ambient.SETTINGS):
            module = sys.modules.get(name)
            flag = getattr(module, attribute, _ABSENT)
            if callable(flag):
                calls.append((flag, flag()))
            elif issubclass(type(module), types.ModuleType):
                self._space(vars(module), (attribute,))
        #: Of all that is compared natively: `look.holds(roots)`, of those that are not fixed.
        self.look = _look_type()(
            list(roots)[fixed:],
            self._walked,
            self._referents,
            self._spaces,
            self._values,
            _ABSENT,
            calls,
            # As the interpreter keeps them: decoding all of them would cost as much as the rest.
            getattr(os.environ, "_data", None),
            [(each, dict(each)) for each in ambient.tables()],
            sys.modules,
            None if folder is None else os.fsencode(folder),
        )

    def _reach(self, values: list[Any], most: int) -> bool:
        """Adds what is reached from some values to them. Whether that is all, rather than too much."""
        seen: set[int] = set()
        for value in values:
            if len(values) > most:
                return False
            # By its type: an odd object's `__class__` may raise.
            kind = type(value)
            if id(kind) not in _LEAVES and not issubclass(kind, types.ModuleType) and id(value) not in seen:
                seen.add(id(value))
                values += self._walk(value)
        return True

    def _walk(self, value: Any) -> Iterable[Any]:
        if id(type(value)) in _CONTAINERS and len(value) > MEMBERS_MAX:
            if len(value) > TABLE_MAX:
                self._tables.append(value)
            else:
                referents = gc.get_referents(value)
                self._take(value, referents)
                self._take_rows(referents)
            return ()
        if issubclass(type(value), type) and packages.owner(value.__module__) is not None:
            self._members(value)
            return ()
        if packages.offers(value):
            # Functions of Cython refer to all that is in their module, and to a table that is made when
            # somebody asks for it.
            return ()
        self._take_content(value)
        # What is made of an object when it is asked for would be seen as a change.
        _asked_for(value)
        # Fields with and without slots, members, bound arguments: all that the object itself refers to.
        referents = gc.get_referents(value)
        self._take(value, referents)
        if type(value) is not types.FunctionType:
            return [*referents, *self._members_of_array(value)]
        # Not all that is in its module, and in those of the user's that it takes something from.
        try:
            used = instructions.references(value.__code__)
        except Refused:
            # Nor can it be described.
            return referents
        self._asks_level |= bool(used.names & process_environment.ASKS_LEVEL)
        named = self._space(value.__globals__, _globals(value.__code__))
        modules: dict[int, types.ModuleType] = {}
        for each in named:
            if not issubclass(type(each), types.ModuleType) or id(each) in modules:
                continue
            modules[id(each)] = each
            found = self._space(vars(each), tuple(sorted(used.names & vars(each).keys())))
            is_installed = packages.owner(each.__name__) is not None
            # Of installed code not what its functions refer to.
            named += [held for held in found if issubclass(type(held), type)] if is_installed else found
        held = (value.__code__, value.__defaults__, value.__kwdefaults__, *(value.__closure__ or ()))
        return [*held, value.__dict__, *named]

    def _take(self, value: Any, referents: list[Any]) -> None:
        self._walked.append(value)
        self._referents += referents

    def _take_content(self, value: Any) -> None:
        content = contents.of(value)
        parts = content if type(content) is tuple else (content,)
        size = sum(len(each) for each in parts if type(each) in (bytes, bytearray))
        if content is not None and self._contents_bytes + size <= CONTENTS_BYTES_MAX:
            self._contents_bytes += size
            self._arrays.append(value)
        elif contents.counted(value) is not None:
            self._tensors.append(value)

    def _members_of_array(self, value: Any) -> list[Any]:
        """The objects in an array, of which it does not tell the garbage collector."""
        plain = contents.plain_array(value)
        if plain is None or not plain.dtype.hasobject or plain.nbytes > contents.ARRAY_BYTES_MAX:
            return []
        self._copies.append(plain.copy())
        members: list[Any] = plain.ravel("K").tolist() if plain.dtype.kind == "O" else []
        if len(members) <= MEMBERS_MAX:
            return members
        self._take_rows(members)
        return []

    def _take_rows(self, members: list[Any]) -> None:
        """Takes what the containers in a table hold."""
        for each in members:
            if self._rows < ROWS_MAX and id(type(each)) in _CONTAINERS and len(each) <= MEMBERS_MAX:
                self._rows += 1
                self._take(each, gc.get_referents(each))

    def _take_levels(self, logging: Any) -> None:
        """Takes what `surroundings` says of logging: levels are set by calls, of any logger."""
        manager = logging.root.manager
        for table in (manager.loggerDict, logging._levelToName, logging._nameToLevel):
            self._take(table, gc.get_referents(table))
        for each in (manager, logging.root, *list(manager.loggerDict.values())):
            self._space(vars(each), ("_disable", "level"))

    def _members(self, cls: type) -> None:
        """Takes what an installed class and those that it extends hold: a job may put a method of its own in
        the place of theirs. What is set deeper is left to the description."""
        for each in cls.__mro__:
            if each.__flags__ & packages.HEAP_TYPE and id(each) not in self._classes:
                self._classes.add(id(each))
                # The dictionary itself: what `vars` gives only shows it.
                for space in gc.get_referents(vars(each)):
                    self._take(space, gc.get_referents(space))

    def _space(self, space: dict[str, Any], names: tuple[str, ...]) -> list[Any]:
        self._spaces.append((space, names))
        named = [space.get(name, _ABSENT) for name in names]
        self._values += named
        return named

    def holds(self, roots: list[Any]) -> bool:
        """Whether the same roots, after those that are fixed, reach the same objects now."""
        return bool(self.look.holds(roots)) and self.others_hold()

    def met(self) -> Iterator[Any]:
        """All objects that it met, also the members of tables that it did not go into."""
        return itertools.chain(self.reached, self._referents)

    def is_short(self) -> bool:
        """Whether a description that was made since relies on more of what is set in installed code."""
        return len(assigned.places()) != len(self._places)

    def compares(self, values: Iterable[Any]) -> bool:
        """Whether it compares what each of these refers to, and what is set in installed code."""
        return self._has_all_set and set(map(id, values)) <= set(map(id, self._walked))

    def others_hold(self) -> bool:
        """Whether what is not compared natively is as it was."""
        if not self._tables and not self._arrays and not self._tensors:
            return True
        lengths, held = list(map(len, self._tables)), list(map(contents.of, self._arrays))
        counts = list(map(contents.counted, self._tensors))
        return lengths == self._lengths and held == self._contents and counts == self._counts


#: What a module has under a name that is builtin, or nowhere.
_ABSENT = object()


def _asked_for(value: Any) -> None:
    """Gives an object what is made for it when a description asks."""
    with contextlib.suppress(AttributeError):
        object.__getattribute__(value, "__dict__")


def take(roots: Sequence[Any]) -> list[Any]:
    """All that is reached, to be compared by `same`."""
    return Snapshot(roots).reached


def same(a: list[Any], b: list[Any]) -> bool:
    """Whether two lists are of the same objects."""
    return len(a) == len(b) and all(map(operator.is_, a, b))


@functools.cache
def _look_type() -> Any:
    """What compares, natively where it can be: before every batch."""
    module = native()
    return _Look if module is None else module.Look


class _Look:
    """The same without the native module. Nothing is shared then, so that what surrounds a value does not
    count."""

    def __init__(
        self,
        roots: list[Any],
        objects: list[Any],
        referents: list[Any],
        spaces: list[tuple[dict[str, Any], tuple[str, ...]]],
        values: list[Any],
        *_: Any,
    ) -> None:
        self._roots, self._objects = roots, objects
        self._referents = list(map(gc.get_referents, objects))
        self._spaces, self._values = spaces, values

    def holds(self, roots: list[Any]) -> bool:
        named = [space.get(name, _ABSENT) for space, names in self._spaces for name in names]
        return (
            same(roots, self._roots)
            and all(map(same, map(gc.get_referents, self._objects), self._referents))
            and same(named, self._values)
        )


@functools.lru_cache(maxsize=instructions.CODES_MAX)
def _globals(code: types.CodeType) -> tuple[str, ...]:
    return tuple(sorted(instructions.references(code).globals))
