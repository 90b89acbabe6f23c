"""The programs that come with the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from prebake.runtime.here import HERE


def path(program: str) -> Path:
    """Where a packaged program is."""
    return Path(HERE) / "bin" / program


def prebake() -> NoReturn:
    """The `prebake` command."""
    _run("prebake")


def prebaked() -> NoReturn:
    """The `prebaked` daemon."""
    _run("prebaked")


def _run(program: str) -> NoReturn:
    binary = path(program)
    if not binary.exists():
        sys.exit(f"{program}: this installation has no {binary}; install the wheel for your platform")
    os.execv(binary, [program, *sys.argv[1:]])
