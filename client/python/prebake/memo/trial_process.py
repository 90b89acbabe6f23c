"""The process that runs a function again beside the job that computed it; see `trial/trial.py`.

Started as `python -m prebake.memo.trial_process` with a `Task` on stdin. It outlives the job: whoever comes
next is to find what it found.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from typing import Any

from prebake.leases.client import found_once
from prebake.probe import probe
from prebake.probe.analysis import Verdict
from prebake.reads.record import content_of, stat_of
from prebake.reads.startup_files import is_known
from prebake.runtime.errors import Code
from prebake.trial.trial import OF_ANY_INPUT, SECONDS_MAX, UNPROVEN, Task, entry, judged, untold

#: A job writes its inputs anew, the same each time, as it begins: that ends soon.
RUNS_MAX = 3


def main() -> None:
    """Tries what stdin says, and keeps what is found."""
    task = Task(*pickle.load(sys.stdin.buffer))

    def find() -> tuple[str, str]:
        # The lease is held: who looks for the outcome from now on waits for it.
        os.close(1)
        # Only now: the job may wait for it to begin, and a busy machine would never let it.
        _be_idle()
        with contextlib.suppress(_NothingFound):
            for headers in task.headers:
                verdict = _verdict(task, headers[0])
                found = _found(task, verdict, headers[1])
                if found is not None:
                    return found
            found = None if task.others else untold(verdict, task)
            if found is not None:
                return found
        if task.others:
            # The first call alone may be proven by now: these have to be compared.
            return "", UNPROVEN
        raise _NothingFound

    def open_items(job: Any) -> Any:
        return entry(job, task.digest)

    with contextlib.suppress(_NothingFound):
        found_once(open_items, find)


def _found(task: Task, verdict: Verdict, by_this_clock: bytes) -> tuple[str, str] | None:
    found = judged(verdict, task)
    if verdict.reason == probe.DIFFERS and _is_same(task, by_this_clock):
        # Nothing but the clock was another one.
        return Code.CLOCK, f"{task.name}: its value depends on when it is called"
    return found


def _is_same(task: Task, header: bytes) -> bool:
    return judged(_verdict(task, header), task) == ("", "")


def _verdict(task: Task, header: bytes) -> Verdict:
    for _ in range(RUNS_MAX):
        # Else what it read was changed since.
        if not _are_as_read(task):
            break
        before = _stats(task)
        others = task.others, task.expected_others
        verdict = probe.again(header, task.objects, task.expected, SECONDS_MAX * 6, others)
        found = judged(verdict, task)
        if found is not None and found[0] in OF_ANY_INPUT:
            return verdict
        # A file that is not among them is new: the second run was of other input.
        read = {path for paths in verdict.reads.values() for path in paths} | set(verdict.shared)
        if any(path not in task.stats and not is_known(path) for path in read):
            break
        # The same value is the same. Another may be of a file that was being written anew meanwhile.
        if _stats(task) == before or found == ("", "") and _are_as_read(task):
            return verdict
    raise _NothingFound


def _stats(task: Task) -> list[Any]:
    return [stat_of(path) for path in task.stats]


def _are_as_read(task: Task) -> bool:
    return all(
        (now := stat_of(path)) == stat or content_of(path, now) == task.contents.get(path, b"")
        for path, stat in task.stats.items()
    )


class _NothingFound(BaseException):
    """Nothing to keep; no error of the user's, and so not told of as one."""


def _be_idle() -> None:
    """The machine is the jobs'."""
    with contextlib.suppress(OSError):
        os.nice(19)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


if __name__ == "__main__":
    main()
