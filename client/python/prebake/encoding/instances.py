"""Fingerprints of instances: their class, then the fields they hold.

An object whose class is written in Python is its fields. One that keeps state where Python cannot see it
(written in C) is taken apart by the protocol that `copy` and `pickle` use, into values that are fingerprinted
in turn; nothing is pickled.
"""

from __future__ import annotations

import copyreg
import enum
import io
import os
import threading
import types
from pathlib import PurePath
from typing import Any

from prebake.bytecode.unordered_iteration import varies
from prebake.encoding import array_identity, namespaces
from prebake.encoding.addresses import without_memos
from prebake.encoding.encoder import ENVIRONMENT, Encoder
from prebake.encoding.resolver_cache import without_unasked
from prebake.known.determinism import is_random
from prebake.known.marks import Pure, is_pure
from prebake.runtime import packages
from prebake.runtime.errors import Code, Refused
from prebake.runtime.transparent import Transparent

#: Random generators by class: their state changes as they are used.
RANDOM_CLASSES = frozenset(
    [
        "random.Random",
        "random.SystemRandom",
        "numpy.random._generator.Generator",
        "numpy.random.mtrand.RandomState",
        "torch._C.Generator",
        "prebake.known.marks.Random",
    ]
)
#: Fields of byte-pair encoders (GPT-2's `encoder.py`, which others took over as it is): the second keeps what
#: was made of the first, word by word.
_BPE_RANKS, _BPE_MEMO = "bpe_ranks", "cache"
#: Fields of every member of an enumeration; the last is kept once it is asked for.
_ENUM_FIELDS = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_"})
#: Locks of threads.
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
#: Bytes of a bare object, and of one field.
_HEADER, _FIELD = object.__basicsize__, 8
#: Builtin containers and scalars that a class may extend: their content is written beside the fields.
_CONTENTS = (list, tuple, dict, set, frozenset, str, bytes, bytearray, int, float, complex)


def encode(encoder: Encoder, value: Any) -> None:
    """Any instance that is not of a builtin type."""
    cls = type(value)
    if cls is object:
        if encoder.kind in ("global", "default"):
            # What code compares its own values with.
            encoder.number(value)
            encoder.emit("sentinel")
            return
        raise encoder.refuse(Code.OPAQUE, "is a bare object(), which equals nothing but itself")
    if is_pure(value):
        encoder.trusted += 1
        if cls is Pure:
            encoder.value(value.function)
        else:
            _encode(encoder, value)
        encoder.trusted -= 1
        return
    _encode(encoder, value)


def _encode(encoder: Encoder, value: Any) -> None:
    cls = type(value)
    # `operator.attrgetter` and its like have names that no code does.
    encoder.computed |= cls.__module__ in ("operator", "_operator")
    if f"{cls.__module__}.{cls.__qualname__}" in RANDOM_CLASSES or is_random(value):
        raise encoder.refuse(
            Code.RANDOM, f"holds a source of randomness ({cls.__qualname__}); mark it with prebake.random()"
        )
    if cls is type(os.environ):
        raise encoder.refuse(Code.ENVIRONMENT, ENVIRONMENT)
    if getattr(cls, "__prebake_token__", None) is not None:
        encoder.number(value)
        encoder.emit("token")
        encoder.member(".__class__", cls)
        encoder.member(".__prebake_token__()", value.__prebake_token__())
        return
    if array_identity.encode(encoder, value):
        return
    if cls in _LOCKS and not encoder.by_itself:
        # Whom it keeps waiting is no part of a value; that it is held, code can ask.
        encoder.number(value)
        encoder.emit("lock", cls.__name__.encode() if not _is_locked(value) else b"held")
        return
    if issubclass(cls, Transparent):
        raise encoder.refuse(Code.DATASET, "is a data set that is shared by itself: wrap the outermost only")
    if hasattr(cls, "__next__") and packages.owner(cls.__module__) is not None:
        # Of code that ran it is more than unknown: it may have taken from it. A log is written to.
        raise encoder.refuse(
            Code.CARRIES_STATE if encoder.has_run and not issubclass(cls, io.IOBase) else Code.OPAQUE,
            f"is a {cls.__qualname__}: what it yields depends on what was taken before",
        )
    if isinstance(value, enum.Enum):
        # Bits that no member stands for have no name.
        encoder.text("enum", value.name or "")
        encoder.member(".__class__", cls)
        encoder.member(".value", value._value_)
        if packages.owner(cls.__module__) is None:
            for name, field in sorted(vars(value).items()):
                if name not in _ENUM_FIELDS:
                    encoder.text("field", name)
                    encoder.member(f".{name}", field)
    elif isinstance(value, PurePath):
        encoder.text("path", str(value))
        encoder.member(".__class__", cls)
    elif not _exported(encoder, value):
        _instance(encoder, value)


def _instance(encoder: Encoder, value: Any) -> None:
    cls = type(value)
    content = next((base for base in _CONTENTS if isinstance(value, base)), None)
    installed = packages.owner(cls.__module__) is not None
    encoder.made_installed += installed
    _described(encoder, value, content, installed)
    encoder.made_installed -= installed


def _described(encoder: Encoder, value: Any, content: Any, installed: bool) -> None:
    cls = type(value)
    if content is None and (hides_state(cls) or installed and _says_its_state(cls)):
        _taken_apart(encoder, value)
        return
    if not installed and _says_its_state(cls):
        # An object that refuses to be copied says that it is more than its fields.
        _reduced(encoder, value)
    encoder.number(value)
    encoder.emit("instance")
    encoder.member(".__class__", cls)
    if content is not None:
        encoder.value(content(value))
    fields = _fields(value)
    if installed and _BPE_RANKS in fields and _is_text_by_text(fields.get(_BPE_MEMO)):
        del fields[_BPE_MEMO]
    if installed:
        fields = without_memos(fields, value)
    for name, field in sorted(fields.items()):
        encoder.text("field", name)
        if (
            not (installed or encoder.by_itself)
            and namespaces.is_one(field)
            and not namespaces.looks_through(cls)
        ):
            holders = namespaces.holders(encoder, cls, name)
            encoder.path.append(f".{name}")
            encoder.setting(field, holders, value)
            encoder.path.pop()
            continue
        if name in encoder.ordered and type(field) in (set, frozenset):
            if varies(field):
                raise order_of(encoder, name)
            # Of numbers: it tells in which order they came.
            encoder.member(f".{name} in order", list(field))
        encoder.member(f".{name}", field)


def order_of(encoder: Encoder, name: str) -> Refused:
    """Why an attribute must not be given an order by what takes it."""
    said = f"takes the order of the set {name}, which is another in each process; sort it"
    return encoder.refuse(Code.UNSTABLE, said)


def _is_text_by_text(value: Any) -> bool:
    return type(value) is dict and set(map(type, [*value, *value.values()])) <= {str}


def _fields(value: Any) -> dict[str, Any]:
    fields = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        for name, descriptor in vars(cls).items():
            if isinstance(descriptor, types.MemberDescriptorType):
                try:
                    fields[f"{cls.__qualname__}.{name}"] = descriptor.__get__(value)
                except AttributeError:
                    continue
    return fields


def held(value: Any, name: str) -> Any:
    """What an object or its classes hold under a name, unasked; `...` if they hold nothing."""
    fields = getattr(value, "__dict__", {})
    found = next((vars(cls)[name] for cls in type(value).__mro__ if name in vars(cls)), ...)
    if type(fields) is dict and name in fields and not hasattr(type(found), "__set__"):
        return fields[name]
    try:
        return found.__get__(value) if isinstance(found, types.MemberDescriptorType) else found
    except AttributeError:
        return None


def _is_locked(value: Any) -> bool:
    return type(value) is _LOCKS[0] and value.locked()


def hides_state(cls: type) -> bool:
    """Whether instances hold more bytes than the fields Python can see."""
    seen = _HEADER + _FIELD * (cls.__dictoffset__ > 0) + _FIELD * (cls.__weakrefoffset__ > 0)
    for each in cls.__mro__:
        seen += _FIELD * sum(
            isinstance(descriptor, types.MemberDescriptorType) for descriptor in vars(each).values()
        )
    return cls.__basicsize__ > seen


def _says_its_state(cls: type) -> bool:
    if cls in copyreg.dispatch_table:
        return True
    names = ("__reduce__", "__reduce_ex__", "__getstate__")
    return any(getattr(cls, name, None) is not getattr(object, name, None) for name in names)


def _reduced(encoder: Encoder, value: Any) -> Any:
    try:
        reducer = copyreg.dispatch_table.get(type(value))
        return reducer(value) if reducer is not None else value.__reduce_ex__(4)
    except Exception as error:
        raise encoder.refuse(
            Code.OPAQUE, f"is a {type(value).__qualname__}, which cannot be taken apart: {error}"
        ) from None


def _taken_apart(encoder: Encoder, value: Any) -> None:
    parts = _reduced(encoder, value)
    if isinstance(parts, str):
        _global(encoder, value, parts)
        return
    make, arguments, state, members, pairs = (*parts, None, None, None)[:5]
    if type(state) is dict and packages.owner(type(value).__module__) is not None:
        state = without_unasked(without_memos(state, value))
    content = [make, arguments, state, members and list(members), pairs and [tuple(pair) for pair in pairs]]
    names = (".__reduce__", ".args", ".state", ".items", ".items")
    encoder.items("taken apart", value, zip(names, content, strict=True), len(content))
    if packages.owner(type(value).__module__) is None:
        # Fields of the user's own, of which a class in C knows nothing.
        for name, field in sorted(_fields(value).items()):
            encoder.text("field", name)
            encoder.member(f".{name}", field)


def _exported(encoder: Encoder, value: Any) -> bool:
    """Whether an installed module offers this very object under its own name, as `numpy.sin`."""
    try:
        module = getattr(value, "__module__", None) or type(value).__module__
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    except Exception:
        # An odd object's attributes may raise anything; it has no name then.
        return False
    if not isinstance(module, str) or not isinstance(name, str):
        return False
    owner = packages.owner(module)
    if owner is None or packages.resolve(module, name) is not value:
        return False
    encoder.named(owner, module, name)
    return True


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _global(encoder: Encoder, value: Any, name: str) -> None:
    said: list[Any] = [getattr(value, "__module__", None), type(value).__module__]
    for module in filter(_is_text, said):
        owner = packages.owner(module)
        if owner is not None and packages.resolve(module, name) is value:
            encoder.named(owner, module, name)
            return
    raise encoder.refuse(Code.OPAQUE, f"is known only as {name!r}, which no installed module holds")
