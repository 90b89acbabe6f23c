"""What each audit event tells of the files, folders and other things that an element was made from."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import shutil
import stat
import sys
import threading
import types
import urllib.parse
from collections.abc import Callable
from typing import Any

from prebake.execution import active_scopes
from prebake.reads import compiled_opens, object_store, open_records, stat_observations
from prebake.reads.library_roots import CODE_SUFFIXES, ROOTS
from prebake.reads.open_records import absolute, mine
from prebake.runtime import packages, store_clients
from prebake.runtime.here import HERE

#: Of what the interpreter opens itself, the code says that it was the interpreter.
IMPORTERS = ("<frozen importlib", "<frozen zipimport")
#: Who asks which version of a package is installed lists each folder of modules: the answer is in the world.
_METADATA = os.path.join(os.path.dirname(importlib.__file__), "metadata", "")
#: What is known of a package, beside it.
_INFO = ".dist-info/"
#: Opens that give no content: a folder is read by listing it.
_NO_CONTENT = os.O_DIRECTORY | os.O_PATH
#: A file that never has a name; the flag holds the one of folders.
_NAMELESS = os.O_TMPFILE
#: Modules that ask entries of a folder for no more than their names, and which are folders.
_LISTERS = frozenset({"os", "pathlib", "pathlib._local", "pathlib._abc", "glob", "shutil"})
#: What the machine says of itself.
_MACHINE = ("/proc/", "/sys/")
#: Programs by which packages learn how many processors there are.
_COUNTS_PROCESSORS = ("lscpu",)
#: How `shutil.rmtree` goes through folders.
_REMOVES = "_rmtree_safe_fd"
#: Beside a database, files that hold what is not in it yet.
_SQLITE_FILES = ("", "-wal", "-journal")


def is_packages(frame: types.FrameType | None) -> bool:
    """Whether an installed package does something, perhaps through the standard library: what it looks for is
    where its user has data."""
    while frame is not None and not packages.is_of_package(frame.f_code.co_filename):
        if not frame.f_code.co_filename.startswith(("<frozen ", *ROOTS)):
            return False
        frame = frame.f_back
    return frame is not None


def _importing() -> bool:
    # The frames are: this one, the event's handler, the hook, whoever opens.
    return sys._getframe(3).f_code.co_filename.startswith(IMPORTERS)


def _open(event: str, args: tuple[Any, ...]) -> None:
    path, mode, flags = args
    if isinstance(path, int):
        # Already open: it was heard of then.
        return
    if _importing():
        _imported(path)
        return
    path = os.fspath(path)
    writes = flags & os.O_ACCMODE != os.O_RDONLY
    if writes and (flags & _NAMELESS == _NAMELESS or _is_folder(path)):
        # A folder is named where a file in it is opened by other means (`tempfile`).
        return
    makes = flags & os.O_TRUNC or flags & os.O_CREAT and flags & os.O_EXCL
    reads = flags & os.O_ACCMODE != os.O_WRONLY and not makes and not flags & _NO_CONTENT
    # What is appended to as well: rows of data are as little to be lost as files.
    if writes:
        _wrote(event, (path,))
    if not (makes or reads):
        return
    full = absolute(path)
    # The frames are: this one, the hook, whoever opens.
    opener = sys._getframe(2)
    if full == os.devnull or full.startswith(ROOTS) and (full.endswith(CODE_SUFFIXES) or _INFO in full):
        return
    if full.startswith(_MACHINE) and is_packages(opener):
        # How many processors it may use, once in a process: it is asked by whoever comes first.
        return
    record = mine(f"{full} is opened") if reads else open_records.by_thread.get(threading.get_ident())
    if record is None:
        return
    if opener.f_code.co_filename == shutil.__file__ and opener.f_code.co_name.startswith(_REMOVES):
        # Folders on the way to what is removed.
        return
    if mode is None and full != os.fsdecode(path):
        # `os.open` may be given a folder to start from, of which the hook is not told.
        record.incomplete = record.incomplete or f"{os.fsdecode(path)} is opened relative to some folder"
    if makes:
        record.made(full)
    else:
        record.read(full)
        active_scopes.opened(full, opener)


def _imported(path: Any) -> None:
    record = open_records.by_thread.get(threading.get_ident())
    if record is None:
        return
    full = absolute(path)
    if not full.endswith(CODE_SUFFIXES):
        # Data that lies beside code, read through the importer; or a module inside an archive.
        record.read(full)
    elif not full.startswith(ROOTS):
        active_scopes.imported(_source(full))


def _source(path: str) -> str:
    """What bytecode was made from."""
    try:
        return importlib.util.source_from_cache(path)
    except ValueError:
        return path


def _is_folder(path: str | bytes) -> bool:
    # Of `os.path.isdir` it would be heard that something is looked for.
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _changed(event: str, args: tuple[Any, ...]) -> None:
    # The frames are: this one, the hook, whoever changes it. Prebake does where it lets go of its own.
    if not sys._getframe(2).f_code.co_filename.startswith(HERE):
        _wrote(event, args)


def _wrote(event: str, args: tuple[Any, ...]) -> None:
    """Files and folders that are written, made, moved or changed."""
    record = open_records.by_thread.get(threading.get_ident()) or open_records.of_task.get()
    if record is None or record.closed:
        return
    # What compiled code read of it until now was not this.
    compiled_opens.take(0)
    if event in ("os.link", "os.symlink") and record.temporary:
        # What it leads to may lie elsewhere.
        record.incomplete = record.incomplete or f"{os.fsdecode(args[1])} is a link to another file"
    if event in _TAKE_AWAY and isinstance(args[0], (str, bytes, os.PathLike)):
        record.removes(absolute(os.fspath(args[0])))
    if event in _REMOVE:
        return
    for path in args[:2] if event in _TO_ANOTHER else args[:1]:
        if isinstance(path, (str, bytes, os.PathLike)):
            record.wrote(absolute(os.fspath(path)))


#: Of these the second argument is a name as well.
_TO_ANOTHER = ("os.rename", "os.link", "os.symlink")
_REMOVE = ("os.remove", "os.rmdir")
_TAKE_AWAY = (*_REMOVE, "os.rename")


def _temporary(event: str, args: tuple[Any, ...]) -> None:
    record = mine(f"{event} is called")
    if record is not None:
        record.temporary.add(absolute(args[0]))


def _list(event: str, args: tuple[Any, ...]) -> None:
    # The frames are: this one, the hook, whoever lists.
    caller = sys._getframe(2)
    if caller.f_code.co_filename.startswith((*IMPORTERS, _METADATA, HERE)):
        return
    path = os.curdir if args[0] is None else args[0]
    if isinstance(path, int):
        path = os.readlink(f"/proc/self/fd/{path}")
    full = absolute(path)
    record = mine(f"{full} is listed")
    if record is not None:
        record.folder(full)
        if event == "os.scandir" and caller.f_globals.get("__name__") not in _LISTERS:
            # Its entries tell what each is, and how large, and of that nothing is heard.
            record.scanned[full] = None


def _is_of_code(frame: types.FrameType | None) -> bool:
    """Whether who looks at a file of code has it run, or shows a line of it: what runs is an input by
    itself."""
    shows = frame is not None and frame.f_globals.get("__name__") in ("linecache", "inspect")
    return shows or is_packages(frame)


def _open_file(number: int) -> str:
    """The path of an open file; empty of what is no file, or has none any more."""
    with contextlib.suppress(OSError):
        path = os.readlink(f"/proc/self/fd/{number}")
        return path if path.startswith("/") and not path.endswith(" (deleted)") else ""
    return ""


_ATTRIBUTES = ("os.getxattr", "os.listxattr")


def _look(event: str, args: tuple[Any, ...]) -> None:
    # The time of a file's last change of any kind tells of its attributes too.
    (path, *_), names = ((args[0],), None) if event in _ATTRIBUTES else args
    # The frames are: this one, the hook, whoever looks.
    caller = sys._getframe(2)
    if caller.f_code.co_filename.startswith((*IMPORTERS, _METADATA)):
        return
    full = absolute(path) if not isinstance(path, int) else _open_file(path)
    if not full or not stat_observations.counts(full, caller) or full.startswith(ROOTS):
        return
    if full.endswith(CODE_SUFFIXES) and _is_of_code(stat_observations.for_whom(caller)):
        return
    record = mine(f"{full} is looked for")
    if record is None:
        return
    if names is not None and "dir_fd" in names and not isinstance(path, int) and full != os.fsdecode(path):
        record.incomplete = record.incomplete or f"{os.fsdecode(path)} is looked for relative to some folder"
    if packages.is_of_package(caller.f_code.co_filename):
        record.by_packages.add(full)
    depth = (
        stat_observations.asked(caller)
        if event in ("os.stat", "os.lstat", "os.fstat")
        else stat_observations.ALL
    )
    if event == "os.fstat" and (is_packages(caller) or caller.f_code.co_filename.startswith(ROOTS)):
        # How much there is to be read.
        depth = stat_observations.SIZE
    record.look(full, depth)


def _database(event: str, args: tuple[Any, ...]) -> None:
    name = os.fsdecode(args[0])
    if name.startswith("file:"):
        name = urllib.parse.unquote(urllib.parse.urlsplit(name).path)
    if name in ("", ":memory:"):
        return
    record = mine(f"{name} is opened")
    if record is not None:
        for suffix in _SQLITE_FILES:
            record.read(absolute(name + suffix))


def _library(event: str, args: tuple[Any, ...]) -> None:
    # A bare name is one of the system's libraries.
    if args[0] is None or "/" not in os.fsdecode(args[0]):
        return
    full = absolute(args[0])
    record = open_records.by_thread.get(threading.get_ident())
    if record is not None and not full.startswith(ROOTS):
        record.read(full)


_TO_ADDRESS = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind")


def _network(event: str, args: tuple[Any, ...]) -> None:
    is_recorded = threading.get_ident() in open_records.by_thread
    if event == "socket.getaddrinfo" and store_clients.awaited and not is_recorded:
        # In a thread of the event loop's; what it is for connects in the loop.
        return
    target = args[1] if event in _TO_ADDRESS else args[0]
    record = mine(f"{event} is called")
    if record is not None:
        record.network = record.network or f"{event} {target!r}"[:200]


def got_object(client: Any, operation: str, parameters: dict[str, Any], answer: Any) -> None:
    """What a known client got; see `clients`."""
    if store_clients.inside.get() or not open_records.are_open():
        return
    try:
        _got(client, operation, parameters, answer)
    except Exception as error:
        # An error raised here would be the user's.
        for record in open_records.all_open():
            record.incomplete = record.incomplete or f"S3 {operation}: {type(error).__name__}"


def _got(client: Any, operation: str, parameters: dict[str, Any], answer: Any) -> None:
    record = mine("an object store is asked")
    if record is None or operation in store_clients.HARMLESS:
        return
    if operation not in store_clients.READS:
        record.network = record.network or f"S3 {operation}"
        return
    got = object_store.Object(parameters["Bucket"], parameters["Key"], parameters.get("VersionId", ""))
    with store_clients.own():
        known = object_store.store.endpoint()
    if client.meta.endpoint_url != known:
        record.network = f"S3 at {client.meta.endpoint_url}, where AWS_ENDPOINT_URL does not lead"
    record.got(got.url, None if answer is None else object_store.tag(answer))


def _find_class(event: str, args: tuple[Any, ...]) -> None:
    module, name = args
    if type(module) is str and type(name) is str:
        active_scopes.found_class(module, name)


def _process(event: str, args: tuple[Any, ...]) -> None:
    if args and args[0] in _COUNTS_PROCESSORS and is_packages(sys._getframe(2)):
        return
    record = mine(f"{event} is called")
    if record is not None:
        record.process = record.process or f"{event} {args[0] if args else ''}"[:200].strip()


EVENTS: dict[str, Callable[[str, tuple[Any, ...]], None]] = {
    "open": _open,
    **dict.fromkeys(
        (
            *("os.mkdir", "os.truncate", "os.chmod", "os.chown", "os.utime", "os.setxattr", "os.removexattr"),
            *(*_TO_ANOTHER, *_REMOVE),
        ),
        _changed,
    ),
    **dict.fromkeys(("os.listdir", "os.scandir"), _list),
    **dict.fromkeys(("os.stat", "os.lstat", "os.fstat", "os.access", "os.readlink", *_ATTRIBUTES), _look),
    **dict.fromkeys(("tempfile.mkdtemp", "tempfile.mkstemp"), _temporary),
    "sqlite3.connect": _database,
    "ctypes.dlopen": _library,
    "pickle.find_class": _find_class,
    **dict.fromkeys(
        (
            *_TO_ADDRESS,
            "socket.getaddrinfo",
            "socket.gethostbyname",
            "socket.gethostbyaddr",
        ),
        _network,
    ),
    **dict.fromkeys(
        (
            "subprocess.Popen",
            "os.system",
            "os.exec",
            "os.fork",
            "os.forkpty",
            "os.posix_spawn",
            "pty.spawn",
        ),
        _process,
    ),
}
