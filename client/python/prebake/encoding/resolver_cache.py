"""What OmegaConf keeps of its resolvers, as the time that Hydra's `now` gave: it counts where a text of the
configuration can ask for it, and is another in each process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def without_unasked(fields: dict[str, Any]) -> dict[str, Any]:
    """A container's fields, without what is kept of resolvers that none of its texts can name."""
    metadata = fields.get("_metadata")
    kept = getattr(metadata, "resolver_cache", None)
    if not isinstance(kept, dict) or not kept:
        return fields
    asking = [text for text in _texts(fields.get("_content")) if "${" in text and ":" in text]
    # A resolver's name may itself be looked up.
    is_any = any(text.count("${") > 1 for text in asking)
    asked = {name: values for name, values in kept.items() if is_any or any(name in text for text in asking)}
    return {**fields, "_metadata": {**vars(metadata), "resolver_cache": asked}}


def _texts(content: Any) -> Iterator[str]:
    pending = [content]
    while pending:
        each = pending.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            pending += each.values()
        elif isinstance(each, list):
            pending += each
        else:
            # A node: a container's content, or a value.
            held = getattr(each, "__dict__", {})
            pending += [held[name] for name in ("_content", "_val") if held.get(name) is not None]
