"""Seeds of generators that code makes: what is drawn from one is known where its seed is there (is not None)
and the same for the same arguments.

What a seed is, is known of constants, of what is worked out, of arguments where the call is known, and of
attributes once their objects are. A parameter of a helper is one where all its callers give it one: that is
looked at once all code is (`settle`).
"""

from __future__ import annotations

import enum
import inspect
import logging
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prebake.bytecode import instructions
from prebake.bytecode.callers import Site, Wanted
from prebake.bytecode.symbols import Attribute, Call, Const, Made, Name, Parameter, Symbol
from prebake.encoding import namespaces
from prebake.encoding.instances import held
from prebake.known import calls
from prebake.known.lookup import verdict_of
from prebake.runtime import packages
from prebake.runtime.errors import Code
from prebake.runtime.words import words

if TYPE_CHECKING:
    from prebake.encoding.encoder import Encoder
    from prebake.purity.call_scan import CallScan

#: Types of values that are seeds, of what code names.
_SEEDS = (int, str, bytes, tuple)
#: By these names objects of a class are made without its name.
_MADE = words("type __class__ __new__")
#: By these names attributes are set without being named, or objects made without being called.
_SETTING = words("replace _replace setattr delattr __setattr__ vars __dict__ evolve __setstate__ model_copy")
#: Functions that give each other a seed, one behind the other.
WANTED_MAX = 1000


class Seeds:
    """The seeds in one function's code."""

    def __init__(self, scan: CallScan) -> None:
        self.scan = scan

    def look(self, call: Call) -> None:
        """Notes who is called with what."""
        callers, callee = self.scan.encoder.callers, call.callee
        if isinstance(callee, Attribute):
            callers.sites.setdefault(callee.name, []).append(Site(self, call, 1))
        elif isinstance(callee, Name):
            value, rest = self.scan.walk(callee)
            if rest and type(value) is types.FunctionType:
                # By way of an attribute of the function's own.
                callers.hands_on(value)
            elif rest:
                # Of a class, its function is given its object too.
                skipped = None if issubclass(type(value), type) else 1
                callers.sites.setdefault(rest[-1], []).append(Site(self, call, skipped))
            elif type(value) is types.FunctionType:
                callers.sites.setdefault(value.__code__, []).append(Site(self, call, 0))
            elif issubclass(type(value), type) and type(init := value.__init__) is types.FunctionType:
                callers.sites.setdefault(init.__code__, []).append(Site(self, call, 1))

    def look_at_attributes(self) -> None:
        """Notes which attributes are set to what."""
        for name, value in self.scan.symbols.attributes:
            self.scan.encoder.callers.attributes.setdefault(name, []).append((self, value))

    def are_given(self, call: Call) -> bool:
        """Whether a generator is made from a seed."""
        given = [*(call.args or ())[:1], *(call.keywords[key] for key in calls.SEEDS & call.keywords.keys())]
        return bool(given) and all(map(self.is_known, given))

    def is_named(self, call: Call) -> bool:
        """Whether a call draws from a generator that the function made itself from a seed, or is given a
        seed, by a keyword."""
        for name, value in call.keywords.items():
            if name == "generator":
                while isinstance(value, Call) and isinstance(value.callee, Attribute):
                    if value.callee.name == "manual_seed":
                        return self.sets(value)
                    value = value.callee.of
                if isinstance(value, Call):
                    return any(
                        isinstance(each.callee, Attribute) and each.callee.name == "manual_seed"
                        for each in value.consumers
                    )
            elif name in calls.SEEDS and self.is_known(value):
                return True
        return False

    def sets(self, call: Call) -> bool:
        """Whether `manual_seed` is given anything: of what is no number it raises."""
        if self.scan.encoder.by_itself:
            return bool(call.args) and self.is_known(call.args[0])  # type: ignore[index]
        return call.args is None or bool(call.args or call.keywords)

    def made(self, symbol: Symbol) -> bool:
        """Whether it is a generator that was made here."""
        if not isinstance(symbol, Call) or not isinstance(symbol.callee, Name):
            return False
        return verdict_of(self.scan.canonical(symbol.callee)) in (calls.SEEDED, calls.STEADY)

    def is_known(self, symbol: Symbol) -> bool:
        """Whether it is certain that a value is there (is not None), and the same for the same arguments."""
        if isinstance(symbol, Const):
            return symbol.value is not None
        if isinstance(symbol, Made):
            return True
        if isinstance(symbol, Name):
            value, rest = self.scan.walk(symbol)
            if len(rest) == 1 and not self.scan.encoder.by_itself and namespaces.is_one(value):
                value, rest = namespaces.fields(value).get(rest[0]), ()
            return not rest and type(value) in _SEEDS
        if isinstance(symbol, Call) and isinstance(symbol.callee, Name):
            dotted = self.scan.canonical(symbol.callee).removeprefix("builtins.")
            return dotted in calls.NUMBERS or verdict_of(dotted) == calls.SEEDED
        if self.scan.encoder.by_itself:
            return False
        if isinstance(symbol, Parameter):
            return self._is_given(symbol)
        if isinstance(symbol, Attribute) and isinstance(symbol.of, Parameter):
            return self._is_of_function(symbol.of) and self._is_held(symbol)
        return False

    def _is_of_function(self, parameter: Parameter) -> bool:
        """Whether a parameter is the function's own, and not rebound or one of a function in it."""
        scan = self.scan
        return (
            parameter.name in scan.given
            and parameter.scope == scan.function.__code__.co_qualname
            and parameter not in scan.symbols.bindings
            and parameter.name not in instructions.references(scan.function.__code__).writes_cells
        )

    def _is_given(self, parameter: Parameter) -> bool:
        scan = self.scan
        if not self._is_of_function(parameter):
            return False
        if scan.function is scan.encoder.called and scan.encoder.arguments.get(parameter.name) is None:
            return False
        name = scan.function.__name__
        if name.startswith("__") and name != "__init__":
            # Called by who knows whom.
            return False
        self._want(parameter.name, f"{parameter.name} as a seed, which a caller may leave out or set to None")
        return True

    def _is_held(self, attribute: Attribute) -> bool:
        if not self._is_own(attribute):
            return False
        self._want(attribute.name, f"self.{attribute.name} as a seed, which may be None", is_attribute=True)
        return True

    def is_own_logger(self, symbol: Symbol) -> bool:
        """Whether a symbol is an attribute of the method's object; settled later: that it is a logger."""
        if not isinstance(symbol, Attribute) or not self._is_own(symbol):
            return False
        if self.scan.encoder.trusted:
            return True
        refused = self.scan.encoder.refuse(
            Code.CLOCK, f"tells self.{symbol.name} of a clock, which may be no logger ({self._place()})"
        )
        wanted = Wanted(self.scan.function, symbol.name, refused, is_attribute=True, is_logger=True)
        self.scan.encoder.callers.wanted.append(wanted)
        return True

    def _is_own(self, attribute: Attribute) -> bool:
        return isinstance(attribute.of, Parameter) and (attribute.of.name,) == self.scan.own

    def _want(self, name: str, said: str, is_attribute: bool = False) -> None:
        if self.scan.encoder.trusted:
            return
        refused = self.scan.encoder.refuse(Code.RANDOM, f"uses {said} ({self._place()}); {MARK}")
        wanted = Wanted(self.scan.function, name, refused, is_attribute)
        self.scan.encoder.callers.wanted.append(wanted)

    def _place(self) -> str:
        return self.scan.encoder.place(self.scan.function.__code__)


MARK = "mark the transform with prebake.random()"


def settle(encoder: Encoder) -> None:
    """Refuses a generator whose seed some caller, or some object, may not have."""
    done = set[tuple[int, str, bool, bool]]()
    # What callers give may be a parameter of theirs, which is wanted then.
    while encoder.callers.wanted:
        each = encoder.callers.wanted.pop()
        key = (id(each.function), each.name, each.is_attribute, each.is_logger)
        if key in done:
            continue
        done.add(key)
        if len(done) > WANTED_MAX or not (_is_held if each.is_attribute else _is_given)(encoder, each):
            raise each.refused


def _is_given(encoder: Encoder, wanted: Wanted) -> bool:
    """Whether all callers of a function give a parameter a value."""
    function, name = wanted.function, wanted.function.__name__
    owners, known = _owners(encoder, function), encoder.callers.of(function)
    if name == "__init__" and not _are_made(encoder, owners):
        # Objects that were made before.
        return True
    if known is None or encoder.computed or encoder.has_forgotten:
        return False
    if not owners:
        return bool(known or function is encoder.called) and _all_give(known, wanted)
    if _is_inherited(owners, name) or any(issubclass(each, enum.Enum) for each in owners):
        return False
    if name != "__init__" and name not in encoder.names:
        # Nothing calls it.
        return True
    if name in encoder.asked.taken or any(type(vars(each)[name]) is staticmethod for each in owners):
        return False
    if name == "__init__" and _are_made_unnamed(encoder, owners):
        return False
    sites = [*known, *encoder.callers.sites.get(name, [])]
    return bool(sites) and _all_give(sites, wanted)


def _owners(encoder: Encoder, function: types.FunctionType) -> list[type]:
    """The classes that a function is a method of."""
    classes = (each for each in encoder.numbered() if issubclass(type(each), type))
    return [each for each in classes if _own(each, function.__name__) is function]


def _are_made(encoder: Encoder, classes: list[type]) -> bool:
    """Whether code may make objects of classes."""
    if _are_made_unnamed(encoder, classes):
        return True
    return any(id(each) in encoder.constructed for each in classes)


def _are_made_unnamed(encoder: Encoder, classes: list[type]) -> bool:
    """Whether code may make objects of classes, or of those that extend them, without their name."""
    family = [each for each in encoder.numbered() if issubclass(type(each), type)]
    family = [each for each in family if any(base in classes for base in each.__mro__)]
    entries = (entry for each in family for entry in vars(each).values())
    return bool(_MADE & encoder.asked.names) or any(type(each) is classmethod for each in entries)


def _own(cls: type, name: str) -> Any:
    entry = vars(cls).get(name)
    return getattr(entry, "__func__", entry)


def _is_inherited(owners: list[type], name: str) -> bool:
    """Whether installed code calls it, as that of a class it knows."""
    bases = [base for each in owners for base in each.__mro__[1:] if base is not object]
    return any(name in vars(base) and packages.owner(base.__module__) is not None for base in bases)


def _all_give(sites: list[Site], wanted: Wanted) -> bool:
    return all(_gives(each, wanted.function, wanted.name) for each in sites)


def _gives(site: Site, function: types.FunctionType, parameter: str) -> bool:
    code, call = function.__code__, site.call
    if call.args is None or site.skipped is None or code.co_flags & _ANY:
        return False
    place = code.co_varnames.index(parameter) - site.skipped
    if parameter in call.keywords:
        return site.seeds.is_known(call.keywords[parameter])
    if 0 <= place < len(call.args) and parameter in code.co_varnames[: code.co_argcount]:
        return site.seeds.is_known(call.args[place])
    return defaults(function).get(parameter) is not None


#: Flags of code that takes any arguments.
_ANY = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def defaults(function: types.FunctionType) -> dict[str, Any]:
    """Parameters' defaults, by name."""
    code, given = function.__code__, function.__defaults__ or ()
    named = code.co_varnames[code.co_argcount - len(given) : code.co_argcount]
    return {**dict(zip(named, given, strict=False)), **(function.__kwdefaults__ or {})}


def _is_held(encoder: Encoder, wanted: Wanted) -> bool:
    """Whether all objects that were met have a value for an attribute, which nothing takes away, and code
    makes none of them."""
    owners, name = _owners(encoder, wanted.function), wanted.name
    if not owners or encoder.computed or encoder.has_forgotten or _SETTING & encoder.asked.names:
        return False
    if any(issubclass(each, enum.Enum) for each in owners) or _are_made(encoder, owners):
        return False
    if type(vars(owners[0])[wanted.function.__name__]) in (staticmethod, classmethod):
        return False
    given = encoder.callers.attributes.get(name, ())
    if wanted.is_logger:
        return all(map(_makes_logger, given)) and all(map(_is_logger, _all_held(encoder, name)))
    if not all(seeds.is_known(value) for seeds, value in given):
        return False
    for each in encoder.numbered():
        if issubclass(type(each), type):
            if name in vars(each) and (vars(each)[name] is None or id(each) in encoder.constructed):
                return False
        elif _is_of(each, owners):
            value = held(each, name)
            if value is None or value is ... or hasattr(type(value), "__get__"):
                return False
        elif held(each, name) is None:
            return False
    return True


def _makes_logger(given: tuple[Seeds, Symbol]) -> bool:
    seeds, value = given
    if not isinstance(value, Call) or not isinstance(value.callee, Name):
        return False
    return seeds.scan.canonical(value.callee) == "logging.getLogger"


def _all_held(encoder: Encoder, name: str) -> Iterator[Any]:
    """What any class or object that was met has by a name."""
    for each in encoder.numbered():
        found = vars(each).get(name, ...) if issubclass(type(each), type) else held(each, name)
        if found is not ...:
            yield found


def _is_logger(value: Any) -> bool:
    return type(value) is logging.Logger


def _is_of(value: Any, classes: list[type]) -> bool:
    """Whether a value is of one of the classes, whatever it says itself."""
    return any(each in type(value).__mro__ for each in classes)
