"""Prebake against what people use instead: warm reads of new jobs, and cold jobs against flock and memmap.

`python peer_rows.py TASK OUT`, where there is no network but loopback: some peers' servers listen on every
interface.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from elements import make_files
from peer_jobs import Jobs, PeerError, Read, Servers, Side
from peers import PASSES
from processes import cache_environment
from rivals import OWN, RIVALS, Rival
from rows import Row
from warm import wait_until_stored
from work import make_raw, make_text

from prebake.demo.daemon import PrivateDaemon
from prebake.demo.pipeline import COUNT_FILE

#: Everything must fit.
RAM_BYTES = 3 << 30
#: A file's `stat` is trusted once the file has been left alone for two seconds.
SETTLE_SECONDS = 2.5
#: What a producer makes ahead for those who just read is done by then, and is no cost of who reads next.
QUIET_SECONDS = 0.5
#: Images that another job made before, so that its probe is known.
BEFORE = 2
COLD_JOBS = 4
#: Ten pairs do not say of a row near its bar on which side it lies: so many times as many.
MORE_PAIRS = 3
#: So many passes over small sets take a tenth of a second.
PASSES_STEADY = {"seeds": 1, "text": 6, "audio": 40, "train": 2}


class PeerRows:
    """Rows of one run, of what `peer_half.py` gives."""

    def __init__(self, task: dict[str, Any], folder: Path) -> None:
        self.task = task
        self.folder = folder
        self.rows: list[Row] = []
        self.not_run: dict[str, str] = {}
        self.inputs = {name: folder / name for name in ("raw", "seeds", "eval")}
        self.inputs["train"] = self.inputs["eval"]

    def measure(self) -> None:
        """All rows, in the order of the table."""
        make_raw(self.inputs["raw"], self.task["items"])
        make_files(self.inputs["seeds"], self.task["seeds"])
        self.inputs["eval"].mkdir()
        for number, path in enumerate(self.task["photographs"]):
            shutil.copy(path, self.inputs["eval"] / f"{number:05}.jpg")
        if self.task["text"]:
            self.inputs["text"] = self.folder / "text"
            make_text(Path(self.task["text"]), self.inputs["text"], self.task["paragraphs"])
        if self.task["audio"]:
            self.inputs["audio"] = Path(self.task["audio"])
        time.sleep(SETTLE_SECONDS)
        self._cold()
        with PrivateDaemon(self.folder, "--ram-bytes", str(RAM_BYTES)) as daemon:
            self._fill(daemon)
            self._steady(daemon)
            for rival in RIVALS:
                self._told(rival.name)
                try:
                    self.rows += self._rival(daemon, rival)
                except PeerError as error:
                    self.not_run[rival.name] = str(error)

    def _told(self, name: str) -> None:
        print(f"{time.strftime('%T')} {name}", file=sys.stderr, flush=True)

    def _pairs(self, row: Row) -> int:
        return int(self.task["pairs"]) * (1 if row.bar is None else MORE_PAIRS)

    def _python(self, environment: str) -> str:
        if environment == OWN:
            return sys.executable
        if environment not in self.task["environments"]:
            raise PeerError(f"its environment, {environment}, was not given")
        python = str(self.task["environments"][environment])
        if not Path(python).exists():
            raise PeerError(f"its environment, {environment}, could not be made here")
        return python

    def _ours(self, daemon: PrivateDaemon, peer: str = "cached", environment: str = OWN) -> Side:
        counted = {COUNT_FILE: str(self.folder / "decodes")}
        return Side(peer, self._python(environment), daemon.folder, {**cache_environment(daemon), **counted})

    def _theirs(self, peer: str, environment: str, place: Path) -> Side:
        place.mkdir(exist_ok=True)
        off = {"PREBAKE": "off", COUNT_FILE: str(self.folder / "decodes")}
        return Side(peer, self._python(environment), place, off)

    def _filled(self, side: Side, work: str) -> Side:
        with Jobs(side, work, self.inputs[work]) as jobs:
            jobs.fill()
        return side

    def _fill(self, daemon: PrivateDaemon) -> None:
        stored = 0
        for work in self.inputs:
            with Jobs(self._ours(daemon), work, self.inputs[work]) as jobs:
                size = jobs.read(1, warm=False).size
            # Of `train` only the first step's elements are stored.
            stored += size if work != "train" else 0
        wait_until_stored(daemon, stored)

    def _cold(self) -> None:
        """Jobs that start together with nothing there, each in an order of its own."""
        row = Row(
            "vs_flock_memmap_cold4", f"{COLD_JOBS} cold jobs / the same by flock and memmap", "higher", 0.95
        )
        before = self.folder / "before"
        before.mkdir()
        for path in self.task["photographs"][:BEFORE]:
            shutil.copy(path, before)
        time.sleep(SETTLE_SECONDS)
        pairs = self._pairs(row)
        for number in range(pairs):
            self._told(f"cold {number + 1}/{pairs}")
            with tempfile.TemporaryDirectory(dir=self.folder) as made, PrivateDaemon(Path(made)) as daemon:
                self._filled_from(self._ours(daemon), before)
                ours, row.versions = self._read_cold(self._ours(daemon), number)
            with tempfile.TemporaryDirectory(dir=self.folder) as made:
                theirs, _ = self._read_cold(self._theirs("flock", OWN, Path(made)), number)
            row.add([_ratio(ours, theirs)])
            row.speeds.append((ours.speed, theirs.speed))
        self.rows.append(row)

    def _filled_from(self, side: Side, inputs: Path) -> None:
        with Jobs(side, "eval", inputs) as jobs:
            jobs.fill()

    def _read_cold(self, side: Side, number: int) -> tuple[Read, dict[str, str]]:
        with Jobs(side, "eval", self.inputs["eval"], COLD_JOBS) as jobs:
            return jobs.read(1, seed=number, warm=False), jobs.versions

    def _steady(self, daemon: PrivateDaemon) -> None:
        """Jobs that are kept, pass after pass."""
        rows = [
            (
                "seeds",
                None,
                Row("vs_flock_memmap_warm", "in order / the flock script", "higher", 0.95),
                "flock",
            )
        ]
        for work, of in (("text", "ragged int32 tokens"), ("audio", "ragged float32 spectra")):
            for name, seed in (("seq", None), ("shuffled", 1)):
                told = f"{of}, {'in order' if seed is None else 'shuffled'} / memmap and offsets"
                rows.append((work, seed, Row(f"{work}_{name}_vs_memmap", told, "higher"), "memmap_ragged"))
        for work, seed, row, peer in rows:
            if work not in self.inputs:
                self.not_run[row.id] = f"no folder was given ({work.upper()}=)"
                continue
            self._told(row.id)
            theirs = self._filled(self._theirs(peer, OWN, self.folder / f"{peer}-{work}"), work)
            self.rows.append(self._kept(row, self._ours(daemon), theirs, work, 1, seed))

    def _rival(self, daemon: PrivateDaemon, rival: Rival) -> list[Row]:
        if rival.listens and not self.task["alone"]:
            raise PeerError(
                "its servers listen on every interface, and no network namespace can be made here"
            )
        ours = self._ours(daemon, rival.ours, rival.ours_environment)
        theirs = self._theirs(rival.peer, rival.environment, self.folder / rival.name)
        inputs = self.inputs[rival.work]
        if not rival.serves:
            return self._against(rival, ours, self._filled(theirs, rival.work))
        with Servers(theirs, rival.work, inputs):
            if not rival.steady:
                self._filled(theirs, rival.work)
            return self._against(rival, ours, theirs)

    def _against(self, rival: Rival, ours: Side, theirs: Side) -> list[Row]:
        rows = []
        for jobs in rival.jobs:
            one = jobs == 1
            row = Row(
                f"warm{'' if one else jobs}_vs_{rival.name}",
                f"{'a new job' if one else f'{jobs} jobs'} / {rival.of}",
                "higher",
                rival.bar if one else None,
            )
            if rival.steady:
                rows.append(self._kept(row, ours, theirs, rival.work, jobs, 1, same_bytes=rival.same_bytes))
                continue
            later = Row(
                f"steady{row.id.removeprefix('warm')}", f"{row.of}, from its second pass on", "higher"
            )
            for _ in range(self._pairs(row)):
                self._new(row, later, ours, theirs, rival.work, jobs)
            rows += [row, later]
        return rows

    def _new(self, row: Row, later: Row, ours: Side, theirs: Side, work: str, jobs: int) -> None:
        """One pair of new jobs, from their first request to the last batch of their last pass."""
        inputs = self.inputs[work]
        with Jobs(ours, work, inputs, jobs) as first, Jobs(theirs, work, inputs, jobs) as second:
            pair = first.read(PASSES), second.read(PASSES)
            row.versions = later.versions = {**first.versions, **second.versions}
        row.add([_ratio(*pair)])
        row.speeds.append((pair[0].speed, pair[1].speed))
        rest = pair[0].after_first(), pair[1].after_first()
        later.add([_ratio(*rest)])
        later.speeds.append((rest[0].speed, rest[1].speed))

    def _kept(
        self,
        row: Row,
        ours: Side,
        theirs: Side,
        work: str,
        jobs: int,
        seed: int | None,
        same_bytes: bool = True,
    ) -> Row:
        inputs, passes = self.inputs[work], PASSES_STEADY[work]
        with Jobs(ours, work, inputs, jobs) as first, Jobs(theirs, work, inputs, jobs) as second:
            row.versions = {**first.versions, **second.versions}
            for number in range(-1, self._pairs(row)):
                pair = []
                for side in (first, second):
                    # Its first pass is of what was made ahead while the other side read.
                    pair.append(side.read(1 + passes, seed).after_first())
                    time.sleep(0 if same_bytes else QUIET_SECONDS)
                if number >= 0:
                    row.add([_ratio(pair[0], pair[1], same_bytes=same_bytes)])
                    row.speeds.append((pair[0].speed, pair[1].speed))
        return row


def _ratio(ours: Read, theirs: Read, *, same_bytes: bool = True) -> float:
    """Our speed over theirs. Raises if they did not read the same."""
    same = ours.counts == theirs.counts and ours.sums == theirs.sums and len(ours.sums) == 1
    if same_bytes and not same:
        raise PeerError(f"it read {theirs.counts}, sums {theirs.sums}; we {ours.counts}, {ours.sums}")
    return ours.speed / theirs.speed


def main() -> None:
    """The command line."""
    task, out = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="prebake-peers-") as folder:
        rows = PeerRows(task, Path(folder))
        rows.measure()
    out.write_text(json.dumps({"rows": [asdict(row) for row in rows.rows], "not_run": rows.not_run}))


if __name__ == "__main__":
    main()
