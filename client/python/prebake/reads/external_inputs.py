"""What items depend on beside the content of files: objects of a store (`object_store.py`), looks
(`stat_observations.py`) and what `execution/executed.py` tells of: code that ran, and variables.

Among the names of what an item reads, a fact is a text of its own kind. What it shows now is folded into the
item's fingerprint natively; a value is stored only if it was made of what its key says the facts show.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

from prebake.encoding.digests import digest
from prebake.execution.ran_names import is_name, shown
from prebake.reads import object_store
from prebake.reads.stat_observations import Look, is_look

CONTEXT = "prebake 2026 fact v1"


def is_fact(name: Any) -> bool:
    """Whether a name is that of a fact, and not of a file."""
    return object_store.is_object(name) or is_look(name) or is_name(name)


def look(names: Iterable[str], since: float = 0.0) -> None:
    """Has all objects among the names known as they are since then (`time.monotonic`), in bulk."""
    object_store.store.look(filter(object_store.is_object, names), since)


def canonical(name: str) -> str:
    """The name that a record has it by."""
    return object_store.Object.of(name).url if object_store.is_object(name) else name


def shows(name: str) -> str | None:
    """What a fact shows; None if that cannot be known."""
    if is_name(name):
        return shown(name)
    return Look.of(name).shows() if is_look(name) else object_store.store.tag(name)


def tell(items: Any, i: int, names: Sequence[str]) -> None:
    """Says what item i of native items reads: files, and facts as they are now."""
    facts = [name for name in names if is_fact(name)]
    items.set_reads(i, [name for name in names if not is_fact(name)] + tell_facts(items, i, facts))


def tell_facts(items: Any, i: int, facts: Sequence[str]) -> list[str]:
    """Says which facts item i depends on; those files that it reads in place of what is not known."""
    if not facts:
        return []
    look(facts)
    known = _digest({name: shows(name) for name in facts})
    if known is None:
        return [object_store.unknown(facts[0])]
    items.set_objects(i, known)
    return []


def as_told(items: Any, i: int, seen: dict[str, str | None], names: Sequence[str]) -> bool:
    """Whether the facts among the names are as native item i has them, by what computing it saw (`seen`)."""
    facts = [name for name in names if is_fact(name)]
    if not facts:
        return True
    # What was got unheard is asked for again: it was known before, and read in between.
    look([name for name in facts if canonical(name) not in seen], time.monotonic())
    now = {name: seen[canonical(name)] if canonical(name) in seen else shows(name) for name in facts}
    return bool(items.objects(i) == _digest(now))


def mixed(collection: Any, root: str | None, paths: Sequence[str], objects: dict[int, str]) -> Any:
    """The native items of paths of which those in `objects` are URLs."""
    own = digest(CONTEXT, b"")
    items = collection.named(root or os.sep, [(own, path) for path in paths], unread=False)
    look(objects.values())
    for i, path in enumerate(paths):
        tell(items, i, [path])
    return items


def _digest(shown: dict[str, str | None]) -> bytes | None:
    """A digest of facts by what they show; None if one is not known."""
    if None in shown.values():
        return None
    lines = [f"{canonical(name)} {each}" for name, each in shown.items()]
    return digest(CONTEXT, "\n".join(lines).encode("utf-8", "surrogatepass"))
