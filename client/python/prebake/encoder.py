"""The encoding that fingerprints are digests of.

A stream of tagged, length-prefixed parts, so that no two objects share one by accident; it depends on no hash
seed, address, file name or line number. Functions, classes and instances are numbered when first met and
referred to by number from then on: cycles end, and the work is linear. Lists, tuples and dictionaries are
written out each time, since equal ones are the same value.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable
from typing import Any

from prebake import packages
from prebake._job import native
from prebake.errors import Code, Refused

CODE_CONTEXT = "prebake 2026 python code v1"

#: Values in one fingerprint. A vocabulary of a million words fits; a data set in a closure should be a file.
VALUES_MAX = 4_000_000
#: Bytes from which a value is replaced by its digest in the stream, so that an array is not held twice.
INLINE_BYTES_MAX = 4096
#: Modules of Python itself whose use makes a function random.
RANDOM_MODULES = frozenset({"random", "secrets"})
#: What of the module `os` is the environment, which differs from job to job.
ENVIRONMENT_NAMES = frozenset({"environ", "environb", "getenv", "getenvb"})
ENVIRONMENT = "reads the environment, which is no part of its identity; pass the value as a parameter"


def digest(context: str, data: bytes) -> bytes:
    """BLAKE3-256 under a context. Without the native module nothing is stored, and any digest will do."""
    module = native()
    if module is not None:
        return module.digest(context, data)
    return hashlib.blake2b(data, digest_size=32, key=context.encode()).digest()


class Encoder:
    def __init__(self, name: str) -> None:
        self.out = bytearray()
        self.packages: dict[str, str] = {}
        self.path: list[str] = [name]
        self._left = VALUES_MAX
        #: Numbered objects by id; each is kept alive so that its id stays its own.
        self._numbers: dict[int, tuple[int, Any]] = {}
        #: Containers being written, by id.
        self.open: dict[int, int] = {}

    def where(self) -> str:
        return "".join(self.path)

    def refuse(self, code: Code, reason: str) -> Refused:
        return Refused(code, f"{self.where()} {reason}")

    def emit(self, tag: str, data: bytes = b"") -> None:
        """One part: tag, then its bytes or their digest, both with their lengths."""
        if len(data) > INLINE_BYTES_MAX:
            tag, data = f"{tag} {len(data)}", digest(CODE_CONTEXT, data)
        name = tag.encode()
        self.out += struct.pack(">BQ", len(name), len(data)) + name + data

    def text(self, tag: str, *texts: str) -> None:
        """A part that holds strings; surrogates (undecodable file names) differ from every valid text."""
        self.emit(
            tag,
            b"".join(
                struct.pack(">Q", len(e)) + e for e in (t.encode("utf-8", "surrogatepass") for t in texts)
            ),
        )

    def member(self, step: str, value: Any) -> None:
        """A value under a name that a refusal can show."""
        self.path.append(step)
        self.value(value)
        self.path.pop()

    def value(self, value: Any) -> None:
        """Any value, by its exact type first, then by what it is an instance of."""
        self._left -= 1
        if self._left < 0:
            raise self.refuse(
                Code.TOO_LARGE, f"holds more than {VALUES_MAX} values; put them in a file and read it"
            )
        kind = type(value)
        scalar = _SCALARS.get(kind)
        if scalar is not None:
            self.emit(*scalar(value))
            return
        seen = self._numbers.get(id(value))
        if seen is not None:
            self.emit("seen", str(seen[0]).encode())
            return
        handler = HANDLERS.get(kind) or next(h for base, h in FAMILIES.items() if isinstance(value, base))
        handler(self, value)

    def number(self, value: Any) -> None:
        """Numbers an object that is written now, so that later mentions refer to it."""
        self._numbers[id(value)] = (len(self._numbers), value)

    def items(self, tag: str, value: Any, members: Iterable[tuple[str, Any]], count: int) -> None:
        """The members of a container, in order. A container inside itself is written as its depth."""
        depth = self.open.get(id(value))
        if depth is not None:
            self.emit("inside", str(depth).encode())
            return
        self.open[id(value)] = len(self.open)
        self.emit(tag, str(count).encode())
        for step, member in members:
            self.member(step, member)
        del self.open[id(value)]

    def unordered(self, tag: str, members: Iterable[Any]) -> None:
        """Members in the order of their digests. Each sees only the numbers known before the set."""
        outer, digests = self.out, []
        for member in members:
            numbers, self.out = dict(self._numbers), bytearray()
            self.member("{...}", member)
            digests.append(digest(CODE_CONTEXT, bytes(self.out)))
            self._numbers = numbers
        self.out = outer
        self.emit(tag, b"".join(sorted(digests)))

    def named(self, owner: packages.Owner, module: str, qualname: str) -> None:
        """Installed code: fully known by its name and its distribution's version."""
        if owner is packages.PYTHON and module.partition(".")[0] in RANDOM_MODULES:
            raise self.refuse(
                Code.RANDOM, f"uses {module}.{qualname}; mark the transform with prebake.random()"
            )
        if owner is packages.PYTHON and module == "os" and qualname in ENVIRONMENT_NAMES:
            raise self.refuse(Code.ENVIRONMENT, ENVIRONMENT)
        self.packages[owner.name] = owner.version
        self.text("installed", owner.name, owner.version, module, qualname)


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
    bytearray: lambda v: ("bytearray", bytes(v)),
}


def _sequence(tag: str) -> Callable[[Encoder, Any], None]:
    def encode(encoder: Encoder, value: Any) -> None:
        encoder.items(tag, value, ((f"[{i}]", member) for i, member in enumerate(value)), len(value))

    return encode


def _dict(encoder: Encoder, value: Any) -> None:
    # In order: what iterates over a dictionary yields what its order says.
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
