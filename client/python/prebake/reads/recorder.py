"""Records what an element opens while it is made."""

from __future__ import annotations

import threading

from prebake.execution import active_scopes, executed
from prebake.execution.scope import Scope
from prebake.reads import audit_hook, captured_output, compiled_opens, open_records
from prebake.reads.record import Record
from prebake.runtime import worker_rank

#: Recorders that were begun.
_begun = 0


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
        audit_hook.install()
        global _begun
        _begun += 1
        self._record, self._thread = Record(audit_hook.deaf()), threading.get_ident()
        self._record.there = dict(open_records.python_threads())
        self._record.background = self._background is not None
        self._outer = open_records.by_thread.get(self._thread)
        # What was opened until now is none of this one's.
        compiled_opens.take(1)
        if self._outer is None:
            open_records.helps("makes what is recorded for itself")
        open_records.by_thread[self._thread] = self._record
        # Tasks that this thread starts in an event loop take it with them.
        self._token = open_records.of_task.set(self._record)
        audit_hook.record_begins()
        worker_rank.listen(active_scopes.worker_asked)
        self._captured = captured_output.Captured()
        self._watched = executed.begin(self.scope)
        return self._record

    def __exit__(self, *_: object) -> None:
        executed.end(self.scope, self._watched)
        self._record.is_captured = self._captured.has_more()
        compiled_opens.take(-1)
        if self._background is not None:
            self._record.merge(self._background.record)
            self._background.close()
        audit_hook.record_ends()
        open_records.of_task.reset(self._token)
        self._record.closed = True
        if self._outer is None:
            del open_records.by_thread[self._thread]
        else:
            self._outer.merge(self._record)
            open_records.by_thread[self._thread] = self._outer


class Background:
    """Has everything recorded that threads open which do not record themselves, until it is closed. All that
    are open at a time share one record: whose a read is, cannot be told.
    """

    def __init__(self) -> None:
        audit_hook.install()
        compiled_opens.take(1)
        self.record = open_records.listen(audit_hook.deaf())
        audit_hook.record_begins()
        self._open = True

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        compiled_opens.take(-1)
        audit_hook.record_ends()
        open_records.stop_listening()


def recorders() -> tuple[int, int]:
    """How many threads record now, and how many recorders were begun so far."""
    return len(open_records.by_thread), _begun
