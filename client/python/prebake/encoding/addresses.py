"""Numbers of one process that stand for something which is known: the address of an object, an object's hash.

Installed code keeps these to know an object again: pydantic in the names of schemas, scikit-learn beside
its stop words. Where they stand for an object that is written itself, that is written in their place. Only
in what installed code made: what the user's own code does with such a number may depend on it.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Mapping
from typing import Any

from prebake.runtime import packages

#: A name and an address in decimal, as `module.Class:94348048127504`.
_NAMED = re.compile(r"([\w.]*):(\d{9,20})")


def without(text: str, numbers: Mapping[int, tuple[int, Any]]) -> str:
    """A text with the numbers that objects were given in the place of their addresses; those by id are in
    `numbers`, and what an address's name stands for needs none."""

    def known(match: re.Match[str]) -> str:
        name, address = match[1], int(match[2])
        if address in numbers:
            return f"{name}:#{numbers[address][0]}"
        return f"{name}:#" if id(_found(name)) == address else match[0]

    return _NAMED.sub(known, text) if ":" in text else text


def _found(name: str) -> Any:
    """What a dotted name stands for: in builtins, or in the module that the most of it names."""
    module, parts = name, list[str]()
    while module and module not in sys.modules:
        module, _, part = module.rpartition(".")
        parts.insert(0, part)
    return packages.resolve(module or builtins.__name__, ".".join(parts)) if parts else None


def without_memos(fields: dict[str, Any], of: Any) -> dict[str, Any]:
    """An installed object's fields, without what it keeps of its own hash, and with names for the addresses
    of other fields."""
    if not any(type(each) is int and abs(each) > SMALL for each in fields.values()):
        return fields
    by_id = {id(each): name for name, each in fields.items()}
    kept = dict(fields)
    for name, each in fields.items():
        if type(each) is not int or abs(each) <= SMALL:
            continue
        if each in by_id:
            kept[name] = (..., "address of", by_id[each])
        elif _is_private_hash(name) and len(fields) > 1 and _hash(of) == each:
            # A public one may be all that it is.
            del kept[name]
    return kept


def _is_private_hash(name: str) -> bool:
    # Of slots the class's name comes first.
    own = name.rpartition(".")[2]
    return own.startswith("_") and "hash" in own


def _hash(of: Any) -> int | None:
    try:
        return hash(of)
    except Exception:
        return None


#: Smaller numbers are no addresses, and hardly hashes.
SMALL = 1 << 32
