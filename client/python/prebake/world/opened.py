"""Files that a process opened outside of all elements: all while it was set up, which is before the first
element is asked for, and the first few from then on. A setting may be made of one: a dialect, how numbers are
printed.

They are a part of the world. What Python opens from `import prebake` on is heard of. What was opened before,
and what compiled code opens, is not: there each text in the user's modules that names a file counts.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from prebake.known.calls import COMPILED_READERS

#: Files that are kept by name; a data set that looks into each of its files is not set up by them.
FILES_MAX = 1024
#: Texts in one module that are looked up, and their characters.
TEXTS_MAX, TEXT_MAX = 2000, 200
_TEXT = re.compile(rb"""(["'])([^"'\n\\]{1,%d})\1""" % TEXT_MAX)
_IMPORT = re.compile(rb"^[ \t]*(?:import|from)\b[^\n#]*\bprebake\b", re.MULTILINE)
#: Packages that open files in compiled code, and what of pandas does.
_COMPILED = re.compile(
    rb"\b(%s|read_parquet|read_feather|read_orc)\b"
    % b"|".join(sorted({name.partition(".")[0].encode() for name in COMPILED_READERS}))
)
_WRITES = re.compile(
    rb"""[,=]\s*["'][wax]b?\+?["']|save|dump|write|Handler|\b(out|OUT)|"""
    rb"""\bto_(csv|excel|feather|hdf|html|json|orc|parquet|pickle|sql|xml)\("""
)
_PATH = re.compile(rb"/|\.[A-Za-z0-9]{1,9}$")
_CODE = (".py", ".pyc", ".so")
#: The kernel's, another content each time.
_SYSTEM = ("/dev/", "/proc/", "/sys/")

#: Modules that were there before this one.
early = frozenset(sys.modules) | {"__main__"}
#: Events that are told, after which nobody listens any more: a job that long has not begun.
EVENTS_MAX = 200_000
#: Files and events that count once the process is set up. What reads more then works on data of its own, and
#: each file makes another world.
LATE_FILES_MAX, LATE_EVENTS_MAX = 16, 4096
#: What was done with a file.
READ, LISTED, LOOKED = "read", "listed", "looked"
#: By event.
KINDS = {"open": READ, "os.listdir": LISTED, "os.scandir": LISTED, "sqlite3.connect": READ}
KINDS |= dict.fromkeys(("os.stat", "os.lstat", "os.access"), LOOKED)

#: Absolute paths and what was done, in the order in which they were met.
_files: dict[tuple[str, str], None] = {}
_left = 0
_files_max = FILES_MAX
_is_set_up = True
#: What is called when nobody listens any more; taken out for that, so that of two threads one calls it.
_over: list[Callable[[], None]] = []


def begin(over: Callable[[], None]) -> None:
    """From now on `heard` is told events, until `over` is called."""
    global _left, _is_set_up
    _left, _is_set_up = EVENTS_MAX, False
    _over[:] = [over]


def is_listening() -> bool:
    """Whether events are to be told."""
    return _left > 0


def is_set_up() -> bool:
    """Whether an element was asked for, or nobody listens until one is."""
    return _is_set_up


def count() -> int:
    """How many there are: another one makes another world."""
    return len(_files)


def heard(event: str, args: tuple[Any, ...], roots: tuple[str, ...]) -> None:
    """An audit hook's event outside of all elements. Files below `roots` are installed."""
    global _left
    _left -= 1
    kind = KINDS.get(event)
    path = args[0][0] if kind == LOOKED else args[0]
    if _left <= 0 or len(_files) >= _files_max:
        _left = 0
        with contextlib.suppress(IndexError):
            _over.pop()()
    elif event == "open" and args[2] & (os.O_ACCMODE | os.O_CREAT | os.O_TRUNC | os.O_DIRECTORY | os.O_PATH):
        # What it writes itself tells nothing.
        return
    elif kind is not None and isinstance(path, (str, bytes, os.PathLike)):
        text = os.path.abspath(os.fsdecode(path))
        if not text.endswith(_CODE) and not text.startswith((*roots, *_SYSTEM)):
            _files[text, kind] = None


def files() -> list[tuple[str, str]]:
    """What was opened, looked for or listed so far. The process is set up from now on."""
    global _left, _files_max, _is_set_up
    if not _is_set_up:
        _is_set_up = True
        _left, _files_max = min(_left, LATE_EVENTS_MAX), len(_files) + LATE_FILES_MAX
    return list(_files)


def named(file: str, data: bytes, is_script: bool, is_early: bool) -> Iterator[str]:
    """Files that texts in a module name, which is in `file` and says `data`: from its folder, or the working
    folder. In an early module, and of a script above its import of Prebake, all texts count. What else opens
    files is heard of, but for compiled code, which may open what looks like a path."""
    folders = {os.getcwd(), os.path.dirname(file)}
    for text in _texts(data, is_script, is_early):
        name = text.decode("utf-8", "replace")
        for folder in folders:
            path = os.path.join(folder, name)
            # Asked for first without raising an error for each that is not there.
            if path.endswith(_CODE) or path.startswith(_SYSTEM) or not os.access(path, os.F_OK):
                continue
            if os.path.isfile(path):
                yield path


@functools.lru_cache(maxsize=4096)
def _texts(data: bytes, is_script: bool, is_early: bool) -> tuple[bytes, ...]:
    unheard, heard = (data, b"") if is_early else (b"", data)
    if is_script:
        begin = _IMPORT.search(data)
        end = begin.start() if begin else len(data)
        unheard, heard = data[:end], data[end:]
    texts = dict.fromkeys(found.group(2) for found in _TEXT.finditer(unheard))
    if _COMPILED.search(data):
        # What is written there is no input, and another in each run.
        read = b"\n".join(line for line in heard.splitlines() if not _WRITES.search(line))
        texts |= dict.fromkeys(text for found in _TEXT.finditer(read) if _PATH.search(text := found.group(2)))
    return tuple(texts)[:TEXTS_MAX]
