"""Puts another user's files, links and sockets in place of a user's: `owners.py [--only WORD] [--quick]`.

Each case is one thing in the folder of a daemon, what somebody else put in its place, and the moment when it
is met. The other must not be served from, run, written to or waited for, and the job must end with its own
values. One line a case tells what came of it; the run ends with 1 if there was one breach.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import strangers
from plants import FORMS, PLACES, fits
from stock import Stock, listens, wait
from trial import MOMENTS, Trial

#: Cases that a test has time for: a place, a form and a moment each.
QUICK = (
    ("folder", "other's", "starting"),
    ("folder", "other's", "autostart"),
    ("folder", "link to other's", "run"),
    ("prebake.sock", "socket", "connecting"),
    ("prebake.sock", "socket", "status"),
    ("data.sock", "socket", "running"),
    ("a segment", "other's", "starting"),
    ("a segment", "all may write", "starting"),
    ("a segment", "link to other's", "starting"),
    ("index", "other's", "starting"),
    ("format", "other's", "autostart"),
    ("lock", "hard link, mine", "starting"),
    ("quarantine.json", "link to other's", "starting"),
    ("segments", "link to mine", "running"),
)


def tried(stock: Stock, arguments: argparse.Namespace) -> list[dict[str, object]]:
    """All that were asked for, each shown as it ends."""
    world = stock.world()
    daemon = stock.serve(stock.other, world.rogue / "c")
    try:
        wait(lambda: listens(world.rogue / "c"), "the other's daemon listens")
        for each in (world.rogue / "c", *(world.rogue / "c").glob("*.sock")):
            each.chmod(0o777)
        trial = Trial(stock, world)
        out = [
            shown(name, said, found)
            for name, said, found in strangers.controls(trial)
            if arguments.only in name
        ]
        for place, form, moment in [(p, f, m) for p in PLACES for f in FORMS for m in MOMENTS if fits(p, f)]:
            name = f"{place.name}, {form}, {moment}"
            asked = (place.name, form, moment) in QUICK if arguments.quick else arguments.only in name
            if asked:
                out.append(shown(name, *trial.run(place, form, moment)))
        out += [
            shown(name, said, found) for name, said, found in strangers.cases(trial) if arguments.only in name
        ]
        return out
    finally:
        stock.me.end_all()
        daemon.terminate()
        daemon.wait()


def shown(name: str, said: str, found: list[str]) -> dict[str, object]:
    """One case, as a line and for the report."""
    print(f"{name}: {said}", flush=True)
    for each in found:
        print(f"    BREACH: {each}", flush=True)
    return {"case": name, "outcome": said, "breaches": found}


def main() -> int:
    """The command line; 1 if there was a breach."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--quick", action="store_true", help="some of each sort")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if os.geteuid():
        print("not run: needs root")
        return 0
    for name in [name for name in os.environ if name.startswith("PREBAKE")]:
        del os.environ[name]
    # Sockets want short paths.
    with tempfile.TemporaryDirectory(prefix="pbo-", dir="/tmp") as name:
        try:
            stock = Stock(Path(name))
            if why := stock.missing():
                print(f"not run: {why}")
                return 0
            out = tried(stock, arguments)
        finally:
            # A disk is not left full of what no other could remove.
            subprocess.run(["chmod", "-R", "u+rwX", name], check=False)
    breaches = sum(len(each["breaches"]) for each in out)  # type: ignore[arg-type, misc]
    print(f"{len(out)} cases, {breaches} breaches")
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(out, indent=1) + "\n")
    return int(not out or breaches > 0)


if __name__ == "__main__":
    sys.exit(main())
