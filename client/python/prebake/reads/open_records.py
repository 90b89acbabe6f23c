"""The records that are open, and which of them takes what runs now."""

from __future__ import annotations

import contextvars
import os
import sys
import threading
import types
from collections.abc import Iterable
from typing import Any

from prebake.reads.record import Record

#: Threads that hand on what others made, by what they run: a loader's worker sends its batches with them,
#: over sockets, while the next item is loaded. Nothing of theirs comes back to an element.
_CARRIERS = frozenset(
    {
        ("multiprocessing.queues", "_feed"),
        ("multiprocessing.resource_sharer", "_serve"),
        ("torch.utils.data._utils.pin_memory", "_pin_memory_loop"),
    }
)

#: The open records, by thread.
by_thread: dict[int, Record] = {}
#: The record that the running task works for.
of_task: contextvars.ContextVar[Record | None] = contextvars.ContextVar("prebake_record", default=None)
#: What threads opened that do not record themselves, while somebody listens, and how many do.
of_others: Record | None = None
_listeners = 0
_lock = threading.Lock()


def are_open() -> bool:
    """Whether any record is."""
    return bool(by_thread) or of_others is not None


def all_open() -> list[Record]:
    """Those that are."""
    return [*by_thread.values(), *([of_others] if of_others else [])]


def listen(deaf: str | None) -> Record:
    """Begins to record what threads open that do not record themselves, until `stop_listening`. Whoever does
    so at a time shares one record. `deaf` says why not all is heard, if that is so."""
    global of_others, _listeners
    with _lock:
        of_others = of_others or Record(deaf)
        _listeners += 1
        return of_others


def stop_listening() -> None:
    """Ends it."""
    global of_others, _listeners
    with _lock:
        _listeners -= 1
        of_others = of_others if _listeners else None


def also(record: Record) -> None:
    """Takes what was recorded before for a part of what the calling thread is recording."""
    own = by_thread.get(threading.get_ident())
    if own is not None:
        own.merge(record)
    else:
        helps("takes what was made before")


def served(paths: Iterable[str]) -> None:
    """Tells the calling thread's open record of files that may not be opened now, since what is made of them
    is there: who takes that depends on them no less. To be called before it is taken."""
    record = by_thread.get(threading.get_ident())
    if record is None:
        helps("takes what was made before")
        return
    for path in paths:
        full = absolute(path)
        if os.path.isdir(full):
            record.folder(full)
        else:
            record.read(full)


def draws_apart() -> None:
    """Tells the calling thread's open record that a library draws random bytes for itself, such as for names
    of its own, and that who calls knows by other means what the value depends on."""
    for record in (by_thread.get(threading.get_ident()), of_others):
        if record is not None:
            record.draws_apart = True


def hidden(what: str) -> None:
    """Tells the calling thread's open record that it takes something of which it is not told what it read."""
    record = by_thread.get(threading.get_ident())
    if record is not None:
        record.incomplete = record.incomplete or f"it takes elements of {what}, which is shared by itself"
    elif by_thread:
        helps(f"takes elements of {what}")


def each_incomplete(why: str) -> None:
    """Of no record is it known any more that it holds all."""
    for record in list(by_thread.values()):
        if not record.background:
            record.incomplete = record.incomplete or why


def helps(what: str) -> None:
    """Where the running thread was started since a record began, it may work for that: of what it takes or
    makes then, that is not told."""
    number = threading.get_ident()
    running = python_threads().get(number)
    for record in list(by_thread.values()):
        # By the thread too: numbers are used again.
        if (running is None or record.there.get(number) is not running) and not record.background:
            why = f"a thread that was started for it {what}"
            record.incomplete = record.incomplete or why


def python_threads() -> dict[int, threading.Thread]:
    """Those that Python knows, by number."""
    known: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]
    return known


def mine(what: str) -> Record | None:
    """The record of the running thread. Without one, `what` may be done by a thread that an element uses."""
    thread = threading.get_ident()
    record = by_thread.get(thread) or of_task.get()
    record = None if record is not None and record.closed else record
    if record is None and thread != threading.main_thread().ident and not _carries():
        each_incomplete(f"{what} in a thread of its own")
        return of_others
    return record


def _carries() -> bool:
    """Whether the running thread only hands on what others made."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) in _CARRIERS:
            return True
        frame = frame.f_back
    return False


def absolute(path: Any) -> str:
    """A path as it was given, from the root. Dots stay: after a link they do not mean what they seem to."""
    text = os.fsdecode(path)
    return text if text.startswith("/") else os.path.join(os.getcwd(), text)
