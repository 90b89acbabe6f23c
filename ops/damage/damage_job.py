"""Stores or reads by one cache: `python damage_job.py MODULE PLACE`, in that cache's environment.

Its first line of output is the versions. Each line of input, JSON, is then answered by one. The imports are
done once; each request runs in a process forked from here, which has used nothing yet: so each is a new
process to its cache, and one that crashes or hangs costs only its own trial.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import values

LOOK_SECONDS = 0.002
#: So long is waited for processes that were killed to be gone.
GONE_SECONDS_MAX = 5.0
NOTE_CHARACTERS = 200
LOG_CHARACTERS = 300


class Job:
    """A cache in a place."""

    def __init__(self, module: Any, place: Path) -> None:
        self._module = module
        self._place = place
        self._made = Path(os.environ[values.MADE])
        values.inputs(place)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Runs one request to its end, to its kill (once so many values are made, and a little later), or to
        its time's end."""
        os.truncate(self._made, 0)
        outcome = self._place / "outcome"
        outcome.unlink(missing_ok=True)
        begun = time.monotonic()
        child = os.fork()
        if child == 0:
            self._run(request["do"], outcome)
        status, killed = self._wait(child, begun + request["seconds_max"], request)
        answer: dict[str, Any] = {"outcome": "error", "note": f"ended with {status}"}
        if killed:
            answer = {"outcome": killed, "note": ""}
        elif os.WIFSIGNALED(status):
            answer["note"] = f"the process died of {signal.Signals(os.WTERMSIG(status)).name}"
        elif outcome.exists():
            answer = json.loads(outcome.read_text())
        log = (self._place / "log").read_text(errors="replace")[-LOG_CHARACTERS:]
        seconds = round(time.monotonic() - begun, 3)
        return {**answer, "made": self._made.stat().st_size, "seconds": seconds, "log": log}

    def _run(self, what: str, outcome: Path) -> None:
        """In the child."""
        os.setsid()
        log = os.open(self._place / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
        try:
            if what == "store":
                self._module.store(self._place)
                found, note = "stored", ""
            else:
                found, note = values.judge(self._module.read(self._place))
        except BaseException as error:
            # What ends a job, whichever it is: some of them are no `Exception`.
            found, note = "error", f"{type(error).__name__}: {error}"[:NOTE_CHARACTERS]
        outcome.write_text(json.dumps({"outcome": found, "note": note}))
        os._exit(0)

    def _wait(self, child: int, deadline: float, request: dict[str, Any]) -> tuple[int, str]:
        kill_at, late = request.get("kill_at"), request.get("late", 0.0)
        killed, kill_time = "", float("inf")
        while True:
            if killed:
                # All its processes, since a cache may write from another one.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
            done, status = os.waitpid(child, 0 if killed else os.WNOHANG)
            if done:
                self._end_group(child)
                return status, killed
            now = time.monotonic()
            if kill_at is not None and kill_time > now + late and self._made.stat().st_size >= kill_at:
                kill_time = now + late
            killed = "killed" if now >= kill_time else "hang" if now >= deadline else ""
            time.sleep(0 if kill_time < float("inf") else LOOK_SECONDS)

    def _end_group(self, group: int) -> None:
        until = time.monotonic() + GONE_SECONDS_MAX
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < until:
                os.killpg(group, signal.SIGKILL)
                time.sleep(LOOK_SECONDS)


def main() -> None:
    """The command line."""
    name, place = sys.argv[1:]
    module = importlib.import_module(name)
    versions = {each: importlib.metadata.version(each) for each in module.PACKAGES}
    job = Job(module, Path(place))
    print(json.dumps(versions), flush=True)
    for line in sys.stdin:
        print(json.dumps(job.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
