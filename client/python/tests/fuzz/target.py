"""What edits are made to."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

Kind = TypeVar("Kind")


@dataclasses.dataclass
class Target:
    """The data set as the user made it, its steps and its files; `file` is drawn anew for each edit."""

    raw: Any
    steps: list[Any]
    folder: Path
    files: list[Path]
    file: Path
    numbers: random.Random

    def steps_of(self, kind: type[Kind]) -> Iterator[Kind]:
        return (step for step in self.steps if isinstance(step, kind))
