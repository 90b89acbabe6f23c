"""What a fill opens: the files and folders that a value was made from, as Python's audit hook tells.

The hook hears of what goes through Python, and the native module of files that are only looked at
(`os.stat`). What compiled code opens (`cv2.imread`, HDF5) or looks for is not heard of; the probe finds it by
running under the tracer.
"""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import importlib.util
import os
import shutil
import site
import stat
import sys
import sysconfig
import threading
import types
import urllib.parse
from collections.abc import Callable, Iterable
from typing import Any

from prebake.reads import object_store, stat_observations
from prebake.reads.record import Record
from prebake.runtime import daemon, packages, store_clients, worker_rank
from prebake.runtime.here import HERE
from prebake.world import executed, opened
from prebake.world.executed import Scope

#: Files that hold code. Code has an identity of its own.
CODE_SUFFIXES = (".py", ".pyc", ".so")

#: Of what the interpreter opens itself, the code says that it was the interpreter.
_IMPORTERS = ("<frozen importlib", "<frozen zipimport")
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
#: Threads that hand on what others made, by what they run: a loader's worker sends its batches with them,
#: over sockets, while the next item is loaded. Nothing of theirs comes back to a fill.
_CARRIERS = frozenset(
    {
        ("multiprocessing.queues", "_feed"),
        ("multiprocessing.resource_sharer", "_serve"),
        ("torch.utils.data._utils.pin_memory", "_pin_memory_loop"),
    }
)
#: Beside a database, files that hold what is not in it yet.
_SQLITE_FILES = ("", "-wal", "-journal")


def roots() -> tuple[str, ...]:
    """Folders of the standard library and of installed packages, each with a separator at its end. Not the
    prefix as a whole: with a prefix of /usr a user's data may lie in it."""
    found = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {entry for entry in sys.path if os.path.basename(entry) in ("site-packages", "dist-packages")}
    found.add(site.USER_SITE or "")
    return tuple(sorted(os.path.join(each, "") for each in found if each))


#: Where Python looks for all of its library in one file, which hardly any installation has.
_ZIPPED = os.path.join(
    sys.base_prefix, sys.platlibdir, f"python{sys.version_info.major}{sys.version_info.minor}.zip"
)
_ROOTS = (*roots(), _ZIPPED)


class Recorder:
    """Records what the calling thread opens while inside:

        with Recorder() as record:
            value = compute(i)

    Opens of threads that do not record themselves cannot be attributed: one in another thread than the main
    one makes every open record incomplete, unless with `background` it takes them for its own. Recorders
    nest; the outer one sees all. What code runs is watched in `scope`, of this record alone if none is given.
    """

    def __init__(self, background: bool = False, scope: Scope | None = None) -> None:
        self.scope = scope or Scope()
        self._background = Background() if background else None

    def __enter__(self) -> Record:
        _install()
        global _begun
        _begun += 1
        self._record, self._thread = Record(_deaf), threading.get_ident()
        self._record.there = dict(_python_threads())
        self._record.background = self._background is not None
        self._outer = _records.get(self._thread)
        if self._outer is None:
            _helps("makes what is recorded for itself")
        _records[self._thread] = self._record
        # Tasks that this thread starts in an event loop take it with them.
        self._token = _task_record.set(self._record)
        if _hears is not None:
            _hears.record_begins()
        worker_rank.listen(executed.worker_asked)
        self._watched = executed.begin(self.scope)
        return self._record

    def __exit__(self, *_: object) -> None:
        executed.end(self.scope, self._watched)
        if self._background is not None:
            self._record.merge(self._background.record)
            self._background.close()
        if _hears is not None:
            _hears.record_ends()
        _task_record.reset(self._token)
        self._record.closed = True
        if self._outer is None:
            del _records[self._thread]
        else:
            self._outer.merge(self._record)
            _records[self._thread] = self._outer


class Background:
    """Has everything recorded that threads open which do not record themselves, until it is closed. All that
    are open at a time share one record: whose a read is, cannot be told.
    """

    def __init__(self) -> None:
        global _heard, _listeners
        _install()
        with _lock:
            _heard = _heard or Record(_deaf)
            self.record = _heard
            _listeners += 1
        if _hears is not None:
            _hears.record_begins()
        self._open = True

    def close(self) -> None:
        global _heard, _listeners
        if not self._open:
            return
        self._open = False
        if _hears is not None:
            _hears.record_ends()
        with _lock:
            _listeners -= 1
            _heard = _heard if _listeners else None


def also(record: Record) -> None:
    """Takes what was recorded before for a part of what the calling thread is recording."""
    mine = _records.get(threading.get_ident())
    if mine is not None:
        mine.merge(record)
    else:
        _helps("takes what was made before")


def served(paths: Iterable[str]) -> None:
    """Tells the calling thread's open record of files that may not be opened now, since what is made of them
    is there: who takes that depends on them no less. To be called before it is taken."""
    record = _records.get(threading.get_ident())
    if record is None:
        _helps("takes what was made before")
        return
    for path in paths:
        full = _absolute(path)
        if os.path.isdir(full):
            record.folder(full)
        else:
            record.read(full)


def hidden(what: str) -> None:
    """Tells the calling thread's open record that it takes something of which it is not told what it read."""
    record = _records.get(threading.get_ident())
    if record is not None:
        record.incomplete = record.incomplete or f"it takes elements of {what}, which is shared by itself"
    elif _records:
        _helps(f"takes elements of {what}")


def recorders() -> tuple[int, int]:
    """How many threads record now, and how many recorders were begun so far."""
    return len(_records), _begun


#: Recorders that were begun.
_begun = 0
#: What threads opened that do not record themselves, while somebody listens, and how many do.
_heard: Record | None = None
_listeners = 0
#: The record that the running task works for.
_task_record: contextvars.ContextVar[Record | None] = contextvars.ContextVar("prebake_record", default=None)
#: The open records, by thread.
_records: dict[int, Record] = {}
_lock = threading.Lock()
_installed = False
#: The native module, if it is what hears of events and tells of those that matter, while a record is open.
_hears: Any = None
#: An event of ours, by which is found whether any is heard.
_LISTENING = "prebake.listening"
_answered = False
#: Why none is; then nothing that a record holds is all that was read.
_deaf: str | None = None


def listen_to_setup() -> None:
    """Has heard what the process opens until its first element is asked for, and a little longer."""
    _install()
    if _hears is not None:
        _hears.record_begins()
        opened.begin(_hears.record_ends)
    else:
        opened.begin(lambda: None)


def _install() -> None:
    """Audit hooks cannot be removed, so there is one, from the first record on."""
    global _installed, _hears, _deaf
    if _installed:
        return
    with _lock:
        if not _installed:
            native = daemon.native()
            # A hook that was there before may raise here: that is an error, or nothing at all and no hook.
            with contextlib.suppress(Exception):
                if native is not None and native.listen(_hook, [*_EVENTS, _LISTENING]):
                    _hears = native
                    _listen_to_looks(native)
                else:
                    sys.addaudithook(_hook)
            _deaf = None if _is_heard() else "another audit hook refuses Prebake's (at sys.addaudithook)"
            store_clients.listen(_object)
            _installed = True


def _is_heard() -> bool:
    if _hears is not None:
        _hears.record_begins()
    with contextlib.suppress(Exception):
        sys.audit(_LISTENING)
    if _hears is not None:
        _hears.record_ends()
    return _answered


def _listen_to_looks(native: Any) -> None:
    functions = [os.stat, os.lstat, os.access, os.readlink, os.fstat]
    # What is behind a function is a part of its hash: sets that hold it take it out and in again.
    sets = [os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks]
    held = [(each, function) for each in sets for function in functions if function in each]
    for each, function in held:
        each.discard(function)
    native.listen_looks(functions)
    for each, function in held:
        each.add(function)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    # Nothing may come before this: without the native module, every event of the interpreter ends here.
    if not _records and _heard is None:
        if event == _LISTENING:
            global _answered
            _answered = True
        # The names of modules are gone where the interpreter ends.
        if opened and opened.KINDS and event in opened.KINDS and opened.is_listening():
            # Where nothing of Python calls there is no frame.
            with contextlib.suppress(Exception):
                frame = sys._getframe(1)
                if not _is_own(frame) and (event == "open" or not _is_packages(frame)):
                    opened.heard(event, args, _ROOTS)
        return
    handle = _EVENTS.get(event)
    if handle is None or store_clients.inside.get():
        return
    try:
        handle(event, args)
    except Exception as error:
        # An error raised here would be the user's.
        why = f"{event} could not be recorded: {type(error).__name__}"
        for record in [*_records.values(), *([_heard] if _heard else [])]:
            record.incomplete = record.incomplete or why


def _is_own(frame: types.FrameType | None) -> bool:
    """Whether the interpreter looks for a module, or something is done for Prebake."""
    if frame is not None and frame.f_code.co_filename.startswith(_IMPORTERS):
        return True
    while frame is not None and not frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    return frame is not None


def _is_packages(frame: types.FrameType | None) -> bool:
    """Whether an installed package does something, perhaps through the standard library: what it looks for is
    where its user has data."""
    while frame is not None and not packages.is_of_package(frame.f_code.co_filename):
        if not frame.f_code.co_filename.startswith(("<frozen ", *_ROOTS)):
            return False
        frame = frame.f_back
    return frame is not None


def _each_incomplete(why: str) -> None:
    for record in list(_records.values()):
        if not record.background:
            record.incomplete = record.incomplete or why


def _helps(what: str) -> None:
    """Where the running thread was started since a record began, it may work for that: of what it takes or
    makes then, that is not told."""
    number = threading.get_ident()
    running = _python_threads().get(number)
    for record in list(_records.values()):
        # By the thread too: numbers are used again.
        if (running is None or record.there.get(number) is not running) and not record.background:
            why = f"a thread that was started for it {what}"
            record.incomplete = record.incomplete or why


def _python_threads() -> dict[int, threading.Thread]:
    """Those that Python knows, by number."""
    known: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]
    return known


def _mine(what: str) -> Record | None:
    """The record of the running thread. Without one, `what` may be done by a thread that a fill uses."""
    thread = threading.get_ident()
    record = _records.get(thread) or _task_record.get()
    record = None if record is not None and record.closed else record
    if record is None and thread != threading.main_thread().ident and not _carries():
        _each_incomplete(f"{what} in a thread of its own")
        return _heard
    return record


def _carries() -> bool:
    """Whether the running thread only hands on what others made."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) in _CARRIERS:
            return True
        frame = frame.f_back
    return False


def _absolute(path: Any) -> str:
    """A path as it was given, from the root. Dots stay: after a link they do not mean what they seem to."""
    text = os.fsdecode(path)
    return text if text.startswith("/") else os.path.join(os.getcwd(), text)


def _importing() -> bool:
    # The frames are: this one, the event's handler, the hook, whoever opens.
    return sys._getframe(3).f_code.co_filename.startswith(_IMPORTERS)


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
    full = _absolute(path)
    # The frames are: this one, the hook, whoever opens.
    opener = sys._getframe(2)
    if full == os.devnull or full.startswith(_ROOTS) and (full.endswith(CODE_SUFFIXES) or _INFO in full):
        return
    if full.startswith(_MACHINE) and _is_packages(opener):
        # How many processors it may use, once in a process: it is asked by whoever comes first.
        return
    record = _mine(f"{full} is opened") if reads else _records.get(threading.get_ident())
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
        executed.opened(full, opener)


def _imported(path: Any) -> None:
    record = _records.get(threading.get_ident())
    if record is None:
        return
    full = _absolute(path)
    if not full.endswith(CODE_SUFFIXES):
        # Data that lies beside code, read through the importer; or a module inside an archive.
        record.read(full)
    elif not full.startswith(_ROOTS):
        executed.imported(_source(full))


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
    record = _records.get(threading.get_ident()) or _task_record.get()
    if record is None or record.closed:
        return
    if event in ("os.link", "os.symlink") and record.temporary:
        # What it leads to may lie elsewhere.
        record.incomplete = record.incomplete or f"{os.fsdecode(args[1])} is a link to another file"
    if event in _TAKE_AWAY and isinstance(args[0], (str, bytes, os.PathLike)):
        record.removes(_absolute(os.fspath(args[0])))
    if event in _REMOVE:
        return
    for path in args[:2] if event in _TO_ANOTHER else args[:1]:
        if isinstance(path, (str, bytes, os.PathLike)):
            record.wrote(_absolute(os.fspath(path)))


#: Of these the second argument is a name as well.
_TO_ANOTHER = ("os.rename", "os.link", "os.symlink")
_REMOVE = ("os.remove", "os.rmdir")
_TAKE_AWAY = (*_REMOVE, "os.rename")


def _temporary(event: str, args: tuple[Any, ...]) -> None:
    record = _mine(f"{event} is called")
    if record is not None:
        record.temporary.add(_absolute(args[0]))


def _list(event: str, args: tuple[Any, ...]) -> None:
    # The frames are: this one, the hook, whoever lists.
    caller = sys._getframe(2)
    if caller.f_code.co_filename.startswith((*_IMPORTERS, _METADATA, HERE)):
        return
    path = os.curdir if args[0] is None else args[0]
    if isinstance(path, int):
        path = os.readlink(f"/proc/self/fd/{path}")
    full = _absolute(path)
    record = _mine(f"{full} is listed")
    if record is not None:
        record.folder(full)
        if event == "os.scandir" and caller.f_globals.get("__name__") not in _LISTERS:
            # Its entries tell what each is, and how large, and of that nothing is heard.
            record.scanned[full] = None


def _is_of_code(frame: types.FrameType | None) -> bool:
    """Whether who looks at a file of code has it run, or shows a line of it: what runs is an input by
    itself."""
    shows = frame is not None and frame.f_globals.get("__name__") in ("linecache", "inspect")
    return shows or _is_packages(frame)


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
    if caller.f_code.co_filename.startswith((*_IMPORTERS, _METADATA)):
        return
    full = _absolute(path) if not isinstance(path, int) else _open_file(path)
    if not full or not stat_observations.counts(full, caller) or full.startswith(_ROOTS):
        return
    if full.endswith(CODE_SUFFIXES) and _is_of_code(stat_observations.for_whom(caller)):
        return
    record = _mine(f"{full} is looked for")
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
    if event == "os.fstat" and (_is_packages(caller) or caller.f_code.co_filename.startswith(_ROOTS)):
        # How much there is to be read.
        depth = stat_observations.SIZE
    record.look(full, depth)


def _database(event: str, args: tuple[Any, ...]) -> None:
    name = os.fsdecode(args[0])
    if name.startswith("file:"):
        name = urllib.parse.unquote(urllib.parse.urlsplit(name).path)
    if name in ("", ":memory:"):
        return
    record = _mine(f"{name} is opened")
    if record is not None:
        for suffix in _SQLITE_FILES:
            record.read(_absolute(name + suffix))


def _library(event: str, args: tuple[Any, ...]) -> None:
    # A bare name is one of the system's libraries.
    if args[0] is None or "/" not in os.fsdecode(args[0]):
        return
    full = _absolute(args[0])
    record = _records.get(threading.get_ident())
    if record is not None and not full.startswith(_ROOTS):
        record.read(full)


_TO_ADDRESS = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind")


def _network(event: str, args: tuple[Any, ...]) -> None:
    if event == "socket.getaddrinfo" and store_clients.awaited and not _records.get(threading.get_ident()):
        # In a thread of the event loop's; what it is for connects in the loop.
        return
    target = args[1] if event in _TO_ADDRESS else args[0]
    record = _mine(f"{event} is called")
    if record is not None:
        record.network = record.network or f"{event} {target!r}"[:200]


def _object(client: Any, operation: str, parameters: dict[str, Any], answer: Any) -> None:
    """What a known client got; see `clients`."""
    if store_clients.inside.get() or not _records and _heard is None:
        return
    try:
        _got(client, operation, parameters, answer)
    except Exception as error:
        # An error raised here would be the user's.
        for record in [*_records.values(), *([_heard] if _heard else [])]:
            record.incomplete = record.incomplete or f"S3 {operation}: {type(error).__name__}"


def _got(client: Any, operation: str, parameters: dict[str, Any], answer: Any) -> None:
    record = _mine("an object store is asked")
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
        executed.found_class(module, name)


def _process(event: str, args: tuple[Any, ...]) -> None:
    if args and args[0] in _COUNTS_PROCESSORS and _is_packages(sys._getframe(2)):
        return
    record = _mine(f"{event} is called")
    if record is not None:
        record.process = record.process or f"{event} {args[0] if args else ''}"[:200].strip()


_EVENTS: dict[str, Callable[[str, tuple[Any, ...]], None]] = {
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
