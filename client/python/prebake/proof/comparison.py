"""What is stored of an item, compared with what it is when it is computed here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from prebake.codec import values
from prebake.compute.computation import Computation
from prebake.compute.restart_signals import Restart, Tripped
from prebake.encoding.digests import digest
from prebake.proof.variants import CONTEXT
from prebake.proof.verify import Verifier, difference
from prebake.purity import tripwire
from prebake.runtime.refusals import not_cached


def encoded_digest(layout: str, *parts: Any) -> bytes:
    """The digest of an element."""
    return digest(CONTEXT, b"".join([layout.encode(), b"\0", *map(bytes, parts)]))


def element_digest(value: Any) -> bytes:
    """The digest of a value as an element; empty if it cannot be one."""
    try:
        encoded = values.encode(value)
        return encoded_digest(encoded.layout, *encoded.parts)
    except Exception:
        return b""


class Other(NamedTuple):
    """What an item is here, which is not what is stored, and how it differs."""

    value: Any
    how: str


def compare(
    verifier: Verifier,
    items: Any,
    i: int,
    computation: Computation,
) -> Other | bool | None:
    """Computes item i again and compares it with what is stored: whether it is equal, or what it is; None if
    it could not be told (it fails, or its input changed meanwhile).

    Raises `Tripped` as a lease run does, with the generators at where they were.
    """
    given, found = items.input(i), items.stored(i)
    if given is None or found is None:
        return None
    stored, layout = found
    if not verifier.proves(stored, layout):
        return None
    before = tripwire.state()
    try:
        value = verifier.compute(i)
        how = verifier.differs(value, layout, stored)
    except Restart:
        tripwire.restore(before)
        raise
    except Exception:
        # It raises again when its turn comes.
        tripwire.restore(before)
        return None
    drawn = tripwire.moved(before)
    by = computation.culprit(i) if drawn is not None else None
    if by is not None:
        raise Tripped(drawn or "", before, by)
    # What is equal is served after the same look as any other hit; what differs has to be what was opened.
    if items.input(i) != given or not computation.is_unchanged(how is not None):
        return None
    return True if how is None else Other(value, how)


def is_steady(verifier: Verifier, i: int, other: Other) -> bool:
    """Whether an item that is not what is stored is at least the same twice: else no world is to blame."""
    before = tripwire.state()
    try:
        again, once = values.encode(verifier.again(i)), values.encode(other.value)
        return difference(once, again, verifier.tolerance()) is None
    except Exception:
        return False
    finally:
        if tripwire.moved(before) is not None:
            tripwire.restore(before)


def decoded(items: Any, i: int) -> Iterator[Any]:
    found = items.stored(i)
    if found is not None:
        try:
            yield values.decode(found[1], found[0])
        except Exception as error:
            # The class that it is of may be another one here.
            not_cached(error)
