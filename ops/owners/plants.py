"""What somebody else can put in the place of a file or a folder, and where."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Place(NamedTuple):
    """Where a thing lies, in the home of the user, and the same of another user's that is planted there."""

    name: str
    #: From the home.
    path: str
    folder: bool = False
    socket: bool = False


#: A star stands for the largest of that name: of segments, that of the wrapped step.
PLACES = (
    Place("folder", "c", folder=True),
    Place("prebake.sock", "c/prebake.sock", socket=True),
    Place("data.sock", "c/data.sock", socket=True),
    Place("metrics.sock", "c/metrics.sock", socket=True),
    Place("lock", "c/lock"),
    Place("format", "c/format"),
    Place("segments", "c/segments", folder=True),
    Place("a segment", "c/segments/*.arrow"),
    Place("index", "c/index-v*", folder=True),
    Place("index file", "c/index-v*/db"),
    Place("quarantine.json", "c/quarantine.json"),
    Place("metrics.token", "c/metrics.token"),
    Place("daemon.log", "c/daemon.log"),
    Place("config", "prebaked.toml"),
)


class World(NamedTuple):
    """The user's home, and what the other has to plant: his own files, and a daemon of his that listens."""

    home: Path
    uid: int
    other: int
    #: A home like the user's, all of it the other's, of planted values.
    planted: Path
    #: A folder of the user's own files, which a link may lead to.
    precious: Path
    rogue: Path


def find(home: Path, path: str) -> Path:
    """A path with its star filled in."""
    found = sorted(home.glob(path), key=lambda each: -each.stat().st_size)
    return next(iter(found), home / path.replace("*", "x"))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _of(world: World, place: Place) -> Path:
    """The other's own."""
    return find(world.planted, place.path)


def _mine(world: World, place: Place) -> Path:
    return world.precious / ("folder" if place.folder else "file")


def _copied(world: World, place: Place, path: Path, uid: int, more: int) -> None:
    """The other's content in place, of a user, with more bits in its mode."""
    _remove(path)
    of = _of(world, place)
    shutil.copytree(of, path) if of.is_dir() else shutil.copyfile(of, path)
    for each in (path, *path.rglob("*")) if path.is_dir() else (path,):
        os.chown(each, uid, uid)
        base = 0o700 if each.is_dir() else 0o600
        os.chmod(each, base | more & (0o777 if each.is_dir() else 0o666))


def _linked(to: Callable[[World, Place], Path]) -> Plant:
    def plant(world: World, place: Place, path: Path) -> None:
        _remove(path)
        path.symlink_to(to(world, place))
        os.chown(path, world.other, world.other, follow_symlinks=False)

    return plant


def _hard(to: Callable[[World, Place], Path]) -> Plant:
    def plant(world: World, place: Place, path: Path) -> None:
        _remove(path)
        os.link(to(world, place), path)

    return plant


def _node(kind: int, device: int = 0) -> Plant:
    def plant(world: World, place: Place, path: Path) -> None:
        _remove(path)
        os.mknod(path, kind | 0o666, device)
        os.chown(path, world.other, world.other)
        os.chmod(path, 0o666)

    return plant


def _other_kind(world: World, place: Place, path: Path) -> None:
    """A folder for a file, and a file for a folder."""
    _remove(path)
    path.write_bytes(b"planted") if place.folder else path.mkdir()
    os.chown(path, world.other, world.other)
    os.chmod(path, 0o777)


def _listening(world: World, place: Place, path: Path) -> None:
    """A socket where the other's daemon listens."""
    _remove(path)
    os.link(world.rogue / "c" / (place.name if place.socket else "prebake.sock"), path)


Plant = Callable[[World, Place, Path], None]
FORMS: dict[str, Plant] = {
    "other's": lambda world, place, path: _copied(world, place, path, world.other, 0o777),
    "group may write": lambda world, place, path: _copied(world, place, path, world.uid, 0o070),
    "all may write": lambda world, place, path: _copied(world, place, path, world.uid, 0o777),
    "link to other's": _linked(_of),
    "link to mine": _linked(_mine),
    "hard link, other's": _hard(_of),
    "hard link, mine": _hard(_mine),
    "fifo": _node(stat.S_IFIFO),
    "device": _node(stat.S_IFCHR, os.makedev(1, 5)),
    "other kind": _other_kind,
    "socket": _listening,
}


def fits(place: Place, form: str) -> bool:
    """Whether there is such a thing: folders have no hard links, and sockets no content."""
    if place.socket and form in ("other's", "group may write", "all may write", "hard link, other's"):
        return False
    return not (place.folder and form.startswith("hard link"))
