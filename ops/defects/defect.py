"""Defects put in by hand: what each is, and how it is put into a file and taken out again."""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LIST = Path(__file__).with_name("defects.toml")


class Defect(NamedTuple):
    """One of the list; see there."""

    name: str
    file: str
    old: str
    new: str
    why: str
    tests: str
    #: Its tests run as root alone.
    root: bool = False

    @property
    def is_python(self) -> bool:
        """Whether it is in the package rather than in what is compiled."""
        return self.file.endswith(".py")

    def put_into(self, text: str) -> str:
        """A file's text with the defect. Raises `ValueError` where it is not clear where that belongs."""
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.name}: its old text occurs {found} times in {self.file}")
        return text.replace(self.old, self.new)

    @contextlib.contextmanager
    def within(self, file: Path, is_dated: bool) -> Iterator[None]:
        """A file with the defect, for as long as this lasts. `is_dated` gives it its time back: Python
        compiles anew what has another, and Cargo only what is newer than what was built of it."""
        whole, times = file.read_bytes(), file.stat()
        defective = self.put_into(whole.decode())
        try:
            file.write_text(defective, encoding="utf-8")
            yield
        finally:
            file.write_bytes(whole)
            if is_dated:
                os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def listed() -> list[Defect]:
    """All of them."""
    return [Defect(**each) for each in tomllib.loads(LIST.read_text())["defect"]]
