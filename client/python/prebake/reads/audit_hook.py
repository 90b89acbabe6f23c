"""The audit hook: hears what goes through Python while an element is made, as `audit_events` takes it.

The native module hears of files that are only looked at (`os.stat`), and of what compiled code opens (see
`compiled_opens`). What that looks for is not heard of.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import types
from typing import Any

from prebake.reads import audit_events, open_records
from prebake.reads.audit_events import EVENTS, IMPORTERS, is_packages
from prebake.reads.library_roots import ROOTS
from prebake.runtime import daemon, store_clients
from prebake.runtime.here import HERE
from prebake.world import opened

_lock = threading.Lock()
_installed = False
#: The native module, if it is what hears of events and tells of those that matter, while a record is open.
_hears: Any = None
#: An event of ours, by which is found whether any is heard.
_LISTENING = "prebake.listening"
_answered = False
#: Why none is; then nothing that a record holds is all that was read.
_deaf: str | None = None


def deaf() -> str | None:
    """Why no event is heard; None if they are."""
    return _deaf


def record_begins() -> None:
    """Has events heard until `record_ends`. Calls nest."""
    if _hears is not None:
        _hears.record_begins()


def record_ends() -> None:
    """Ends it."""
    if _hears is not None:
        _hears.record_ends()


def listen_to_setup() -> None:
    """Has heard what the process opens until its first element is asked for, and a little longer."""
    install()
    if _hears is not None:
        _hears.record_begins()
        opened.begin(_hears.record_ends)
    else:
        opened.begin(lambda: None)


def install() -> None:
    """Audit hooks cannot be removed, so there is one, from the first record on."""
    global _installed, _hears, _deaf
    if _installed:
        return
    with _lock:
        if not _installed:
            native = daemon.native()
            # A hook that was there before may raise here: that is an error, or nothing at all and no hook.
            with contextlib.suppress(Exception):
                if native is not None and native.listen(_hook, [*EVENTS, _LISTENING]):
                    _hears = native
                    _listen_to_looks(native)
                else:
                    sys.addaudithook(_hook)
            _deaf = None if _is_heard() else "another audit hook refuses Prebake's (at sys.addaudithook)"
            store_clients.listen(audit_events.got_object)
            _installed = True


def _is_heard() -> bool:
    record_begins()
    with contextlib.suppress(Exception):
        sys.audit(_LISTENING)
    record_ends()
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
    # Nothing may come before this: without the native module, every event of the interpreter ends here. The
    # names of modules are gone where the interpreter ends.
    if open_records is None or not open_records.by_thread and open_records.of_others is None:
        if event == _LISTENING:
            global _answered
            _answered = True
        if opened and opened.KINDS and event in opened.KINDS and opened.is_listening():
            # Where nothing of Python calls there is no frame.
            with contextlib.suppress(Exception):
                frame = sys._getframe(1)
                if not _is_own(frame) and (event == "open" or not is_packages(frame)):
                    opened.heard(event, args, ROOTS)
        return
    handle = EVENTS.get(event)
    if handle is None or store_clients.inside.get():
        return
    try:
        handle(event, args)
    except Exception as error:
        # An error raised here would be the user's.
        why = f"{event} could not be recorded: {type(error).__name__}"
        for record in open_records.all_open():
            record.incomplete = record.incomplete or why


def _is_own(frame: types.FrameType | None) -> bool:
    """Whether the interpreter looks for a module, or something is done for Prebake."""
    if frame is not None and frame.f_code.co_filename.startswith(IMPORTERS):
        return True
    while frame is not None and not frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    return frame is not None
