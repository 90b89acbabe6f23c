"""Temporary files and folders that a computation makes and throws away: their names are others each time.

What is written to and read from them is its own. A value must not hold such a name.
"""

from __future__ import annotations

import os
import pickle
from typing import Any

#: Random characters in a name that `tempfile` makes up.
RANDOM_CHARACTERS = 8
#: How texts lie in what is pickled: those of Python, and those in arrays.
_ENCODINGS = ("utf-8", "utf-32-le")


class Temporary:
    """The temporary files and folders of one computation."""

    def __init__(self) -> None:
        self._paths: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._paths)

    def add(self, path: str) -> None:
        """Notes one that is about to be made, under a name that nothing had."""
        self._paths[path] = None

    def merge(self, other: Temporary) -> None:
        self._paths |= other._paths

    def holds(self, path: str) -> bool:
        """Whether a file or folder is one of them, or lies in one."""
        return any(path == each or path.startswith(each + os.sep) for each in self._paths)

    def named_in(self, value: Any) -> str | None:
        """The first of them whose name a value holds. Raises what pickling the value raises."""
        if not self._paths:
            return None
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        for path in self._paths:
            parts = [each for each in os.path.basename(path).split(".") if len(each) >= RANDOM_CHARACTERS]
            if any(part.encode(form, "surrogateescape") in data for part in parts for form in _ENCODINGS):
                return path
        return None
