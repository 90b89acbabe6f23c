"""Named parts of an identity, beside its digest: what `explain` compares to say which one changed.

They are never part of the digest, and bounded: what is beyond is one leaf.
"""

from __future__ import annotations

from typing import Any, NamedTuple

#: Leaves of one operator: pipelines have a few dozen, and a reader looks at the first that differs.
LEAVES_MAX = 512
#: Bytes of a leaf's digest: two leaves of one name are compared, nothing is looked up by it.
LEAF_DIGEST_BYTES = 16
#: Characters of a value that is shown.
SHOWN_MAX = 200
#: Members of a container that are shown, and that may be leaves of their own.
MEMBERS_MAX = 32

_SIMPLE = (bool, int, float, complex, str, bytes, type(None))
_CONTAINERS = (list, tuple, dict, set, frozenset)


class Leaf(NamedTuple):
    """A part of an identity."""

    #: Where it is: `size`, `-> helper -> WIDTH`, `[env] NAME`, `package numpy`.
    path: str
    #: code, argument, closure, default, global, version or environment.
    kind: str
    digest: bytes
    #: The value, if it is a simple one.
    shown: str = ""
    #: `file.py:line`, of code.
    location: str = ""


def shown(value: Any, deep: int = 2) -> str:
    """A simple value in words, or nothing."""
    kind = type(value)
    if kind in (str, bytes):
        text = repr(value[:SHOWN_MAX])
    elif issubclass(kind, type):
        text = f"{value.__module__}.{value.__qualname__}"
    elif kind is int and value.bit_length() > 4 * SHOWN_MAX:
        return ""
    elif kind in _SIMPLE:
        text = repr(value)
    elif kind in _CONTAINERS and len(value) <= MEMBERS_MAX and deep:
        members = [shown(member, deep - 1) for member in value]
        if kind is dict:
            members = [
                f"{key}: {shown(each, deep - 1)}" for key, each in zip(members, value.values(), strict=True)
            ]
        elif kind in (set, frozenset):
            members.sort()
        if not all(members):
            return ""
        text = f"{'([{'[_BRACKET[kind]]}{', '.join(members)}{')]}'[_BRACKET[kind]]}"
    else:
        return ""
    return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 3] + "..."


_BRACKET = {tuple: 0, list: 1, dict: 2, set: 2, frozenset: 2}
