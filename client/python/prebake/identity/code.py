"""Fingerprints of Python objects: the identity of a transform is what it does and what it holds.

Nothing is pickled, and no `repr` is trusted. What cannot be known is refused (`Refused`), naming where it was
met.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

from prebake.encoding.deep import DeepEncoder
from prebake.encoding.digests import digest
from prebake.encoding.encoder import FAMILIES, HANDLERS, Encoder
from prebake.encoding.instances import encode
from prebake.encoding.leaves import LEAF_DIGEST_BYTES, LEAVES_MAX, Leaf
from prebake.encoding.output import CODE_CONTEXT
from prebake.encoding.process_environment import surround
from prebake.encoding.watch import Watch
from prebake.execution.reached import Reached
from prebake.identity import class_identity
from prebake.identity.functions import CODE_FAMILIES, CODE_HANDLERS
from prebake.purity import assigned
from prebake.runtime import describe
from prebake.runtime.errors import Code, Refused

HANDLERS.update(CODE_HANDLERS)
FAMILIES.update({type: class_identity.encode, **CODE_FAMILIES, object: encode})


class Identity(NamedTuple):
    """What something is: its digest, the distributions it relies on with their versions, and its named
    parts.
    """

    digest: bytes
    packages: dict[str, str]
    leaves: list[Leaf] = []  # noqa: RUF012
    #: Files whose content is a part of it.
    files: tuple[str, ...] = ()
    #: What it calls that opens files in compiled code.
    unheard: tuple[str, ...] = ()
    #: Whether files are seen to be opened whose names are not written in the code: what functions keep that
    #: it reached may be of one.
    opens: bool = False
    #: Code and variables that are a part of it.
    reached: Reached = Reached()  # noqa: RUF012


def fingerprint(value: object) -> str:
    """The identity of a function, transform or value: what it does and what it holds.

    By itself: nothing is computed after it that would show what a value depends on, so that more is refused,
    and more counts, than where elements are made.

    Parameters
    ----------
    value
        Any object.

    Returns
    -------
    str
        64 hex digits: equal in every process for what is the same.

    Raises
    ------
    Refused
        If it cannot be known what the value is.

    Examples
    --------
    >>> import prebake
    >>> def doubled(x: int) -> int:
    ...     return x * 2
    >>> len(prebake.fingerprint(doubled))
    64
    >>> prebake.fingerprint([1, 2]) == prebake.fingerprint([1, 2])
    True
    """
    return identify(value, by_itself=True).digest.hex()


def identify(
    value: Any,
    name: str = "it",
    watch: Watch | None = None,
    arguments: Mapping[str, Any] | None = None,
    by_itself: bool = False,
    has_run: bool = False,
) -> Identity:
    """The identity of a value; `name` is what a refusal calls it, and `watch` is told what else is read for
    it. `arguments` are those that a function is to be called with: they are no part of it, but say whether
    what it draws has a seed. `by_itself`, nothing else will tell what it depends on; if it `has_run`, what it
    drew from generators that are watched was seen. Raises `Refused`, and nothing else.
    """
    called = value.__func__ if type(value) is types.MethodType else value
    try:
        return _identify(Encoder(name, watch, called, arguments, by_itself, has_run), value, name)
    except RecursionError:
        pass
    # Rare: a pipeline is some ten levels deep.
    try:
        return _identify(DeepEncoder(name, watch, called, arguments, by_itself, has_run), value, name)
    except RecursionError:
        why = f"{name} is nested too deeply, or its own code recurses without end when it is looked at"
        raise Refused(Code.TOO_LARGE, why) from None


def _identify(encoder: Encoder, value: Any, name: str) -> Identity:
    encoder.emit("interpreter", (sys.implementation.cache_tag or sys.version).encode())
    try:
        start = len(encoder.out)
        encoder.value(value)
        if not encoder.leaves:
            encoder.leaf(start, value)
        class_identity.settle(encoder)
        encoder.path = [name]
        surround(encoder, assigned.write)
    except (Refused, RecursionError):
        raise
    except Exception as error:
        # An odd object can raise anything when looked at.
        said = f"cannot be looked at: {type(error).__name__}: {error}"
        raise encoder.refuse(Code.OPAQUE, said) from error
    encoder.reached.variables = frozenset(encoder.variables)
    whole = digest(CODE_CONTEXT, encoder.out)
    if len(encoder.leaves) >= LEAVES_MAX:
        # One leaf stands for the rest.
        encoder.leaves[-1] = Leaf("...", "argument", whole[:LEAF_DIGEST_BYTES])
    return Identity(
        whole,
        dict(sorted(encoder.packages.items())),
        encoder.leaves,
        tuple(encoder.files),
        tuple(sorted(encoder.unheard)),
        encoder.opens,
        encoder.reached,
    )


describe.made_by(identify)
