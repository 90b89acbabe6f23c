"""What code may set for the whole process."""

from __future__ import annotations

import sys

from prebake.world import ambient
from prebake.world.parts import folder
from prebake.world.world import NAMED_MAX, World, current, variables_now


class Switches:
    """What code may set for the whole process, as it is when this is made: a look that costs some 50 us."""

    def __init__(self) -> None:
        self._modules = len(sys.modules)
        self._seen = variables_now(), folder(), ambient.Seen()

    def changed(self, before: World | None) -> str:
        """What was set since, in words, by comparing with the world before; empty if nothing that is known
        of. Packages set what they like when they are imported, once in a process: then only what was there
        before them counts."""
        if before is None or self._seen == (variables_now(), folder(), ambient.Seen()):
            return ""
        after = current()
        if after is None:
            return ""
        counts = _SWITCHES if len(sys.modules) == self._modules else _INTERPRETERS
        names = sorted(name for name in {*before.parts, *after.parts} if name.startswith(counts))
        return ", ".join(
            [name for name in names if before.parts.get(name) != after.parts.get(name)][:NAMED_MAX]
        )


#: Parts of a world that code may set while it runs; of them, those that no package's import sets.
_SWITCHES = ("setting ", "variable ", "working folder", "locale")
_INTERPRETERS = (
    *("setting interpreter", "setting contexts", "setting dialects", "setting locale"),
    *("working folder", "locale"),
)
