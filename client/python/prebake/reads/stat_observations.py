"""Looks at files that are not opened (`os.path.exists`, `Path.stat`), and what each showed.

An item that asks whether a file is there is another item once it is. So what was looked at counts like what
was read, as far as it was asked for: whether something is there and of which kind, how large it is, or all
that a stat tells.
"""

from __future__ import annotations

import hashlib
import os
import stat
import types
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

#: How much a look asks for; each is a part of the next.
KIND, SIZE, ALL = "kind", "size", "all"
_DEPTHS = (KIND, SIZE, ALL)
#: What a folder holds, by name and in the order in which it tells them: it was listed.
NAMES = "names"
#: Names in a folder; of one that holds more it is not known.
NAMES_MAX = 65_536
#: Modules whose functions look for others, and what those ask for. All others get all of it.
_ASKERS = frozenset({"genericpath", "posixpath", "pathlib", "pathlib._local", "pathlib._os"})
_ASKED = {
    **dict.fromkeys(("exists", "lexists", "isfile", "isdir", "islink", "realpath"), KIND),
    **dict.fromkeys(("is_file", "is_dir", "is_symlink", "resolve", "mkdir", "expanduser"), KIND),
    "getsize": SIZE,
}
#: What is shown where nothing is.
ABSENT = "absent"
#: The machine's own, which items do not depend on.
_SYSTEM = ("/dev/", "/proc/", "/sys/")
#: But this is a folder like any other.
_MEMORY = "/dev/shm/"
_PREFIX = "look:"


class Look(NamedTuple):
    """What was asked of a path. As text it stands among the names of files that an item reads."""

    depth: str
    path: str

    @classmethod
    def of(cls, text: str) -> Look:
        """What `text` stands for."""
        _, depth, path = text.split(":", 2)
        return cls(depth, path)

    @property
    def text(self) -> str:
        return f"{_PREFIX}{self.depth}:{self.path}"

    def is_shown_by(self, files: Collection[str], facts: Collection[str]) -> bool:
        """Whether it asks for no more than the content of files, or other facts, already tell."""
        if self.depth == NAMES:
            return self.text in facts
        if self.depth != ALL and os.path.abspath(self.path) in files:
            return True
        return any(self._replace(depth=more).text in facts for more in _DEPTHS[_DEPTHS.index(self.depth) :])

    def shows(self) -> str | None:
        """What it shows now; None if that cannot be known."""
        if self.depth == NAMES:
            return listing(self.path)
        link = ""
        try:
            # Looked at from here, neither counts as a look.
            link = os.readlink(self.path) if stat.S_ISLNK(os.lstat(self.path).st_mode) else ""
            found = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            # A link may be read whose end is not there.
            return f"{ABSENT} {link}" if link else ABSENT
        except (OSError, ValueError) as error:
            return type(error).__name__
        shown = [link, stat.S_IFMT(found.st_mode)]
        if self.depth != KIND:
            shown.append(found.st_size)
        if self.depth == ALL:
            shown += [found.st_mode, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns]
        return " ".join(map(str, shown))


def listing(path: str) -> str | None:
    """A digest of the names in a folder; None if there are too many."""
    try:
        names = os.listdir(path)
    except OSError as error:
        return type(error).__name__
    text = "\0".join(names).encode("utf-8", "surrogatepass")
    return None if len(names) > NAMES_MAX else hashlib.blake2b(text, digest_size=16).hexdigest()


def is_look(name: Any) -> bool:
    """Whether a name among an item's reads is that of a look."""
    return type(name) is str and name.startswith(_PREFIX)


def counts(path: str, frame: types.FrameType | None) -> bool:
    """Whether a look from a frame is the user's doing."""
    asker = for_whom(frame)
    caller = asker.f_globals.get("__name__") if asker is not None else None
    system = path.startswith(_SYSTEM) and not path.startswith(_MEMORY)
    return not system and not str(caller).startswith(("prebake.", "importlib."))


def asked(frame: types.FrameType | None) -> str:
    """What is asked for, by who calls: the outermost of the functions that look for others."""
    name, _ = _asker(frame)
    return _ASKED.get(name, ALL)


def for_whom(frame: types.FrameType | None) -> types.FrameType | None:
    """Who has the others look."""
    return _asker(frame)[1]


def _asker(frame: types.FrameType | None) -> tuple[str, types.FrameType | None]:
    name = ""
    while frame is not None and frame.f_globals.get("__name__") in _ASKERS:
        name, frame = frame.f_code.co_name, frame.f_back
    return name, frame


def deeper(a: str, b: str) -> str:
    """The one that asks for more."""
    return max(a, b, key=_DEPTHS.index)


def beside(looks: Mapping[str, tuple[str, str | None]], opened: Iterable[str]) -> dict[str, str | None]:
    """What looks showed (path -> depth, shown), by their text, of those that files which were opened do not
    show already: themselves, and the folders they are in."""
    shown = set[str]()
    for path in opened:
        shown.add(path)
        while (path := os.path.dirname(path)) not in shown:
            shown.add(path)
    return {
        Look(depth, path).text: saw
        for path, (depth, saw) in looks.items()
        if depth == ALL or path not in shown or saw is None or not saw.startswith(" ")
    }
