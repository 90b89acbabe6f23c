"""What compiled code opens (`cv2.imread`, HDF5, Arrow), of which Python has no event: the native module hears
of it where the C library is called, and each record is told what was opened for it."""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from typing import Any

from prebake.reads import open_records
from prebake.reads.library_roots import CODE_SUFFIXES, ROOTS
from prebake.reads.record import Record, stat_of
from prebake.reads.settled import Stat
from prebake.reads.startup_files import is_startup

#: How what lies beside a database is called, after that.
_BESIDE = ("-shm", "-lock")
_LEFT_BESIDE = (*_BESIDE, "-wal", "-journal")
#: Files by which clients of servers find and trust them.
CLIENT_FILES = (".pem", ".crt", "openssl.cnf", "/etc/resolv.conf", "/etc/hosts", "/etc/gai.conf")
_RANDOM = ("/dev/urandom", "/dev/random")
#: What the machine says of itself.
_MACHINE = ("/proc/", "/sys/", "/dev/null", "/dev/tty", "/dev/nvidia", "/dev/dri", "/dev/kfd")

#: What a file is opened for, as the native module says (`opens.rs`), where it is not only to read it.
_UPDATES, _WRITES, _MAKES, _NEW, _LISTS, _LOOKS = "u", "w", "m", "n", "l", "s"

#: Whether a tracer tells of what is not heard.
is_traced = False
_native: Any = None
with contextlib.suppress(ImportError):
    _native = importlib.import_module("prebake._native")


def take(begins: int) -> None:
    """Has each open record told what was opened for it until now: at the latest before it is told what was
    changed since. So many more are about to begin."""
    if _native is None:
        return
    try:
        opens, is_all = _native.take_opens(begins, list(open_records.by_thread))
        for thread, path, purpose, stat in opens:
            if not _is_left_out(path):
                is_known = thread in open_records.by_thread
                for record in _records(thread, path):
                    _tell(record, path, purpose, stat, is_known)
    except BaseException:
        # A handler of a signal may raise anything anywhere.
        _all_incomplete("it was interrupted")
        raise
    if not is_all and not is_traced:
        _all_incomplete("a library was loaded that opens files unheard")


def _all_incomplete(why: str) -> None:
    for record in open_records.all_open():
        record.incomplete = record.incomplete or why


if hasattr(os, "register_at_fork"):
    # What its parent heard is none of a child's.
    os.register_at_fork(after_in_child=lambda: _native and _native.forget_opens())


def _is_left_out(path: str) -> bool:
    if path.startswith(_MACHINE) or _is_beside(path) or is_of_clients(path):
        return True
    # Libraries are named by ways that go up and down.
    path = os.path.normpath(path)
    return is_startup(path) or path.startswith(ROOTS) and path.endswith(CODE_SUFFIXES)


def is_of_clients(path: str) -> bool:
    """Whether the system or a package has it for clients of servers, to find and trust them."""
    return path.endswith(CLIENT_FILES) and path.startswith(("/etc/", "/usr/", *ROOTS))


def _is_beside(path: str) -> bool:
    """Whether it is of a database: it comes and goes with its readers."""
    folder, name = os.path.split(path)
    beside = os.path.join(folder, "data.mdb") if name == "lock.mdb" else _of_database(path)
    return beside != "" and os.path.exists(beside)


def _of_database(path: str) -> str:
    return next((path.removesuffix(each) for each in _BESIDE if path.endswith(each)), "")


def _records(thread: int, path: str) -> list[Record]:
    own = open_records.by_thread.get(thread)
    if own is not None:
        return [own]
    if thread == threading.main_thread().ident:
        return []
    if thread in open_records.python_threads():
        open_records.each_incomplete(f"{path} is opened or looked for in a thread of its own")
        return [open_records.of_others] if open_records.of_others else []
    # One that compiled code began works for whoever waits for it.
    return open_records.all_open()


def _tell(record: Record, path: str, purpose: str, stat: Stat | None, is_sole: bool) -> None:
    if purpose in (_MAKES, _NEW, _WRITES):
        record.wrote(path)
        # What is made for one record another may have read.
        if purpose != _WRITES and is_sole:
            record.made(path)
    elif purpose == _LISTS:
        record.folder(path)
        if stat_of(path) != stat:
            record.incomplete = record.incomplete or f"{path} may have changed since it was listed"
    elif purpose == _LOOKS:
        # What else is looked for beside a database is whether it was left as it is.
        if not path.startswith(ROOTS) and not path.endswith(_LEFT_BESIDE):
            record.look_as(path, stat)
    elif path in _RANDOM:
        if not record.draws_apart:
            record.incomplete = record.incomplete or f"it draws random bytes from {path}"
    else:
        record.read_as(path, stat)
        if purpose == _UPDATES:
            record.may_write(path, stat)
