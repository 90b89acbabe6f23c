"""Gives several caches the same damage: `damage.py --python caches=PATH --python tf=PATH --out FILE`.

Each cache stores the same values. A trial takes the folder as it was stored, damages it in one way, or kills
the process that fills it, and reads all values in a new process. It is

- `right` if all bytes are right, whether they were stored or made anew,
- `error` if the job got an exception, or died,
- `wrong` if the job got other bytes, fewer values or another order, and was not told,
- `hang` if the job did not end.

The run ends with 1 if Prebake was anything but right. A trial's draws come from the seed, the cache, the kind
and the trial's number alone: `--seed S --cache NAME --kind KIND --first N --trials 1` makes one again. What a
cache draws itself, such as names of its files, is drawn anew.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cache import KILL, UNHARMED, Cache
from damages import KINDS
from table import lines, table

#: The environment and the module of each.
CACHES = {
    "prebake": ("prebake", "caches.cached"),
    "joblib": ("caches", "caches.joblib_memory"),
    "diskcache": ("caches", "caches.disk_cache"),
    "datasets": ("caches", "caches.hf"),
    "litdata": ("caches", "caches.lit_data"),
    "tf.data cache": ("tf", "caches.tf_cache"),
    "tf.data snapshot": ("tf", "caches.tf_snapshot"),
}
ALL_KINDS = (*KINDS, KILL)


class Run:
    """All trials of some caches."""

    def __init__(self, seed: int, keep: Path | None) -> None:
        self.seed = seed
        self.keep = keep
        self.caches: list[Cache] = []
        self.trials: list[dict[str, Any]] = []
        self.controls: list[dict[str, Any]] = []

    def start(self, name: str, python: str, folder: Path) -> None:
        """Stores, and reads once without damage: a cache that is not right then is not tried."""
        cache = Cache(name, CACHES[name][1], python, folder / CACHES[name][1])
        self.caches.append(cache)
        cache.store()
        control = cache.trial(UNHARMED, random.Random(0))
        self.controls.append(control)
        if control["outcome"] != "right":
            raise RuntimeError(f"{name} is not right without damage: {control}")

    def trial(self, cache: Cache, kind: str, number: int) -> None:
        """One, by its number."""
        found = cache.trial(kind, random.Random(f"{self.seed} {cache.name} {kind} {number}"))
        self.trials.append({"number": number, **found})
        if self.keep and found["outcome"] != "right":
            cache.keep(self.keep / f"{cache.name} {kind} {number}".replace(" ", "-"))

    def findings(self) -> list[str]:
        """What Prebake may not do."""
        return [
            f"{trial['kind']} {trial['number']} of seed {self.seed}: {trial['outcome']}, {trial['note']}"
            for trial in self.trials
            if trial["cache"] == "prebake" and trial["outcome"] != "right"
        ]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=15, help="of each kind, for each cache")
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=700.0, help="no trial begins after so many")
    parser.add_argument(
        "--python", action="append", default=[], metavar="NAME=PATH", help="an environment's Python"
    )
    parser.add_argument("--cache", action="append", choices=CACHES, help="only this one")
    parser.add_argument("--kind", action="append", choices=ALL_KINDS, help="only this one")
    parser.add_argument("--keep", type=Path, help="where folders are kept of which a read was not right")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def main() -> int:
    """Trials go round the caches, so that a run that is cut short has as many of each."""
    given = arguments()
    until = time.monotonic() + given.seconds
    pythons = {"prebake": sys.executable, **dict(each.split("=", 1) for each in given.python)}
    names = [name for name in given.cache or CACHES if CACHES[name][0] in pythons]
    for name in sorted({*(given.cache or CACHES)} - {*names}):
        print(f"{name}: not run, since --python {CACHES[name][0]}=PATH is not given", file=sys.stderr)
    run = Run(given.seed, given.keep)
    print(f"seed {given.seed}, trials {given.first} to {given.first + given.trials - 1} of each kind")
    with tempfile.TemporaryDirectory(prefix="prebake-damage-") as folder:
        try:
            for name in names:
                run.start(name, pythons[CACHES[name][0]], Path(folder))
            for number in range(given.first, given.first + given.trials):
                if time.monotonic() > until:
                    print(f"its time is over: trials from {number} on are not run", file=sys.stderr)
                    break
                for cache in run.caches:
                    for kind in given.kind or ALL_KINDS:
                        run.trial(cache, kind, number)
        finally:
            for cache in run.caches:
                cache.close()
    versions = {cache.name: cache.versions for cache in run.caches}
    made = {"seed": given.seed, "versions": versions, "controls": run.controls, "trials": run.trials}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(made, indent=1) + "\n")
    print(table(run.trials), *lines(run.trials, versions), sep="\n")
    findings = run.findings()
    print(*findings, sep="\n", end="\n" if findings else "", file=sys.stderr)
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
