"""A cache under trial: its folder as it was stored, the damaged copy, and the process that reads."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import values
from damages import KINDS

JOB = Path(__file__).with_name("damage_job.py")
#: Neither damaged nor different between two trials.
UNHARMED = "none"
KILL = "kill"
#: Reading takes a second or less, so a job that has not ended by then waits for what never comes.
HANG_SECONDS = 15.0
#: Storing may have to start what reading does not.
STORE_SECONDS_MAX = 60.0
#: A kill comes so much later than the value that it waits for, at most: what is last written is written then.
LATE_SECONDS_MAX = 0.05
#: One thread for each library, and no network.
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # Its daemon is started and stopped by the trial.
    "PREBAKE": "on",
    "PREBAKE_AUTOSTART": "0",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}


class Cache:
    """One cache, stored once; its folder always lies at the same path, as its users' does."""

    def __init__(self, name: str, module: str, python: str, place: Path) -> None:
        self.name = name
        self.place = place
        self.folder = place / "cache"
        self._stored = place / "stored"
        place.mkdir(parents=True)
        environment = {**os.environ, **ENVIRONMENT, values.MADE: str(place / "made")}
        # The caller's own folder is not what is damaged.
        environment["PREBAKE_DIR"] = str(self.folder)
        with (place / "job.log").open("wb") as log:
            self._job = subprocess.Popen(
                [python, str(JOB), module, str(place)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                cwd=place,
            )
        self.versions: dict[str, str] = self._answer()

    def close(self) -> None:
        """Ends its process."""
        self._job.kill()
        self._job.communicate()

    def store(self) -> None:
        """Fills the folder that all trials but the kills damage copies of."""
        answer = self._ask({"do": "store", "seconds_max": STORE_SECONDS_MAX})
        if answer["outcome"] != "stored":
            raise RuntimeError(f"{self.name} cannot store: {answer}")
        shutil.copytree(self.folder, self._stored, symlinks=True, ignore=_sockets)

    def trial(self, kind: str, draw: random.Random) -> dict[str, Any]:
        """Damages, reads, and says what was served."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if kind == KILL:
            done = self._killed(draw)
        else:
            shutil.copytree(self._stored, self.folder, symlinks=True)
            done = "" if kind == UNHARMED else KINDS[kind](self.folder, draw)
        answer = self._ask({"do": "read", "seconds_max": HANG_SECONDS})
        return {"cache": self.name, "kind": kind, "done": done, **answer}

    def keep(self, kept: Path) -> None:
        """Copies what is there now, damaged and read, for whoever looks into it."""
        shutil.copytree(self.place, kept, symlinks=True, ignore=_sockets)

    def _killed(self, draw: random.Random) -> str:
        kill_at, late = draw.randint(1, values.COUNT), draw.uniform(0, LATE_SECONDS_MAX)
        request = {"do": "store", "seconds_max": STORE_SECONDS_MAX, "kill_at": kill_at, "late": late}
        answer = self._ask(request)
        return f"{answer['outcome']} with {answer['made']} values made, {late * 1000:.0f} ms after {kill_at}"

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._job.stdin is not None, "it was asked for"
        self._job.stdin.write(json.dumps(request) + "\n")
        self._job.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._job.stdout is not None, "it was asked for"
        line = self._job.stdout.readline()
        if not line:
            log = (self.place / "job.log").read_text()[-2000:]
            raise RuntimeError(f"the process of {self.name} ended: {log}")
        return json.loads(line)


def _sockets(folder: str, names: list[str]) -> list[str]:
    """What cannot be copied, and means nothing without its process."""
    return [name for name in names if (Path(folder) / name).is_socket()]
