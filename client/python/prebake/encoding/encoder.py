"""The encoding that fingerprints are digests of.

A stream of tagged, length-prefixed parts, so that no two objects share one by accident; it depends on no hash
seed, address, file name or line number. Functions, classes and instances are numbered when first met and
referred to by number from then on: cycles end, and the work is linear. Lists, tuples and dictionaries are
written out each time, since equal ones are the same value.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prebake.encoding import digests
from prebake.encoding.addresses import without
from prebake.encoding.dependencies import Dependencies
from prebake.encoding.digests import digest
from prebake.encoding.leaves import MEMBERS_MAX
from prebake.encoding.namespaces import Held
from prebake.encoding.output import CODE_CONTEXT, INLINE_BYTES_MAX
from prebake.encoding.scalars import FIXED, SCALARS
from prebake.encoding.watch import COMPARED, Watch
from prebake.runtime.errors import Code, Refused

#: Values in one fingerprint. A vocabulary of a million words fits; a data set in a closure should be a file.
VALUES_MAX = 4_000_000
#: Bytes from which what is written of a container is kept for its next mention.
SHARED_BYTES_MIN = 256
#: Members from which a container is hashed natively, if it holds nothing but numbers and text.
PLAIN_MIN = 64
ENVIRONMENT = "reads the environment, which is no part of its identity; pass the value as a parameter"


class Encoder(Dependencies):
    """Writes values."""

    def __init__(
        self,
        name: str,
        watch: Watch | None = None,
        called: Any = None,
        arguments: Mapping[str, Any] | None = None,
        by_itself: bool = False,
        has_run: bool = False,
    ) -> None:
        super().__init__(name, watch, called, arguments, by_itself, has_run)
        self._left = VALUES_MAX
        #: Mentions of what was written elsewhere, and containers that hold none, by id.
        self._context = 0
        self._written: dict[int, tuple[bytes, Any]] = {}
        #: Numbered objects by id; each is kept alive so that its id stays its own.
        self._numbers: dict[int, tuple[int, Any]] = {}
        #: Whether it met objects, other than functions, that it no longer knows: those in a set.
        self.has_forgotten = False
        #: Objects that it met more than once, by id, and sets that it is in.
        self.met_again: set[int] = set()
        self._sets = 0
        #: Containers being written, by id.
        self.open: dict[Any, int] = {}
        #: Installed classes whose attributes were looked through, by id.
        self.looked_at: dict[int, type] = {}

    def member(self, step: str, value: Any, kind: str | None = None) -> None:
        """A value under a name that a refusal and a leaf can show."""
        cls = type(value)
        if cls not in SCALARS and (cls is types.FunctionType or issubclass(cls, type)):
            self._handed_on(step, value)
        start, known, outer = len(self.out), len(self.leaves), self.kind
        self.path.append(step)
        self.kind = kind or outer
        self.value(value)
        if known == len(self.leaves) and step != ".key" and start < len(self.out) and not self.quiet:
            self.leaf(start, value)
        self.kind = outer
        self.path.pop()

    def setting(self, value: Any, holders: frozenset[str] | None, owner: Any = None) -> None:
        """A configuration, whose fields are written later; `owner` is the object that holds it."""
        self.watch.is_loose = True
        if self._sets or self.by_itself:
            # In a set nothing has a place.
            self.value(value)
            return
        # Of its class nothing counts while code only asks for what it holds.
        self.text("namespace", str(len(self.namespaces)))
        self.namespaces.append(Held(value, [*self.path], self.kind, holders, owner, set()))

    def _handed_on(self, step: str, value: Any) -> None:
        """Notes a function or class, unless it is met where code does not get it from: as a method, or as
        what an object is of."""
        if type(value) is types.FunctionType:
            of_class = _is_method(value, self.path[-1] if step == ".__func__" else step)
        else:
            of_class = step == ".__class__" or self.path[-1] == ".__bases__"
        if not of_class:
            self.callers.hands_on(value)

    def value(self, value: Any) -> None:
        """Any value, by its exact type first, then by what it is an instance of."""
        self._left -= 1
        if self._left < 0:
            raise self.refuse(
                Code.TOO_LARGE, f"holds more than {VALUES_MAX} values; put them in a file and read it"
            )
        kind = type(value)
        scalar = SCALARS.get(kind)
        if kind not in (COMPARED if scalar is None else FIXED):
            self.watch.installed(value)
        if scalar is not None:
            if kind is str and value[:2] == "__":
                # `getattr` may be given it.
                self.names.add(value)
            if self.made_installed and kind is str and (known := without(value, self._numbers)) != value:
                self._context += 1
                self.text("str at", known)
                return
            self.emit(*scalar(value))
            return
        seen = self._numbers.get(id(value))
        if seen is not None:
            self.met_again.add(id(value))
            self._context += 1
            self.emit("seen", str(seen[0]).encode())
            return
        handler = HANDLERS.get(kind) or next(h for base, h in FAMILIES.items() if issubclass(kind, base))
        handler(self, value)

    def number(self, value: Any) -> None:
        """Numbers an object that is written now, so that later mentions refer to it."""
        self._context += 1
        self._numbers[id(value)] = (len(self._numbers), value)

    def numbered(self) -> list[Any]:
        """The numbered objects, in the order in which they were met."""
        return [value for _, value in self._numbers.values()]

    def items(self, tag: str, value: Any, members: Iterable[tuple[str, Any]], count: int) -> None:
        """The members of a container, in order. A container inside itself is written as its depth."""
        depth = self.open.get(id(value))
        if depth is not None:
            self._context += 1
            self.emit("inside", str(depth).encode())
            return
        written = self._written.get(id(value))
        if written is not None:
            self.out += written[0]
            return
        start, context = len(self.out), self._context
        self.open[id(value)] = len(self.open)
        self.emit(tag, str(count).encode())
        known, quiet = len(self.leaves), count > MEMBERS_MAX
        self.quiet += quiet
        for step, member in members:
            self.member(step, member)
        self.quiet -= quiet
        if tag in ("list", "tuple") and all(type(each) in SCALARS for each in value):
            # A list of numbers is one leaf.
            del self.leaves[known:]
        del self.open[id(value)]
        if self._context == context and len(self.out) - start >= SHARED_BYTES_MIN:
            self._share(start, tag, value)

    def _share(self, start: int, tag: str, value: Any) -> None:
        """Keeps what was written of a container that depends on nothing around it, for its next mention.

        A long one becomes its digest, mentioned again or not: containers in containers that share
        parts have more paths than could be written out.
        """
        if len(self.out) - start > INLINE_BYTES_MAX:
            whole = digest(CODE_CONTEXT, self.out[start:])
            del self.out[start:]
            self.emit(f"whole {tag}", whole)
        self._written[id(value)] = (bytes(self.out[start:]), value)

    def unordered(self, tag: str, members: Iterable[Any]) -> None:
        """Members in the order of their digests. Each sees only the numbers known before the set."""
        outer, found = self.out, []
        self.quiet += 1
        self._sets += 1
        for member in members:
            mark = len(self._numbers)
            self.out = bytearray()
            self.member("{...}", member)
            found.append(digest(CODE_CONTEXT, bytes(self.out)))
            self._forget(mark)
        self.quiet -= 1
        self._sets -= 1
        self.out = outer
        self.emit(tag, b"".join(sorted(found)))

    def _forget(self, mark: int) -> None:
        """Drops the numbers given since there were so many."""
        while len(self._numbers) > mark:
            _, (_, met) = self._numbers.popitem()
            # Nothing asks for a function's attributes, and one that is left out refuses where it is called.
            self.has_forgotten |= type(met) is not types.FunctionType

    def attempt(self, write: Callable[[], None]) -> Refused | None:
        """Writes something, or nothing of it and returns why it is refused."""
        before = (
            len(self.out),
            len(self._numbers),
            len(self.path),
            len(self.leaves),
            self.kind,
            dict(self.open),
            len(self.namespaces),
            len(self.callers.wanted),
        )
        trusted, reached = self.trusted, self.reached.mark()
        made_installed = self.made_installed
        try:
            write()
        except Refused as refused:
            if refused.code is Code.TOO_LARGE:
                raise
            size, numbers, steps, leaves, self.kind, self.open, namespaces, wanted = before
            del self.out[size:], self.path[steps:], self.leaves[leaves:], self.namespaces[namespaces:]
            del self.callers.wanted[wanted:]
            self._forget(numbers)
            self.reached.forget_since(reached)
            self.trusted, self.made_installed = trusted, made_installed
            return refused
        return None


def _is_method(function: types.FunctionType, step: str) -> bool:
    """Whether a function that is met at a step is of a class there."""
    return (
        step == f".{function.__name__}"
        and function.__qualname__.endswith(step)
        and not (function.__qualname__.endswith(f"<locals>{step}"))
    )


def _plain(encoder: Encoder, tag: str, value: Any) -> bool:
    """Writes a large container of numbers and text by one native digest; whether it is one."""
    if len(value) < PLAIN_MIN:
        return False
    module = digests.native_module()
    try:
        found = module.digest_plain(value) if module is not None else None
    except OverflowError:
        raise encoder.refuse(
            Code.TOO_LARGE, "holds too many values; put them in a file and read it"
        ) from None
    if found is not None:
        encoder.emit(f"plain {tag}", found)
    return found is not None


def _sequence(tag: str) -> Callable[[Encoder, Any], None]:
    def encode(encoder: Encoder, value: Any) -> None:
        encoder.watch.followed(value)
        if _plain(encoder, tag, value):
            # What is nested in it was not followed.
            encoder.watch.is_loose |= not all(type(each) in FIXED for each in value)
            return
        encoder.items(tag, value, ((f"[{i}]", member) for i, member in enumerate(value)), len(value))

    return encode


def _dict(encoder: Encoder, value: Any) -> None:
    # In order: what iterates over a dictionary yields what its order says.
    if _plain(encoder, "dict", value):
        return

    def members() -> Iterable[tuple[str, Any]]:
        for key, member in value.items():
            yield ".key", key
            yield f"[{key!r}]" if type(key) in (str, int) else "[...]", member

    encoder.items("dict", value, members(), len(value))


Handler = Callable[[Encoder, Any], None]

#: By exact type.
HANDLERS: dict[type, Handler] = {
    list: _sequence("list"),
    tuple: _sequence("tuple"),
    dict: _dict,
    set: lambda encoder, value: encoder.unordered("set", value),
    frozenset: lambda encoder, value: encoder.unordered("frozenset", value),
}
#: By what a value is an instance of, first match first; the last is `object`.
FAMILIES: dict[type, Handler] = {}
