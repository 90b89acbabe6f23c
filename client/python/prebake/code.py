"""Fingerprints of Python objects: the identity of a transform is what it does and what it holds.

Nothing is pickled, and no `repr` is trusted. What cannot be known is refused (`Refused`), naming where it was
met.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from prebake.encoder import CODE_CONTEXT, FAMILIES, HANDLERS, Encoder, digest
from prebake.errors import Code, Refused
from prebake.functions import CODE_FAMILIES, CODE_HANDLERS
from prebake.instances import encode

HANDLERS.update(CODE_HANDLERS)
FAMILIES.update({**CODE_FAMILIES, object: encode})


class Identity(NamedTuple):
    """What something is: its digest, and the distributions it relies on with their versions."""

    digest: bytes
    packages: dict[str, str]


def fingerprint(value: Any) -> str:
    """The identity of a function, transform or value: 64 hex digits. Raises `Refused` if it is unknowable."""
    return identify(value).digest.hex()


def identify(value: Any, name: str = "it") -> Identity:
    """The identity of a value; `name` is what a refusal calls it."""
    encoder = Encoder(name)
    encoder.emit("interpreter", (sys.implementation.cache_tag or sys.version).encode())
    try:
        encoder.value(value)
    except RecursionError:
        raise Refused(Code.TOO_LARGE, f"{encoder.where()[:200]} is nested too deeply") from None
    return Identity(digest(CODE_CONTEXT, bytes(encoder.out)), dict(sorted(encoder.packages.items())))
