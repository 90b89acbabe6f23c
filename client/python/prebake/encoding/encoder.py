"""The encoding that fingerprints are digests of.

A stream of tagged, length-prefixed parts, so that no two objects share one by accident; it depends on no hash
seed, address, file name or line number. Functions, classes and instances are numbered when first met and
referred to by number from then on: cycles end, and the work is linear. Lists, tuples and dictionaries are
written out each time, since equal ones are the same value.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from prebake.bytecode.callers import Callers
from prebake.encoding.addresses import without
from prebake.encoding.leaves import LEAF_DIGEST_BYTES, LEAVES_MAX, MEMBERS_MAX, Leaf, shown
from prebake.encoding.namespaces import Asked, Held
from prebake.encoding.watch import COMPARED, Watch
from prebake.known.lookup import public, verdict_of
from prebake.runtime import packages
from prebake.runtime.daemon import native
from prebake.runtime.errors import Code, Refused
from prebake.world.executed import Reached

CODE_CONTEXT = "prebake 2026 python code v2"
LEAF_CONTEXT = "prebake 2026 python leaf v1"

#: Values in one fingerprint. A vocabulary of a million words fits; a data set in a closure should be a file.
VALUES_MAX = 4_000_000
#: Characters of a path in a message.
WHERE_MAX = 300
#: Bytes from which what is written of a container is kept for its next mention.
SHARED_BYTES_MIN = 256
#: Members from which a container is hashed natively, if it holds nothing but numbers and text.
PLAIN_MIN = 64
#: Bytes from which a value is replaced by its digest in the stream, so that an array is not held twice.
INLINE_BYTES_MAX = 4096
ENVIRONMENT = "reads the environment, which is no part of its identity; pass the value as a parameter"


def digest(context: str, data: Any) -> bytes:
    """BLAKE3-256 under a context. Without the native module nothing is stored, and any digest will do."""
    module = native()
    if module is not None:
        return module.digest(context, data)
    return hashlib.blake2b(data, digest_size=32, key=context.encode()).digest()


class Encoder:
    def __init__(
        self,
        name: str,
        watch: Watch | None = None,
        called: Any = None,
        arguments: Mapping[str, Any] | None = None,
        by_itself: bool = False,
        has_run: bool = False,
    ) -> None:
        #: Whether nothing is computed after it.
        self.by_itself = by_itself
        #: Whether it is looked at because it ran.
        self.has_run = has_run
        #: The function that is called, and its arguments by parameter, where both are known.
        self.called = called
        self.arguments = arguments or {}
        #: What else it reads.
        self.watch = watch or Watch()
        self.out = bytearray()
        self.packages: dict[str, str] = {}
        #: Packages of the standard library that it takes something from.
        self.standard: set[str] = set()
        self.path: list[str] = [name]
        #: What the part being written is, for leaves: an argument unless something else says so.
        self.kind = "argument"
        self.leaves: list[Leaf] = []
        #: Names in the code written so far, and of attributes from which that code takes an order.
        self.names: set[str] = set()
        self.ordered: set[str] = set()
        #: What code asks of configurations, and what the code that makes objects of a class (by its id) does.
        self.asked = Asked()
        self.making: dict[int, Asked] = {}
        #: Configurations that it met, whose fields are written once all code is.
        self.namespaces: list[Held] = []
        #: Who calls whom, of what needs a seed.
        self.callers = Callers()
        #: Methods that would be refused if anything called them.
        self.pending: list[Pending] = []
        #: Classes that code itself may make instances of, by id.
        self.constructed: set[int] = set()
        #: Whether code asks its own objects for attributes by computed names.
        self.computed = False
        #: Environment variables and files whose content counts.
        self.variables: dict[str, str | None] = {}
        self.files: dict[str, bytes | None] = {}
        #: What code calls that opens files unheard, and whether it opens any whose names are not written in
        #: it.
        self.unheard: set[str] = set()
        self.opens = False
        #: Functions that keep what they returned.
        self.memos: list[Any] = []
        #: Code that is a part of it.
        self.reached = Reached()
        #: Above 0 within what installed code made.
        self.made_installed = 0
        #: Above 0 within what its user vouches for: its code is not judged.
        self.trusted = 0
        self._left = VALUES_MAX
        self._quiet = 0
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

    def where(self) -> str:
        return "".join(self.path)

    @staticmethod
    def place(code: Any) -> str:
        return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"

    def refuse(self, code: Code, reason: str) -> Refused:
        where = self.where()
        if len(where) > WHERE_MAX:
            where = f"{where[: WHERE_MAX // 2]}...{where[-WHERE_MAX // 2 :]}"
        return Refused(code, f"{where} {reason}")

    def emit(self, tag: str, data: Any = b"") -> None:
        """One part: tag, then its bytes or their digest, both with their lengths."""
        if len(data) > INLINE_BYTES_MAX:
            tag, data = f"{tag} {len(data)}", digest(CODE_CONTEXT, data)
        name = tag.encode()
        self.out += struct.pack(">BQ", len(name), len(data)) + name + bytes(data)

    def text(self, tag: str, *texts: str) -> None:
        """A part that holds strings; surrogates (undecodable file names) differ from every valid text."""
        self.emit(
            tag,
            b"".join(
                struct.pack(">Q", len(e)) + e for e in (t.encode("utf-8", "surrogatepass") for t in texts)
            ),
        )

    def member(self, step: str, value: Any, kind: str | None = None) -> None:
        """A value under a name that a refusal and a leaf can show."""
        cls = type(value)
        if cls not in _SCALARS and (cls is types.FunctionType or issubclass(cls, type)):
            self._handed_on(step, value)
        start, known, outer = len(self.out), len(self.leaves), self.kind
        self.path.append(step)
        self.kind = kind or outer
        self.value(value)
        if known == len(self.leaves) and step != ".key" and start < len(self.out) and not self._quiet:
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

    def leaf(self, start: int, value: Any = object, kind: str = "", location: str = "") -> None:
        """Names what was written from a place on, up to the bound."""
        if self._quiet or len(self.leaves) >= LEAVES_MAX:
            return
        path = "".join(self.path[1:]).strip().lstrip(".") or "itself"
        text = "" if value is object else shown(value)
        digest_of = digest(LEAF_CONTEXT, bytes(self.out[start:]))[:LEAF_DIGEST_BYTES]
        self.leaves.append(Leaf(path[:WHERE_MAX], kind or self.kind, digest_of, text, location))

    def again(self, written: bytes, leaf: Leaf) -> None:
        """Writes what was written before, and its leaf."""
        self.out += written
        if len(self.leaves) < LEAVES_MAX:
            self.leaves.append(leaf)

    def variable(self, name: str) -> None:
        """An environment variable that code reads by its name: its value counts."""
        if not self.variables:
            self.watch.variables()
        if name not in self.variables:
            self.variables[name] = os.environ.get(name)

    def file(self, path: str) -> None:
        """A file that code reads by a name written in it: its content counts."""
        self.watch.is_loose = True
        if path not in self.files:
            if os.path.exists(path) and not os.path.isfile(path):
                code = Code.RANDOM if path in SYSTEM_RANDOM else Code.UNDECLARED
                raise self.refuse(code, f"reads {path}, which is no file")
            self.files[path] = content(path)

    def look(self, path: str) -> None:
        """The same of what may be no file, as far as that can be known."""
        self.watch.is_loose = True
        if os.path.isdir(path):
            self.files.setdefault(path, b"folder")
        else:
            self.file(path)

    def value(self, value: Any) -> None:
        """Any value, by its exact type first, then by what it is an instance of."""
        self._left -= 1
        if self._left < 0:
            raise self.refuse(
                Code.TOO_LARGE, f"holds more than {VALUES_MAX} values; put them in a file and read it"
            )
        kind = type(value)
        scalar = _SCALARS.get(kind)
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
        self._quiet += quiet
        for step, member in members:
            self.member(step, member)
        self._quiet -= quiet
        if tag in ("list", "tuple") and all(type(each) in _SCALARS for each in value):
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
        outer, digests = self.out, []
        self._quiet += 1
        self._sets += 1
        for member in members:
            mark = len(self._numbers)
            self.out = bytearray()
            self.member("{...}", member)
            digests.append(digest(CODE_CONTEXT, bytes(self.out)))
            self._forget(mark)
        self._quiet -= 1
        self._sets -= 1
        self.out = outer
        self.emit(tag, b"".join(sorted(digests)))

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

    def named(self, owner: packages.Owner, module: str, qualname: str) -> None:
        """Installed code: fully known by its name and its distribution's version."""
        if qualname:
            verdict = verdict_of(f"{public(module)}.{qualname}")
            if isinstance(verdict, Code) and not self.trusted:
                raise self.refuse(
                    verdict, f"uses {module}.{qualname}, which is no function of its arguments alone"
                )
        self.packages[owner.name] = owner.version
        if owner is packages.PYTHON:
            self.standard.add(module.partition(".")[0])
        self.text("installed", owner.name, owner.version, module, qualname)


#: What the system draws random numbers from.
SYSTEM_RANDOM = frozenset({"/dev/random", "/dev/urandom"})


def _is_method(function: types.FunctionType, step: str) -> bool:
    """Whether a function that is met at a step is of a class there."""
    return (
        step == f".{function.__name__}"
        and function.__qualname__.endswith(step)
        and not (function.__qualname__.endswith(f"<locals>{step}"))
    )


class Pending(NamedTuple):
    """A method that would be refused if anything called it."""

    cls: type
    name: str
    refused: Refused


def content(path: str) -> bytes | None:
    """Digest of a file's content; None if it cannot be read. Devices and pipes may have no end."""
    module = native()
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        if module is not None:
            return module.hash_file(path)
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "blake2b").digest()[:32]
    except (OSError, ValueError):
        return None
    except Exception as error:
        if type(error).__name__ != "Error":
            raise
        return None


def _packed(tag: str, form: str) -> Callable[[Any], tuple[str, bytes]]:
    return lambda value: (tag, struct.pack(form, value))


_SCALARS: dict[type, Callable[[Any], tuple[str, bytes]]] = {
    type(None): lambda _: ("none", b""),
    type(...): lambda _: ("ellipsis", b""),
    type(NotImplemented): lambda _: ("not implemented", b""),
    bool: lambda v: ("bool", b"\x01" if v else b"\x00"),
    int: lambda v: ("int", b"%d" % v if -(1 << 63) <= v < 1 << 63 else hex(v).encode()),
    float: _packed("float", ">d"),
    complex: lambda v: ("complex", struct.pack(">dd", v.real, v.imag)),
    str: lambda v: ("str", v.encode("utf-8", "surrogatepass")),
    bytes: lambda v: ("bytes", v),
    bytearray: lambda v: ("bytearray", memoryview(v)),
}
#: Of those, what never changes.
FIXED = frozenset(_SCALARS) - {bytearray}


def _plain(encoder: Encoder, tag: str, value: Any) -> bool:
    """Writes a large container of numbers and text by one native digest; whether it is one."""
    if len(value) < PLAIN_MIN:
        return False
    module = native()
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
