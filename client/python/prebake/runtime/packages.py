"""Which code is installed, and which is the user's own.

Installed code is identified by its distribution and version; the user's own code changes without a version
and is identified by what it says. A file belongs to a distribution only if that distribution's record lists
it, so that an editable install or a module that shadows a package counts as the user's own.
"""

from __future__ import annotations

import base64
import collections
import functools
import hashlib
import importlib.util
import os
import platform
import re
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prebake.runtime.words import words


class Owner:
    """A distribution, or Python itself, and its version: what it calls that, and which files came with it, if
    that is recorded. There is one object for each."""

    def __init__(self, name: str, release: str, info: str = "") -> None:
        """`info` is the folder of what is known of it, if there is one."""
        self.name, self.release, self.info = name, release, info

    @functools.cached_property
    def version(self) -> str:
        """Made where it is asked for: most that are met are only told from the user's own code."""
        files = _files_of(self) if self.info else []
        return f"{self.release} of files {' '.join(files)}" if files else self.release


PYTHON = Owner("python", f"{sys.implementation.cache_tag} {platform.python_version()}")

#: `Py_TPFLAGS_HEAPTYPE`: classes without it come with the interpreter or an extension module.
HEAP_TYPE = 1 << 9
#: What Cython calls the type of its functions.
CYTHON_FUNCTION = "cython_function_or_method"

#: Modules that are a script: their name says nothing, and a spawned child sees its parent's under the second
#: name.
SCRIPTS = frozenset({"__main__", "__mp_main__"})


@functools.lru_cache(maxsize=4096)
def owner(module: str) -> Owner | None:
    """Who installed a module; None if it is the user's own, or unknown, which is treated alike."""
    if module in SCRIPTS:
        return None
    top = module.partition(".")[0]
    file = _file(module) or _file(top)
    if file is None:
        return PYTHON if top in sys.stdlib_module_names or top in sys.builtin_module_names else None
    # Compared as texts: a job asks for some ten modules before its first batch, and comparing two paths takes
    # as long as all of these.
    path = file if type(file) is str and file == os.path.normpath(file) else str(Path(file))
    for root in _site_roots():
        if path.startswith(f"{root}/"):
            return _distribution(root, path[len(root) + 1 :], top)
    return PYTHON if any(path.startswith(f"{root}/") for root in _stdlib_roots()) else None


def resolve(module: str, qualname: str) -> Any:
    """What a dotted name in an imported module stands for; None if nothing."""
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def offers(value: Any) -> bool:
    """Whether an installed module offers this very function under its own name."""
    kind = type(value)
    if kind is not types.FunctionType and kind.__name__ != CYTHON_FUNCTION:
        return False
    module, name = value.__module__, value.__qualname__
    known = isinstance(module, str) and isinstance(name, str) and owner(module) is not None
    return known and resolve(module, name) is value


def _file(module: str) -> str | None:
    loaded = sys.modules.get(module)
    if loaded is not None:
        return getattr(loaded, "__file__", None)
    if "." in module:
        return None
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return spec.origin if spec is not None and spec.has_location else None


def _site_roots() -> tuple[str, ...]:
    """Folders on the path that hold installed distributions, innermost first."""
    return _roots_on(tuple(sys.path))


@functools.lru_cache(maxsize=16)
def _roots_on(path: tuple[Any, ...]) -> tuple[str, ...]:
    named = (entry for entry in path if str(entry).rstrip("/").endswith(("site-packages", "dist-packages")))
    roots = {str(entry) for entry in map(Path, named) if entry.name in ("site-packages", "dist-packages")}
    return tuple(sorted(roots, key=lambda root: -root.count("/")))


def is_of_package(file: str) -> bool:
    """Whether a file lies among the installed packages."""
    return any(file.startswith(f"{root}/") for root in _site_roots())


@functools.cache
def _stdlib_roots() -> tuple[str, ...]:
    # As `sysconfig` has them, which takes a millisecond to ask.
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    roots = {Path(os.__file__).parent, Path(sys.base_exec_prefix, sys.platlibdir, version)}
    return tuple(map(str, roots))


#: What a distribution's name may have in the place of a dash. Compiled here, where a job expects to wait.
_SEPARATORS = re.compile(r"[-_.]+")
_REQUIRED = re.compile(r"[\w.-]*")


@functools.cache
def _installed(root: str) -> list[Owner]:
    """What is installed in a folder: the names of metadata folders hold distribution and version."""
    found = []
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return []
    for name in names:
        stem, _, kind = name.rpartition(".")
        if kind not in ("dist-info", "egg-info"):
            continue
        parts = stem.split("-")
        if len(parts) > 1:
            found.append(Owner(canonical(parts[0]), parts[1], f"{root}/{name}"))
    return found


def canonical(name: str) -> str:
    """A distribution's name as the packaging rules normalize it."""
    return name.lower() if name.isalnum() else _SEPARATORS.sub("-", name).lower()


@functools.lru_cache(maxsize=256)
def _listing(info: str, name: str) -> bytes | None:
    try:
        with open(f"{info}/{name}", "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return None


def _lists(info: str, relative: str) -> bool | None:
    """Whether a distribution's record lists a file; None if it keeps none.

    Looked through in pieces: whole, it takes fresh memory, which takes longer than reading it.
    """
    listed = b"\n" + relative.encode() + b","
    _asked[info] += 1
    if _asked[info] > KEPT_FROM:
        record = _listing(info, "RECORD")
        return None if record is None else listed in b"\n" + record[: len(listed)] or listed in record
    try:
        with open(f"{info}/RECORD", "rb", buffering=0) as file:
            piece = b"\n"
            while read := file.read(PIECE_BYTES):
                piece = piece[-len(listed) :] + read
                if listed in piece:
                    return True
            return False
    except OSError:
        return None


#: How often each record was looked through.
_asked: collections.Counter[str] = collections.Counter()
#: From then on it is kept, whole.
KEPT_FROM = 3
PIECE_BYTES = 1 << 14


#: Requirements that only build, download or show; nothing that an item is computed with.
BYSTANDERS = words(
    "typing-extensions setuptools wheel pip packaging filelock tqdm requests urllib3 certifi idna "
    "charset-normalizer "
    "jinja2 markupsafe pyyaml click rich colorama pygments markdown-it-py mdurl huggingface-hub hf-xet"
)


@functools.lru_cache(maxsize=256)
def required(names: frozenset[str]) -> frozenset[Owner]:
    """The distributions that those of some names require, and so on, as far as they are installed."""
    roots, pending = _site_roots(), list(names)
    found: set[Owner] = set()
    seen = set(pending)
    while pending:
        name = pending.pop()
        for root in roots:
            each = _by_name(root).get(name)
            if each is None:
                continue
            found.add(each)
            new = [other for other in _requirements(each.info) if other not in seen]
            seen.update(new)
            pending += new
            break
    return frozenset(found)


@functools.cache
def _by_name(root: str) -> dict[str, Owner]:
    return {each.name: each for each in _installed(root)}


@functools.lru_cache(maxsize=1024)
def _requirements(info: str) -> tuple[str, ...]:
    text = _listing(info, "METADATA" if info.endswith(".dist-info") else "PKG-INFO") or b""
    head = text.partition(b"\n\n")[0].decode("utf-8", "replace")
    names = []
    for line in head.splitlines():
        if line.startswith("Requires-Dist:") and "extra ==" not in line:
            name = canonical(_REQUIRED.match(line.partition(":")[2].strip())[0])  # type: ignore[index]
            if name and name not in BYSTANDERS and not name.startswith(("nvidia-", "types-")):
                names.append(name)
    return tuple(names)


def _distribution(root: str, relative: str, top: str) -> Owner | None:
    # Most distributions are called like their module: looking there first spares reading all the others.
    likely = _by_name(root).get(canonical(top))
    for each in [*filter(None, [likely]), *(each for each in _installed(root) if each is not likely)]:
        listed = _lists(each.info, relative)
        if listed:
            return each
        # Some systems keep no record of files; the list of top-level names is the next best.
        if listed is None and top.encode() in (_listing(each.info, "top_level.txt") or b"").split():
            return each
    return None


def _files_of(owner: Owner) -> list[str]:
    """What tells a distribution's files, beside its version: another build may go by the same one, and files
    are edited where they lie."""
    try:
        # Where the cache is turned off too: a probe's process is to find what the job found.
        from prebake._native import read_record
    except ImportError:
        return []
    digest, tops = read_record(f"{owner.info}/RECORD", f"{os.path.basename(owner.info)}/")
    return [*([] if digest is None else [digest]), *_edited(owner.info, tops)]


def _edited(info: str, tops: Iterable[str]) -> list[str]:
    """Names and digests of a distribution's files that are imported and were edited since they were
    installed: they are younger than its record, which is written last, and are not what it says."""
    from prebake._native import younger

    root, names = os.path.dirname(info), _imported(len(sys.modules))
    modules = [sys.modules.get(name) for top in tops for name in names.get(top.removesuffix(".py"), ())]
    files = {getattr(each, "__dict__", {}).get("__file__") for each in modules}
    start = f"{root}/"
    own = [file[len(start) :] for file in files if type(file) is str and file.startswith(start)]
    found: list[str] = []
    if len(own) > LOOKED_AT_MAX:
        return found
    for relative in sorted(younger(root, f"{os.path.basename(info)}/RECORD", own)):
        try:
            with open(start + relative, "rb", buffering=0) as data:
                digest = base64.urlsafe_b64encode(hashlib.sha256(data.read()).digest()).rstrip(b"=").decode()
        except OSError:
            digest = "gone"
        if _lists(info, relative) and not _lists(info, f"{relative},sha256={digest}"):
            found.append(f"{relative}={digest}")
    return found


#: A look takes some microseconds, for which a first batch waits. Few edit a package of so many modules where
#: it lies.
LOOKED_AT_MAX = 256


@functools.lru_cache(maxsize=4)
def _imported(_: int) -> dict[str, list[str]]:
    """The names of modules by the first part. Their number tells whether others were imported since."""
    found: dict[str, list[str]] = {}
    for name in list(sys.modules):
        found.setdefault(name.partition(".")[0], []).append(name)
    return found
