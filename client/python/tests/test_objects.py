"""Dataclasses, named tuples and enumerations as values: the same class with the same content, or refused."""

import dataclasses
import enum
import functools
import sys
import types
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
import pytest
from test_values import round_trip

from prebake import Refused, fingerprint
from prebake.codec import named, values

Pair = namedtuple("Pair", "left right")


class Box(NamedTuple):
    name: str
    at: Any


class Kind(enum.Enum):
    CAT = "cat"
    DOG = "dog"
    KITTEN = CAT


class Bits(enum.IntFlag):
    A = 1
    B = 2


class Many(list):
    """A dataclass may extend what holds more than fields."""


@dataclasses.dataclass
class Sample:
    image: Any
    label: int = 0
    boxes: list[Box] = dataclasses.field(default_factory=list)

    @functools.cached_property
    def size(self) -> int:
        return int(self.image.size)


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    kind: Kind
    more: Any = None

    def __post_init__(self) -> None:
        if self.more is None:
            raise ValueError


class Slotted:
    __slots__ = ("extra",)


@dataclasses.dataclass(init=False)
class Mixed(Slotted):
    plain: int


@dataclasses.dataclass(init=False)
class Space(types.SimpleNamespace):
    pass


class Closing:
    closed = 0

    def __del__(self) -> None:
        Closing.closed += 1


@dataclasses.dataclass
class Open(Closing):
    name: str


def test_nothing_is_made_only_to_look() -> None:
    one, before = Open("a"), Closing.closed
    values.encode(one)
    assert Closing.closed == before


Listed = dataclasses.dataclass(Many)


def test_a_dataclass_comes_back_with_all_it_holds() -> None:
    sample = Sample(np.arange(6).reshape(2, 3).T, 3, [Box("a", (1, 2.5)), Box("b", Pair({"x": 1}, None))])
    assert sample.size == 6
    sample.later = Kind.DOG  # type: ignore[attr-defined]
    back = round_trip({"it": sample})["it"]
    assert type(back) is Sample and list(vars(back)) == list(vars(sample))
    assert back.image.strides == sample.image.strides and np.array_equal(back.image, sample.image)
    assert (back.label, back.boxes, back.later, vars(back)["size"]) == (3, sample.boxes, Kind.DOG, 6)
    assert type(back.boxes[1]) is Box and type(back.boxes[1].at) is Pair
    assert back.boxes is not sample.boxes


def test_it_is_not_made_by_its_own_code() -> None:
    frozen = Frozen(Kind.CAT, "more")
    object.__setattr__(frozen, "more", None)
    back = round_trip(frozen)
    assert back == frozen and type(back) is Frozen
    with pytest.raises(dataclasses.FrozenInstanceError):
        back.kind = Kind.DOG


def test_slots_and_fields_together() -> None:
    mixed = Mixed()
    mixed.plain, mixed.extra = 1, "slot"
    assert vars(mixed) == {"plain": 1}
    back = round_trip(mixed)
    assert (back.extra, vars(back)) == ("slot", vars(mixed))
    bare = object.__new__(Mixed)
    assert not vars(round_trip(bare)) and not hasattr(round_trip(bare), "extra")


def test_members_of_enumerations_are_the_same_objects() -> None:
    back = round_trip({Kind.CAT: Bits.A, "b": [Kind.KITTEN, Bits.B]})
    assert list(back) == [Kind.CAT, "b"] and back[Kind.CAT] is Bits.A and back["b"] == [Kind.CAT, Bits.B]


class Backwards(Box):
    __slots__ = ()

    def __iter__(self) -> Any:
        return iter((self.at, self.name))


class Upper(enum.EnumMeta):
    def __getitem__(cls, name: str) -> Any:
        return super().__getitem__(name.upper())


class Cased(enum.Enum, metaclass=Upper):
    a = 1
    A = 2


def test_code_of_the_class_is_not_asked() -> None:
    back = round_trip(Backwards("a", 2))
    assert type(back) is Backwards and (back.name, back.at) == ("a", 2)
    assert round_trip([Cased.a, Cased.A]) == [Cased.a, Cased.A]


class Base:
    __slots__ = ("x",)


@dataclasses.dataclass(init=False)
class Twice(Base):
    __slots__ = ("x",)
    x: int


@dataclasses.dataclass(init=False)
class Guarded(Base):
    y: int

    @property
    def x(self) -> int:  # type: ignore[override]
        return Base.x.__get__(self)

    @x.setter
    def x(self, value: int) -> None:
        Base.x.__set__(self, value + 100)


def test_slots_of_one_name() -> None:
    twice, guarded = Twice(), Guarded()
    twice.x, guarded.x = 1, 2
    Base.x.__set__(twice, 3)
    back = round_trip(twice)
    assert (back.x, Base.x.__get__(back)) == (1, 3) and round_trip(guarded).x == 102


def test_a_class_is_the_same_whatever_was_done_with_it() -> None:
    """What its methods do counts where they are called."""
    before, flags = values.encode([Bits.A]).layout, fingerprint(Bits)
    assert Bits.A | Bits.B
    named._forms.clear()
    assert values.encode([Bits.A]).layout == before and fingerprint(Bits) == flags


def local() -> Any:
    @dataclasses.dataclass
    class Local:
        a: int

    return Local(1)


def renamed() -> Any:
    made = Sample(None)
    made.__class__ = dataclasses.make_dataclass("Sample", ["image"])
    return made


def twice() -> Any:
    one = Sample(None)
    return [one, one]


@dataclasses.dataclass(frozen=True)
class Hashed:
    name: str

    def __hash__(self) -> int:
        object.__setattr__(self, "_hash", hash(self.name))
        return vars(self)["_hash"]


class Slot:
    __slots__ = ("kept",)


@dataclasses.dataclass(frozen=True)
class Slotwise(Slot):
    name: str

    def __hash__(self) -> int:
        object.__setattr__(self, "kept", hash(self.name))
        return self.kept


def kept() -> Any:
    made = Slotwise("a")
    hash(made)
    return made


def hashed() -> Any:
    made = Hashed("a")
    hash(made)
    return made


@dataclasses.dataclass
class Spread:
    a: int

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return {"a": 42}


def numbered() -> Any:
    made = Sample(None)
    vars(made)[1] = 2  # type: ignore[index]
    return made


REFUSED = {
    "one that keeps its hash": (hashed, "has a hash"),
    "one that keeps its hash in a slot": (kept, "has a hash"),
    "one of a class in C": (lambda: Space(), "more than its fields"),
    "a dictionary of its own": (lambda: Spread(1), "its own"),
    "fields that no text names": (numbered, "no text"),
    "a local class": (local, "top of a module"),
    "another of its name": (renamed, "top of a module"),
    "one that is more than its fields": (lambda: Listed(), "more than its fields"),
    "one twice": (twice, "twice"),
    "several members": (lambda: Bits.A | Bits.B, "no member"),
    "a field that cannot be": (lambda: Sample(object()), "object"),
}


@pytest.mark.parametrize(("make", "why"), REFUSED.values(), ids=REFUSED)
def test_what_would_not_come_back_is_refused(make: Any, why: str) -> None:
    with pytest.raises(Refused, match=why) as refused:
        values.encode(make())
    assert refused.value.code == "R39"


NOTEBOOK = """
import dataclasses, enum
@dataclasses.dataclass
class Cell:
    a: int
"""


def test_a_class_that_is_defined_anew_is_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a notebook, whose cells run again."""
    module = type(sys)("notebook")
    monkeypatch.setitem(sys.modules, "notebook", module)
    exec(NOTEBOOK, vars(module))
    layout, parts = values.encode(module.Cell(1))
    element = b"".join(map(bytes, parts))
    assert type(values.decode(layout, element)) is module.Cell
    old = module.Cell
    exec(NOTEBOOK, vars(module))
    assert type(values.decode(layout, element)) is module.Cell is not old
    exec(NOTEBOOK.replace("a: int", "a: int\n    b: int = 2"), vars(module))
    with pytest.raises(Refused, match="not the class"):
        values.decode(layout, element)


def test_the_same_class_of_another_module_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes an instance of one must not be given those of the other."""
    found = set()
    for name in ("here", "there"):
        module = type(sys)(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(f"{NOTEBOOK}\ndef make(): return Cell(1)", vars(module))
        found.add(fingerprint(module.make))
    assert len(found) == 2
