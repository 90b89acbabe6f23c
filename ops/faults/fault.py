"""A fault of the operating system, as it is put under a daemon."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from daemon import FaultDaemon


@dataclass(frozen=True)
class Around:
    """What a trial needs around it."""

    #: Before the daemon's command.
    prefix: str = ""
    #: Variables of the jobs.
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fault:
    """A fault and what is known of the daemon's answer to it."""

    name: str
    put: Callable[[FaultDaemon], AbstractContextManager[None]]
    #: The daemon starts anew before it: it then reads from disk what jobs want.
    cold: bool = False
    around: Callable[[Path], AbstractContextManager[Around]] | None = None
    #: Why it cannot be put here; empty if it can.
    missing: Callable[[], str] = lambda: ""
    #: One of the quick half.
    quick: bool = False
    #: Pipelines that fill the disk beside those of every fault.
    more: int = 0
    #: The daemon notices nothing, and has nothing to say.
    silent: bool = False
    #: A disk that failed is not written to before a restart. After other faults the daemon works at once.
    restart: bool = False
