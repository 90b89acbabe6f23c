"""The world of a process: what surrounds the code of a pipeline and may change what it yields unforeseen.

An identity is what rules find in code and values. No rule finds everything: a dialect registered by name, an
option set in a package, a plug-in. All of these come from somewhere: from the user's own files that were
imported, from arguments, variables, packages, flags of the interpreter. Those together are the world. In a
world in which elements were made, they are served; in another one some are computed again first and compared
(`leases/proof.py`). So the world may list too much, which costs a comparison; what it lists too little of is
not compared.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import locale
import marshal
import operator
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from prebake.runtime import packages, store_clients
from prebake.runtime.errors import warn_once
from prebake.runtime.words import words
from prebake.world import ambient, opened

#: Bytes of a digest of one part: enough to tell two apart by chance, few enough to keep hundreds.
PART_BYTES = 8
#: Of a description that is kept by the daemon: some thousand parts.
DESCRIPTION_BYTES_MAX = 48 << 10
#: Differences that are named; the rest is counted.
NAMED_MAX = 4
#: A source file of the user's own; a larger one is known by its size and time.
SOURCE_BYTES_MAX = 4 << 20

#: A file that is opened while a process is set up; a larger one is known by its size and time.
CONTENT_BYTES_MAX = 1 << 16
#: Names in a folder that is listed while a process is set up; a larger one is known by its size and time.
LISTED_MAX = 1024

#: Variables of the terminal, the login and whoever started the process, as `prebake run` has them: they
#: differ between runs of one program, and code that prepares data does not ask for them. `*` stands for any
#: end.
UNCOUNTED = words(
    "_ PWD OLDPWD SHLVL TERM TERM_* COLORTERM COLUMNS LINES LS_COLORS WINDOWID DISPLAY WAYLAND_DISPLAY "
    "XAUTHORITY XDG_SESSION_* XDG_RUNTIME_DIR XDG_VTNR XDG_SEAT SSH_* DBUS_* GPG_* TMUX* STY VTE_VERSION "
    "INVOCATION_ID JOURNAL_STREAM MAKEFLAGS MAKELEVEL MFLAGS PREBAKE* PS1 PYTEST_* RAY_* JPY_* MASTER_PORT "
    "TORCHELASTIC_RUN_ID SPT_NOENV"
)
_UNCOUNTED = frozenset(name.encode() for name in UNCOUNTED if not name.endswith("*"))
_UNCOUNTED_STARTS = tuple(name[:-1].encode() for name in UNCOUNTED if name.endswith("*"))

_CONTEXT = b"prebake world v1"


class World(NamedTuple):
    """All that surrounds a pipeline's code: a digest of each part by its name, and of all."""

    digest: bytes
    parts: dict[str, str]

    def described(self) -> bytes:
        """As text, for `differences` in another process; without the parts that are too many."""
        text = json.dumps(self.parts, separators=(",", ":")).encode("utf-8", "surrogatepass")
        return text if len(text) <= DESCRIPTION_BYTES_MAX else b""


def differences(world: World, described: bytes) -> str:
    """In words, in what a world differs from one that was described."""
    try:
        before = json.loads(described)
    except ValueError:
        return "in which world it was made is not known"
    after = world.parts
    changed = [name for name in after if name in before and after[name] != before[name]]
    new = [f"{name} (new)" for name in after if name not in before]
    gone = [f"{name} (gone)" for name in before if name not in after]
    named = [*changed, *new, *gone]
    more = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
    return ", ".join(named[:NAMED_MAX]) + more if named else "nothing that is known of"


class Switches:
    """What code may set for the whole process, as it is when this is made: a look that costs some 50 us."""

    def __init__(self) -> None:
        self._modules = len(sys.modules)
        self._seen = _variables_now(), _folder(), ambient.Seen()

    def changed(self, before: World | None) -> str:
        """What was set since, in words, by comparing with the world before; empty if nothing that is known
        of. Packages set what they like when they are imported, once in a process: then only what was there
        before them counts."""
        if before is None or self._seen == (_variables_now(), _folder(), ambient.Seen()):
            return ""
        after = current()
        if after is None:
            return ""
        counts = _SWITCHES if len(sys.modules) == self._modules else _INTERPRETERS
        names = sorted(name for name in {*before.parts, *after.parts} if name.startswith(counts))
        return ", ".join(
            [name for name in names if before.parts.get(name) != after.parts.get(name)][:NAMED_MAX]
        )


#: Parts of a world that code may set while it runs; of them, those that no package's import sets.
_SWITCHES = ("setting ", "variable ", "working folder", "locale")
_INTERPRETERS = (
    *("setting interpreter", "setting contexts", "setting dialects", "setting locale"),
    *("working folder", "locale"),
)


def current(inside: Sequence[str] = ()) -> World | None:
    """The world of this process as it is now, inside these `with` statements; None if it cannot be told,
    which is said once."""
    global _last
    try:
        seen = _seen()
        last = _last
        if last is None or last[0] != seen:
            # It may be an element that is made meanwhile: what is read here is none of its inputs.
            with store_clients.own():
                _last = last = seen, _described()
        return _inside(last[1], inside) if inside else last[1]
    except Exception as error:
        # Modules are odd objects: looking at one can raise anything.
        warn_once("world", f"not cached: what surrounds this process cannot be told: {error}")
        return None


_last: tuple[Any, World] | None = None
_lock = threading.Lock()


def _seen() -> Any:
    """What tells that the world may be another one, cheaply."""
    return (
        len(sys.modules),
        list(sys.argv),
        _variables_now(),
        _folder(),
        len(_cells()),
        opened.count(),
        ambient.Seen(),
    )


def _variables_now() -> dict[Any, Any]:
    return dict(getattr(os.environ, "_data", None) or os.environ)


def _described() -> World:
    with _lock:
        return _world(dict(sorted(_parts())))


def _inside(world: World, statements: Sequence[str]) -> World:
    return _world({**world.parts, **{f"with statement {each}": "" for each in statements}})


def _world(parts: dict[str, str]) -> World:
    whole = hashlib.blake2b(key=_CONTEXT, digest_size=32)
    for name, digest in parts.items():
        whole.update(f"{len(name)}:{name}={digest};".encode("utf-8", "surrogatepass"))
    return World(whole.digest(), parts)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=PART_BYTES).hexdigest()


def _parts() -> Iterator[tuple[str, str]]:
    yield "interpreter", _text(sys.version, sys.flags, sys._xoptions, getattr(sys, "warnoptions", ()))
    if not _is_run_by_others():
        for i, argument in enumerate(sys.argv[1:], start=1):
            yield f"argument {i}", _text(argument)
    yield "working folder", _text(_folder())
    yield "locale", _text(locale.setlocale(locale.LC_ALL), time.tzname, sys.getdefaultencoding())
    yield from _variables()
    yield from ((f"setting {name}", _text(value)) for name, value in ambient.values())
    yield from _modules()
    yield from _set_up()
    for root in packages._site_roots():
        # Written anew whenever something is installed or removed.
        yield f"packages in {root}", _stat(root)
    script = _unfiled()
    if script is not None:
        yield "source given to the interpreter", script
    for text in _cells():
        yield f"cell {_digest(text.encode('utf-8', 'surrogatepass'))}", ""


def _is_run_by_others() -> bool:
    """Whether the program is installed: a notebook's kernel, a framework's worker. Those are told on their
    command line where their sockets are, another place each time."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return type(file) is str and is_installed(file)


def _text(*values: Any) -> str:
    return _digest(repr(values).encode("utf-8", "surrogatepass"))


def _folder() -> str:
    with contextlib.suppress(OSError):
        return os.getcwd()
    return ""


def _variables() -> Iterator[tuple[str, str]]:
    variables: Mapping[Any, Any] = getattr(os.environ, "_data", None) or os.environb
    for name, value in variables.items():
        if name == b"PYTHONHASHSEED" and value == b"random":
            # As without it.
            continue
        if counts_variable(name):
            yield f"variable {os.fsdecode(name)}", _digest(value)


def counts_variable(name: bytes) -> bool:
    """Whether code that prepares data may ask for a variable."""
    return name not in _UNCOUNTED and not name.startswith(_UNCOUNTED_STARTS)


def own_modules() -> list[str]:
    """The user's own modules that are imported, beside the script, in the order in which they were."""
    return [name for name, _ in _own() if name not in packages.SCRIPTS]


def _modules() -> Iterator[tuple[str, str]]:
    """The user's own files that are imported, by content."""
    for name, file in _own():
        # A spawned child knows its parent's script by the second name.
        shown = os.path.basename(file) if name in packages.SCRIPTS else name
        yield f"source {shown}", source(file)


def own_files() -> list[tuple[str, str]]:
    """The user's own modules that are imported, the script among them, and their files."""
    return list(_own())


def text(file: str) -> bytes:
    """What a file of the user's own said when it was first asked for, if it could be read."""
    return _texts.get(file, b"")


def _own() -> list[tuple[str, str]]:
    """The user's own modules that are imported, and their files: looked for again once another module is, or
    it is another place to look from. A first batch asks twice."""
    global _owned
    held = [*sys.modules, *sys.modules.values()]
    seen = tuple(sys.path), _folder(), _temporary(), len(_inner)
    last = _owned
    if (
        last is None
        or last[1] != seen
        or len(last[0]) != len(held)
        or not all(map(operator.is_, last[0], held))
    ):
        _owned = last = held, seen, list(_looked_for())
    return last[2]


_owned: tuple[list[Any], Any, list[tuple[str, str]]] | None = None


def _looked_for() -> Iterator[tuple[str, str]]:
    modules = [(name, module) for name, module in list(sys.modules.items()) if module is not None]
    installed = _roots(tuple(sys.path))
    own = {name for name, module in modules if "." not in name and _is_own(name, module, installed)}
    for name, module in modules:
        if name.partition(".")[0] in own:
            file = vars(module).get("__file__")
            if type(file) is str and not is_installed(file) and not is_generated(file) and file not in _inner:
                yield name, file


def _set_up() -> Iterator[tuple[str, str]]:
    """What was opened outside of elements: a setting may be made of it."""
    times = any(map(_names_times, _texts.values()))
    for file, kind in opened.files():
        if is_generated(file):
            # Passed on by whoever started it, or made for this run.
            continue
        yield f"file {_below(file)}, {kind}", _shown(file, kind, times)
    for name, file in _own():
        if file.endswith(".py") and file in _sources:
            is_script, is_early = name in packages.SCRIPTS, name in opened.early
            for path in opened.named(file, _texts.get(file, b""), is_script, is_early):
                yield f"file {_below(path)}, named", _content(path)


def _below(file: str) -> str:
    return file.removeprefix(os.path.join(_folder(), ""))


def _shown(file: str, kind: str, times: bool) -> str:
    if kind == opened.READ:
        return _content(file)
    with contextlib.suppress(OSError):
        if kind == opened.LISTED:
            return _listed(file)
        found = os.stat(file)
        size = "folder" if stat.S_ISDIR(found.st_mode) else found.st_size
        return _text(size, *((found.st_mtime_ns, found.st_ctime_ns) if times else ()))
    return ""


@functools.lru_cache(maxsize=4096)
def _names_times(text: bytes) -> bool:
    """Whether a module names the time of a file's last change. All else that looks at files does not care:
    they are copied and checked out."""
    return _TIMES.search(text) is not None


_TIMES = re.compile(rb"st_[mc]time|ST_[MC]TIME|get[mc]time")


def _listed(folder: str) -> str:
    """A folder by the names in it; a large one by its size and time, which each name that comes or goes
    changes: to list a million files takes a second, for which a first batch would wait."""
    from prebake._native import listed

    return listed(folder, LISTED_MAX) or _stat(folder)


def _content(file: str) -> str:
    """A small file by what it holds, a large one by its size and time."""
    with contextlib.suppress(OSError):
        if os.stat(file).st_size <= CONTENT_BYTES_MAX:
            with open(file, "rb", buffering=0) as data:
                return _digest(data.read(CONTENT_BYTES_MAX))
    return _stat(file)


#: Files of modules that were imported while elements were made. Those are inputs of these elements: a process
#: that is served them does not import them.
_inner: set[str] = set()


def leave_out(file: str) -> None:
    """Takes the file of a module that is imported while an element is made for no part of the world."""
    _inner.add(file)


def is_generated(file: str) -> bool:
    """Whether a module was written while the program ran, as TensorFlow's autograph does: to a temporary
    folder, under another name each time."""
    if not file.startswith(_temporary()):
        return False
    script = getattr(sys.modules.get("__main__"), "__file__", None) or os.path.join(_folder(), "")
    # The working folder may itself be listed.
    return not os.path.join(file, "").startswith(
        (os.path.join(_folder(), ""), os.path.join(os.path.dirname(script), ""))
    )


def _temporary() -> tuple[str, ...]:
    """Where temporary files may lie. Python's own look for it writes one."""
    named = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return tuple(os.path.join(each, "") for each in (*filter(None, named), "/tmp", "/var/tmp", "/usr/tmp"))


def _is_own(name: str, module: Any, installed: tuple[str, ...]) -> bool:
    held = getattr(module, "__dict__", None)
    if name == "prebake" or held is None:
        return False
    file = held.get("__file__")
    if type(file) is str:
        return not file.startswith(installed)
    return name in packages.SCRIPTS or getattr(module, "__path__", None) is not None


def is_installed(file: str) -> bool:
    """Whether a file is the interpreter's or of an installed package."""
    return file.startswith(_roots(tuple(sys.path)))


@functools.lru_cache(maxsize=16)
def _roots(path: tuple[Any, ...]) -> tuple[str, ...]:
    found = {*packages._site_roots(), *packages._stdlib_roots()}
    return tuple(os.path.join(each, "") for each in found)


#: When this module was imported: what was written before cannot have been imported in another form since.
_BEGUN_NS = time.time_ns()
#: Clocks of file systems are this coarse.
_CLOCK_NS = 50_000_000


def is_settled(file: str) -> bool:
    """Whether a file was last changed before this process can have imported it. Raises `OSError`."""
    found = os.stat(file)
    return max(found.st_mtime_ns, found.st_ctime_ns) < _BEGUN_NS - _CLOCK_NS


def source(file: str) -> str:
    """A file by its content as it was when it was first asked for, which is when it was imported or later."""
    known = _sources.get(file)
    if known is None:
        known = _sources[file] = _read(file)
    return known


_sources: dict[str, str] = {}
#: What they said.
_texts: dict[str, bytes] = {}


def _read(file: str) -> str:
    try:
        with open(file, "rb", buffering=0) as source:
            size = os.fstat(source.fileno()).st_size
            # Not into a buffer of the largest size: memory that is fresh takes longer than reading.
            if size < SOURCE_BYTES_MAX and len(data := source.read(size + 1)) == size:
                _texts[file] = data
                return _digest(data)
    except OSError:
        # Gone since, or inside an archive: the archive tells.
        pass
    return _stat(file)


def _stat(file: str) -> str:
    while file:
        try:
            found = os.stat(file)
            return _text(found.st_size, found.st_mtime_ns)
        except OSError:
            outer = os.path.dirname(file)
            file = outer if outer != file else ""
    return ""


def _unfiled() -> str | None:
    """The script of a process that has none in a file (`python -c`, or from a pipe), by its code; None in a
    session that somebody types, where each line is code of its own."""
    main = sys.modules.get("__main__")
    if "--multiprocessing-fork" in sys.orig_argv:
        # A worker that is spawned is told by the numbers of its pipes where its code comes from.
        return None
    if hasattr(main, "__file__") or hasattr(sys, "ps1") or _cells():
        return None
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_globals is getattr(main, "__dict__", None) and frame.f_code.co_name == "<module>":
            return _digest(marshal.dumps(frame.f_code))
        frame = frame.f_back
    return None


def _cells() -> list[str]:
    """What was run in a notebook: there it stands for the script's source."""
    main = sys.modules.get("__main__")
    cells = getattr(main, "In", None)
    return [cell for cell in cells if cell] if type(cells) is list and all(map(_is_text, cells)) else []


def _is_text(cell: Any) -> bool:
    return type(cell) is str
