"""A stream of tagged, length-prefixed parts, and the leaves that name what was written."""

from __future__ import annotations

import os
import struct
from typing import Any

from prebake.encoding.digests import digest
from prebake.encoding.leaves import LEAF_DIGEST_BYTES, LEAVES_MAX, Leaf, shown
from prebake.runtime.errors import Code, Refused

#: What is stored otherwise than before is of another version.
CODE_CONTEXT = "prebake 2026 python code v3"
LEAF_CONTEXT = "prebake 2026 python leaf v1"

#: Characters of a path in a message.
WHERE_MAX = 300
#: Bytes from which a value is replaced by its digest in the stream, so that an array is not held twice.
INLINE_BYTES_MAX = 4096


class Output:
    """What is written of the object that has a `name`."""

    def __init__(self, name: str) -> None:
        self.out = bytearray()
        self.path: list[str] = [name]
        #: What the part being written is, for leaves: an argument unless something else says so.
        self.kind = "argument"
        self.leaves: list[Leaf] = []
        #: Above 0 where no leaves are named.
        self.quiet = 0

    def where(self) -> str:
        """The path of what is being written."""
        return "".join(self.path)

    @staticmethod
    def place(code: Any) -> str:
        """Where a code object is written."""
        return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"

    def refuse(self, code: Code, reason: str) -> Refused:
        """The refusal of what is being written."""
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

    def leaf(self, start: int, value: Any = object, kind: str = "", location: str = "") -> None:
        """Names what was written from a place on, up to the bound."""
        if self.quiet or len(self.leaves) >= LEAVES_MAX:
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
