"""Fingerprints of Python objects: the identity of a transform is what it does and what it holds.

Nothing is pickled, and no `repr` is trusted. What cannot be known is refused (`Refused`), naming where it was
met.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from prebake.encoder import CODE_CONTEXT, FAMILIES, HANDLERS, Encoder, digest
from prebake.errors import Code, Refused
from prebake.functions import CODE_FAMILIES, CODE_HANDLERS, settle
from prebake.instances import encode
from prebake.leaves import Leaf
from prebake.surroundings import surround

HANDLERS.update(CODE_HANDLERS)
FAMILIES.update({**CODE_FAMILIES, object: encode})


class Identity(NamedTuple):
    """What something is: its digest, the distributions it relies on with their versions, and its named parts."""

    digest: bytes
    packages: dict[str, str]
    leaves: list[Leaf] = []  # noqa: RUF012


def fingerprint(value: Any) -> str:
    """The identity of a function, transform or value: 64 hex digits. Raises `Refused` if it is unknowable."""
    return identify(value).digest.hex()


def identify(value: Any, name: str = "it") -> Identity:
    """The identity of a value; `name` is what a refusal calls it."""
    encoder = Encoder(name)
    encoder.emit("interpreter", (sys.implementation.cache_tag or sys.version).encode())
    try:
        start = len(encoder.out)
        encoder.value(value)
        if not encoder.leaves:
            encoder.leaf(start, value)
    except RecursionError:
        raise Refused(Code.TOO_LARGE, f"{encoder.where()[:200]} is nested too deeply") from None
    settle(encoder)
    encoder.path = [name]
    surround(encoder)
    return Identity(
        digest(CODE_CONTEXT, encoder.out), dict(sorted(encoder.packages.items())), encoder.leaves
    )
