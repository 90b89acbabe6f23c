"""Values that are what a function was given, or hold it: a hit gives the caller its own objects too.

`return {"image": batch["image"]}` holds the caller's array: what is written to it later is seen by whoever
holds the batch. `batch["mean"] = ...; return batch` changes the caller's dictionary. A stored copy would do
neither, so what is stored says which of the objects given a value is or holds, and what became of a
dictionary. Anything else that is changed in place is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prebake.identity.code import identify

#: Containers within containers that are gone through, in arguments and in values.
DEPTH_MAX = 8
#: Of these nobody can tell one from its equal.
ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})

#: Where an object was given: a parameter, and keys or places from there.
Place = tuple[Any, ...]


@dataclasses.dataclass
class Given:
    """In a stored value: the object that was given there."""

    place: list[Any]


@dataclasses.dataclass
class Edited:
    """In a stored value: the dictionary that was given as a parameter, with other members."""

    parameter: str
    members: list[Any]


@dataclasses.dataclass
class Holding:
    """A stored value that holds some of those."""

    value: Any


class Arguments:
    """What a call was given, as it was before the call. All of it is kept: no address is used again."""

    def __init__(self, arguments: Mapping[str, Any], name: str) -> None:
        self._arguments, self._name = dict(arguments), name
        self._objects: dict[Place, Any] = {}
        for parameter, argument in self._arguments.items():
            self._objects.update(_objects((parameter,), argument, DEPTH_MAX))
        self._places = {id(each): place for place, each in reversed(self._objects.items())}
        #: Of dictionaries, which may be returned with other members.
        self._members: dict[str, list[tuple[Any, Any]]] = {
            parameter: list(argument.items())
            for parameter, argument in self._arguments.items()
            if type(argument) is dict
        }
        #: Of all others, and of members.
        self._digests: dict[str, list[bytes]] = {}

    def remember(self) -> None:
        """Takes digests, to see later what was changed. Raises `Refused`."""
        self._digests = {parameter: self._digest(parameter) for parameter in self._arguments}

    def are_changed(self, value: Any) -> bool:
        """Whether anything is another than was remembered, except which members a dictionary has that the
        call returned."""
        return any(self._is_changed(parameter, value) for parameter in self._arguments)

    def as_given(self) -> dict[str, Any]:
        """The arguments as they were, where a call may have changed which members a dictionary has."""
        return {**self._arguments, **{name: dict(members) for name, members in self._members.items()}}

    def stored(self, value: Any) -> Any:
        """What is stored of a value that the call returned."""
        found = self._stored(value, DEPTH_MAX)
        return value if found is value else Holding(found)

    def returned(self, stored: Holding) -> Any:
        """What a call returns of which that is stored; its dictionary is changed as the call changed it."""
        return self._returned(stored.value)

    def _digest(self, parameter: str) -> list[bytes]:
        held = self._members.get(parameter, [("", self._arguments[parameter])])
        return [identify(each, f"{self._name} arguments").digest for _, each in held]

    def _is_changed(self, parameter: str, value: Any) -> bool:
        is_returned = self._arguments[parameter] is value
        if parameter in self._members and not is_returned and not self._has_same_members(parameter):
            return True
        return self._digest(parameter) != self._digests[parameter]

    def _has_same_members(self, parameter: str) -> bool:
        before, now = self._members[parameter], self._arguments[parameter]
        return len(before) == len(now) and all(
            key is was and member is held
            for (was, held), (key, member) in zip(before, now.items(), strict=True)
        )

    def _stored(self, value: Any, depth: int) -> Any:
        if type(value) in ATOMS or not depth:
            return value
        place = self._places.get(id(value))
        if place is not None:
            if place[1:] or place[0] not in self._members or self._has_same_members(place[0]):
                return Given([*place])
            return Edited(place[0], [[key, self._stored(each, depth - 1)] for key, each in value.items()])
        if type(value) is dict and not _has_atoms_only(value.values()):
            held = {key: self._stored(member, depth - 1) for key, member in value.items()}
            return value if all(held[key] is member for key, member in value.items()) else held
        if type(value) in (list, tuple) and not _has_atoms_only(value):
            parts = [self._stored(each, depth - 1) for each in value]
            is_same = all(part is each for part, each in zip(parts, value, strict=True))
            return value if is_same else type(value)(parts)
        return value

    def _returned(self, stored: Any) -> Any:
        if type(stored) is Given:
            return self._objects[tuple(stored.place)]
        if type(stored) is Edited:
            members = [(key, self._returned(member)) for key, member in stored.members]
            argument = self._arguments[stored.parameter]
            argument.clear()
            argument.update(members)
            return argument
        if type(stored) is dict:
            return {key: self._returned(member) for key, member in stored.items()}
        if type(stored) in (list, tuple):
            return type(stored)(map(self._returned, stored))
        return stored


def _has_atoms_only(members: Iterable[Any]) -> bool:
    return set(map(type, members)) <= ATOMS


def _objects(place: Place, value: Any, depth: int) -> Iterator[tuple[Place, Any]]:
    """What can be told from its equals in an argument, by place; the argument itself first."""
    if type(value) in ATOMS:
        return
    if type(value) is not tuple:
        yield place, value
    members: Any = ()
    if type(value) is dict and depth:
        members = value.items()
    elif type(value) in (list, tuple) and depth and not _has_atoms_only(value):
        members = enumerate(value)
    for key, member in members:
        if type(key) in (str, int):
            yield from _objects((*place, key), member, depth - 1)
