"""The world of a process: what surrounds the code of a pipeline and may change what it yields unforeseen.

An identity is what rules find in code and values. No rule finds everything: a dialect registered by name, an
option set in a package, a plug-in. All of these come from somewhere: from the user's own files that were
imported, from arguments, variables, packages, flags of the interpreter. Those together are the world. In a
world in which elements were made, they are served; in another one some are computed again first and compared
(`proof/proof.py`). So the world may list too much, which costs a comparison; what it lists too little of is
not compared.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import locale
import marshal
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
from prebake.world import ambient, opened, user_modules, user_sources
from prebake.world.parts import content_digest, digest, folder, listed_digest, stat_digest, text_digest

#: Of a description that is kept by the daemon: some thousand parts.
DESCRIPTION_BYTES_MAX = 48 << 10
#: Differences that are named; the rest is counted.
NAMED_MAX = 4
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

#: All time zones in one file, which is installed with those that are asked for one by one and kept.
_TIME_ZONES = "/usr/share/zoneinfo/tzdata.zi"

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
        variables_now(),
        folder(),
        len(_cells()),
        opened.count(),
        ambient.Seen(),
    )


def variables_now() -> dict[Any, Any]:
    return dict(getattr(os.environ, "_data", None) or os.environ)


def _described() -> World:
    with _lock:
        return _world(dict(sorted(_parts())))


def _inside(world: World, statements: Sequence[str]) -> World:
    return _world({**world.parts, **{f"with statement {each}": "" for each in statements}})


def _world(parts: dict[str, str]) -> World:
    whole = hashlib.blake2b(key=_CONTEXT, digest_size=32)
    for name, part in parts.items():
        whole.update(f"{len(name)}:{name}={part};".encode("utf-8", "surrogatepass"))
    return World(whole.digest(), parts)


def _parts() -> Iterator[tuple[str, str]]:
    yield "interpreter", text_digest(sys.version, sys.flags, sys._xoptions, getattr(sys, "warnoptions", ()))
    if not _is_run_by_others():
        for i, argument in enumerate(sys.argv[1:], start=1):
            yield f"argument {i}", text_digest(argument)
    yield "working folder", text_digest(folder())
    yield "locale", text_digest(locale.setlocale(locale.LC_ALL), time.tzname, sys.getdefaultencoding())
    yield from _variables()
    yield from ((f"setting {name}", text_digest(value)) for name, value in ambient.values())
    yield from _modules()
    yield from _set_up()
    for root in packages._site_roots():
        # Written anew whenever something is installed or removed.
        yield f"packages in {root}", stat_digest(root)
    yield "time zones", stat_digest(_TIME_ZONES)
    script = _unfiled()
    if script is not None:
        yield "source given to the interpreter", script
    for text in _cells():
        yield f"cell {digest(text.encode('utf-8', 'surrogatepass'))}", ""


def _is_run_by_others() -> bool:
    """Whether the program is installed: a notebook's kernel, a framework's worker. Those are told on their
    command line where their sockets are, another place each time."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return type(file) is str and user_modules.is_installed(file)


def _variables() -> Iterator[tuple[str, str]]:
    variables: Mapping[Any, Any] = getattr(os.environ, "_data", None) or os.environb
    for name, value in variables.items():
        if name == b"PYTHONHASHSEED" and value == b"random":
            # As without it.
            continue
        if counts_variable(name):
            yield f"variable {os.fsdecode(name)}", digest(value)


def counts_variable(name: bytes) -> bool:
    """Whether code that prepares data may ask for a variable."""
    return name not in _UNCOUNTED and not name.startswith(_UNCOUNTED_STARTS)


def _modules() -> Iterator[tuple[str, str]]:
    """The user's own files that are imported, by content."""
    for name, file in user_modules.own_files():
        # A spawned child knows its parent's script by the second name.
        shown = os.path.basename(file) if name in packages.SCRIPTS else name
        yield f"source {shown}", user_sources.source(file)


def _set_up() -> Iterator[tuple[str, str]]:
    """What was opened outside of elements: a setting may be made of it."""
    times = any(map(_names_times, user_sources.texts()))
    for file, kind in opened.files():
        if user_modules.is_generated(file):
            # Passed on by whoever started it, or made for this run.
            continue
        yield f"file {_below(file)}, {kind}", _shown(file, kind, times)
    for name, file in user_modules.own_files():
        if file.endswith(".py") and user_sources.is_known(file):
            is_script, is_early = name in packages.SCRIPTS, name in opened.early
            for path in opened.named(file, user_sources.text(file), is_script, is_early):
                yield f"file {_below(path)}, named", content_digest(path)


def _below(file: str) -> str:
    return file.removeprefix(os.path.join(folder(), ""))


def _shown(file: str, kind: str, times: bool) -> str:
    if kind == opened.READ:
        return content_digest(file)
    with contextlib.suppress(OSError):
        if kind == opened.LISTED:
            return listed_digest(file)
        found = os.stat(file)
        size = "folder" if stat.S_ISDIR(found.st_mode) else found.st_size
        return text_digest(size, *((found.st_mtime_ns, found.st_ctime_ns) if times else ()))
    return ""


@functools.lru_cache(maxsize=4096)
def _names_times(text: bytes) -> bool:
    """Whether a module names the time of a file's last change. All else that looks at files does not care:
    they are copied and checked out."""
    return _TIMES.search(text) is not None


_TIMES = re.compile(rb"st_[mc]time|ST_[MC]TIME|get[mc]time")


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
            return digest(marshal.dumps(frame.f_code))
        frame = frame.f_back
    return None


def _cells() -> list[str]:
    """What was run in a notebook: there it stands for the script's source."""
    main = sys.modules.get("__main__")
    cells = getattr(main, "In", None)
    return [cell for cell in cells if cell] if type(cells) is list and all(map(_is_text, cells)) else []


def _is_text(cell: Any) -> bool:
    return type(cell) is str
