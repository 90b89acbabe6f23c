"""Fields of a data set that are empty until it is used, and hold then a reader that no process can be sent.
Each process makes it anew, from what the rest of the data set says: such fields are no part of what it is.
Items are loaded from copies without them, so that what is opened is heard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prebake.runtime import packages
from prebake.sources.readers import CONTAINERS, TURNS, disturb, fields, is_open, is_reader, same_fields

#: How a field was before use.
ABSENT, NONE = "absent", "None"
#: Tables that a data set may fill to tell its length are no longer than this before.
MEMBERS_MAX = 1024


class LazyFields:
    """Those of a data set that are left out, by name: how they were before use. None of one that a copy may
    not stand for."""

    def __init__(self, dataset: Any, is_whole: bool = False) -> None:
        """None are with `is_whole`."""
        self._may_be_copied = not is_whole and _may_be_copied(dataset)
        self._left_out: dict[str, str] = {}
        #: Whether to tell its length opens something, as far as is known.
        self._opens_for_length: bool | None = None if self._may_be_copied else False

    def __bool__(self) -> bool:
        return bool(self._left_out)

    def leave_out(self, fields: Mapping[str, str]) -> bool:
        """Leaves these out; whether any is new."""
        if not self._may_be_copied or fields.keys() <= self._left_out.keys():
            return False
        self._left_out |= fields
        return True

    def fields(self) -> dict[str, str]:
        """Their names, and how they were before use."""
        return dict(self._left_out)

    def copied(self, dataset: Any) -> Any:
        """A shallow copy of a data set, with tables of its own for what is left out."""
        return self.empty(_copied(dataset), dataset)

    def empty(self, made: Any, dataset: Any) -> Any:
        """Such a copy with these tables. What its user put into a field of the data set itself counts."""
        for name, kind in self._left_out.items():
            if kind in CONTAINERS and _is_empty(_fields(dataset).get(name), kind):
                vars(made)[name] = CONTAINERS[kind]()
        return made

    def length(self, dataset: Any) -> int:
        """Its length. What is opened to tell it, and only for that, is let go of."""
        if self._opens_for_length is False:
            return len(dataset)
        asked = _copied(dataset)
        tables = {name: type(value)(value) for name, value in vars(asked).items() if _is_short_table(value)}
        vars(asked).update(tables)
        before, was = Before(asked), {name: list(value) for name, value in tables.items()}
        try:
            count, opened = len(asked), before.opened()
        except Exception:
            return len(dataset)
        for name, value, kind in before.filled():
            if name not in opened and kind not in CONTAINERS and _is_plain(value):
                # An index that is read once.
                vars(dataset)[name] = value
        is_same = all(
            name in opened or value is vars(dataset).get(name) or _is_alike(value, tables, was, name)
            for name, value in vars(asked).items()
        )
        self._opens_for_length = bool(opened) and is_same
        if not self._opens_for_length:
            return len(dataset)
        self._left_out |= opened
        return count


class Before:
    """A data set as it is now, to see what use puts into fields that are empty."""

    def __init__(self, dataset: Any) -> None:
        self._dataset, self._fields = dataset, dict(_fields(dataset))
        self._empty = {
            name: kind
            for name, value in self._fields.items()
            for kind in CONTAINERS
            if _is_empty(value, kind)
        }

    def filled(self) -> Iterator[tuple[str, Any, str]]:
        """Name, what it holds now, and how it was before."""
        for name, value in _fields(self._dataset).items():
            old = self._fields.get(name, ABSENT)
            if name in self._empty:
                if value is old and value:
                    yield name, value, self._empty[name]
            elif value is not old and (old is None or old is ABSENT):
                yield name, value, NONE if old is None else ABSENT

    def opened(self) -> dict[str, str]:
        """Of these, the readers, and how they were before."""
        if not _may_be_copied(self._dataset):
            return {}
        filled = self.filled()
        return {name: kind for name, value, kind in filled if is_open(value) and is_reader(value)}

    def disturbances(self) -> Iterator[None]:
        """Has the readers as if they had been used otherwise, each time in another way. Raises ValueError if
        items that were made meanwhile changed one."""
        names = self.opened()
        for turn in range(TURNS if names else 0):
            for name in names:
                disturb(vars(self._dataset)[name], turn)
            was = {name: fields(vars(self._dataset)[name]) for name in names}
            yield
            if not all(same_fields(was[name], fields(vars(self._dataset)[name])) for name in names):
                raise ValueError("an item changes its reader")

    def close(self) -> dict[str, str]:
        """The readers' fields. All that use filled is as it was from now on."""
        opened = self.opened()
        if opened:
            _empty(self._dataset, {name: kind for name, _, kind in self.filled()})
        return opened


#: A class with one of these says itself how its objects are made, asked or let go of: one more of them, made
#: beside it, may act or be something else.
_OF_OBJECT = ("__new__", "__getattribute__", "__setattr__", "__delattr__", "__reduce_ex__", "__reduce__")
_OF_NONE = ("__del__", "__getattr__", "__copy__", "__slots__", "__setstate__")


def _may_be_copied(dataset: Any) -> bool:
    cls = type(dataset)
    return (
        all(getattr(cls, name) is getattr(object, name) for name in _OF_OBJECT)
        and not any(vars(each).get(name) for each in cls.__mro__ for name in _OF_NONE)
        and type(getattr(dataset, "__dict__", None)) is dict
    )


def _copied(dataset: Any) -> Any:
    """What `copy.copy` makes of such a one, without asking what its class has it send."""
    made = object.__new__(type(dataset))
    vars(made).update(vars(dataset))
    return made


def emptied(dataset: Any, fields: Mapping[str, str]) -> Any:
    """A shallow copy with these fields as they were before use."""
    made = _copied(dataset)
    _empty(made, fields)
    return made


def _empty(made: Any, fields: Mapping[str, str]) -> None:
    for name, kind in fields.items():
        if kind == ABSENT:
            vars(made).pop(name, None)
        else:
            vars(made)[name] = CONTAINERS[kind]() if kind in CONTAINERS else None


def _fields(dataset: Any) -> dict[str, Any]:
    fields = getattr(dataset, "__dict__", None)
    return fields if type(fields) is dict else {}


def _is_empty(value: Any, kind: str) -> bool:
    return type(value) is CONTAINERS[kind] and not value


def _is_plain(value: Any) -> bool:
    """Whether it is of no kind that may refer to what made it."""
    return not callable(value) and packages.owner(type(value).__module__) is not None


def _is_short_table(value: Any) -> bool:
    return type(value) in CONTAINERS.values() and len(value) <= MEMBERS_MAX


def _is_alike(value: Any, tables: Mapping[str, Any], was: Mapping[str, list[Any]], name: str) -> bool:
    """Whether a field is the table that it was given, with the same members."""
    if name not in tables or value is not tables[name] or len(value) != len(was[name]):
        return False
    return all(new is old for new, old in zip(value, was[name], strict=True))
