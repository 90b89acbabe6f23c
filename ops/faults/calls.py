"""The order of a daemon's calls on its disk, read from strace: what was durable when what was done."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

#: What writes, makes durable, and gives names.
CALLS = "write,pwrite64,writev,pwritev,pwritev2,ftruncate,fsync,fdatasync,rename,renameat,renameat2"
_SYNCS = {"fsync", "fdatasync"}
_RENAMES = {"rename", "renameat", "renameat2"}

_LINE = re.compile(r"(\d+) +(.*)")
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+)")
_OPEN = re.compile(r"\d+<(.*?)>")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Call:
    """A call that did not fail: its name, the files that it names, the lines at which it began and ended."""

    name: str
    files: tuple[Path, ...]
    began: int
    ended: int


def prefix(out: Path) -> str:
    """What a daemon is started behind, so that its calls are written down."""
    return f"strace -D -f -qq -y -s 4096 -o '{out}' -e trace={CALLS}"


def read(out: Path) -> list[Call]:
    """All calls, in the order in which they ended."""
    calls, begun = [], {}
    for at, line in enumerate(out.read_text(errors="replace").splitlines()):
        if not (parts := _LINE.fullmatch(line)):
            continue
        thread, text = parts.groups()
        began = at
        if text.endswith("<unfinished ...>"):
            begun[thread] = at, text.removesuffix("<unfinished ...>")
            continue
        if text.startswith("<... "):
            began, start = begun.pop(thread)
            text = start + text.partition("resumed>")[2]
        if (call := _CALL.match(text)) and int(call[3]) >= 0:
            calls.append(Call(call[1], _files(call[1], call[2]), began, at))
    return calls


def _files(name: str, arguments: str) -> tuple[Path, ...]:
    if name in _RENAMES:
        return tuple(Path(each) for each in _QUOTED.findall(arguments))
    opened = _OPEN.match(arguments)
    return (Path(opened[1]),) if opened else ()


def too_early(calls: list[Call], folder: Path) -> list[str]:
    """What got its name in a folder before its bytes were durable, and names that were never made so."""
    syncs = [call for call in calls if call.name in _SYNCS]
    found = []
    for call in renames(calls, folder):
        source, name = call.files
        writes = [each.ended for each in calls if each.name not in _SYNCS and each.files == (source,)]
        # A sync covers what was written before it began.
        covers = [sync for sync in syncs if sync.files == (source,) and max(writes, default=-1) < sync.began]
        if not any(sync.ended < call.began for sync in covers):
            found.append(f"{name.name} has its name before its bytes are durable")
        if not any(sync.files == (folder,) and call.ended < sync.began for sync in syncs):
            found.append(f"the name {name.name} is never made durable")
    return found


def renames(calls: list[Call], folder: Path) -> list[Call]:
    """What got its name in a folder."""
    return [call for call in calls if call.name in _RENAMES and call.files[-1].parent == folder]
