"""A pipeline described once while the package is imported, where a job expects to wait.

Half of what a process's first description takes is bringing code into memory and asking what is installed.
Done here it is some percent of the import, and no part of the time to the first batch. Nothing of the user's
is opened or run: what is described is a step that nobody calls.
"""

from __future__ import annotations

import contextlib
import sys
import types
from pathlib import Path
from typing import Any

from prebake import tripwire
from prebake._job import native
from prebake.wrap import wrap

SHAPE = (2, 2)


def _step(path: str) -> Any:
    """What many first steps do."""
    size = len(Path(path).read_bytes())
    return np.full(SHAPE, size, np.uint8).astype(float)  # type: ignore[name-defined]  # noqa: F821


def rehearse() -> None:
    """Describes a step, and looks at the generators. Whatever comes of it, the import goes on."""
    if native() is not None:
        with contextlib.suppress(Exception):
            _described()
            tripwire.state()


def _described() -> str:
    """The identity of a pipeline of one step, which is taken for the user's own."""
    space = {"__name__": "__main__", "Path": Path, "SHAPE": SHAPE, "len": len}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        space["np"] = numpy
    made: str = wrap([__file__], [types.FunctionType(_step.__code__, space)])._pipeline.identity()
    return made
