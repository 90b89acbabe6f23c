"""What is done to a folder between two processes: each kind changes one file, or swaps two."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

#: What a power loss leaves zeroed: one page of the page cache.
PAGE_BYTES = 4096


def _files(folder: Path) -> list[Path]:
    """Files with content. Empty ones, such as locks, cannot be damaged."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path for path in found if path.stat().st_size)


def _drawn(folder: Path, draw: random.Random) -> Path:
    """Half of the time each file is as likely as any other, half of the time each byte is.

    By files alone the small ones beside the values would take nearly all damage, by bytes alone next to none.
    """
    files = _files(folder)
    if draw.random() < 0.5:
        return draw.choice(files)
    return draw.choices(files, [path.stat().st_size for path in files])[0]


def _write(path: Path, content: bytes, at: int = 0) -> None:
    """In place: owner, mode and inode stay."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def _flip(path: Path, first: int, last: int, draw: random.Random) -> str:
    at, bit = draw.randint(first, last), draw.randrange(8)
    _write(path, bytes([path.read_bytes()[at] ^ 1 << bit]), at)
    return f"{path.name}: bit {bit} of byte {at}"


def flip_head(folder: Path, draw: random.Random) -> str:
    """One bit of the first page."""
    path = _drawn(folder, draw)
    return _flip(path, 0, min(PAGE_BYTES, path.stat().st_size) - 1, draw)


def flip_body(folder: Path, draw: random.Random) -> str:
    """One bit anywhere."""
    path = _drawn(folder, draw)
    return _flip(path, 0, path.stat().st_size - 1, draw)


def flip_tail(folder: Path, draw: random.Random) -> str:
    """One bit of the last page's worth of bytes."""
    path = _drawn(folder, draw)
    size = path.stat().st_size
    return _flip(path, max(0, size - PAGE_BYTES), size - 1, draw)


def truncate(folder: Path, draw: random.Random) -> str:
    """The file ends at some earlier byte."""
    path = _drawn(folder, draw)
    size = draw.randrange(path.stat().st_size)
    with path.open("r+b") as file:
        file.truncate(size)
    return f"{path.name}: cut to {size} bytes"


def remove(folder: Path, draw: random.Random) -> str:
    """The file is gone."""
    path = _drawn(folder, draw)
    path.unlink()
    return f"{path.name}: removed"


def zero_page(folder: Path, draw: random.Random) -> str:
    """A page of the file is zeros; its length stays."""
    path = _drawn(folder, draw)
    size = path.stat().st_size
    start = draw.randrange(0, size, PAGE_BYTES)
    _write(path, bytes(min(PAGE_BYTES, size - start)), start)
    return f"{path.name}: zeros from byte {start}"


def swap(folder: Path, draw: random.Random) -> str:
    """Two files' contents change places: of one kind by their names, if there are two, since a file of
    another kind is easily refused."""
    one = _drawn(folder, draw)
    others = [path for path in _files(folder) if path != one]
    alike = [path for path in others if path.suffix == one.suffix]
    other = draw.choice(alike or others)
    contents = one.read_bytes(), other.read_bytes()
    one.write_bytes(contents[1])
    other.write_bytes(contents[0])
    return f"{one.relative_to(folder)} and {other.relative_to(folder)}: swapped"


KINDS: dict[str, Callable[[Path, random.Random], str]] = {
    "flip head": flip_head,
    "flip body": flip_body,
    "flip tail": flip_tail,
    "truncate": truncate,
    "remove": remove,
    "zero page": zero_page,
    "swap": swap,
}
