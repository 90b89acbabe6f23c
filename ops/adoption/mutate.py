"""`make mutations`: the stacks' scripts with one line changed at random, and whether a warm cache follows.

Each script runs as it is with an empty cache. Then it runs changed (`edits.py`), twice at the same time: as
it would be without Prebake, and with the cache that the original and all edits before have filled. Both must
train on the same batches, or both must fail.

So an edit that changes a batch of the run without Prebake must change that of the other in the same way. What
an edit that changes no batch makes be computed again is told beside it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import made
from adoption import HERE, NO_END, SETTLE_SECONDS, Run, Stack
from edits import Edit, edits

from prebake.demo.daemon import PrivateDaemon

#: Few items: what is compared is each of them.
made.IMAGES = made.SOUNDS = 48
made.LINES = 600
#: Stacks of which two cannot run at the same time: their ports are the same.
ALONE = ("torchrun_ddp", "ray_train")
#: The whole is 40 edits of 16 stacks, some hours; what no time was left for is told.
SECONDS_MAX = 4 * 3600


@dataclass
class Tally:
    """What came of a stack's edits."""

    stack: str
    edits: int = 0
    #: Changed a batch without Prebake, ended the script, or changed nothing.
    changing: int = 0
    failing: int = 0
    neutral: int = 0
    #: Ran for too long, or when no time was left.
    unfinished: int = 0
    #: Entries made by edits that changed nothing, and reused by them.
    neutral_made: int = 0
    neutral_reused: int = 0
    #: Edits after which the two runs were not the same.
    wrong: list[str] = field(default_factory=list)
    error: str = ""


def mutate(name: str, bare: Stack, cached: Stack, count: int, seed: int, until: float) -> Tally:
    """Runs a stack's edits, as many as there is time for."""
    tally = Tally(name)
    original = bare.text
    with tempfile.TemporaryDirectory(prefix="prebake-") as folder, PrivateDaemon(Path(folder)) as daemon:
        try:
            first = bare.run("original", None, until).batches
            made_at_first = cached.run("original", daemon, until).batches
        except RuntimeError as error:
            tally.error = str(error)
            return tally
        if first != made_at_first:
            tally.wrong.append("the original itself")
        for i, edit in enumerate(edits(original, count, seed)):
            if time.monotonic() > until:
                break
            bare.text = cached.text = edit.of(original)
            with ThreadPoolExecutor(1 if name in ALONE else 2) as threads:
                runs = [
                    threads.submit(_run, stack, f"{i}", with_daemon, until)
                    for stack, with_daemon in ((bare, None), (cached, daemon))
                ]
                try:
                    without, with_cache = (run.result() for run in runs)
                except TimeoutError:
                    tally.unfinished += 1
                    continue
            _note(tally, edit, first, without, with_cache)
    return tally


def _run(stack: Stack, label: str, daemon: PrivateDaemon | None, until: float) -> Run | None:
    """None if the script fails: an edit may well end it."""
    try:
        return stack.run(label, daemon, until)
    except RuntimeError as error:
        print(f"{stack.name}: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
        # One that hangs is not waited for, and tells nothing.
        if NO_END in str(error):
            raise TimeoutError(stack.name) from error
        return None


def _note(tally: Tally, edit: Edit, first: Any, without: Run | None, cached: Run | None) -> None:
    tally.edits += 1
    if (without and without.batches) != (cached and cached.batches):
        tally.wrong.append(str(edit))
        said = {"without": without is not None, "cached": cached.said if cached else None}
        print(json.dumps({"stack": tally.stack, "edit": str(edit), **said}), file=sys.stderr, flush=True)
    if without is None:
        tally.failing += 1
    elif without.batches != first:
        tally.changing += 1
    else:
        tally.neutral += 1
        tally.neutral_made += cached.made if cached else 0
        tally.neutral_reused += cached.reused if cached else 0


def main() -> int:
    """Exit status 1 if any run with the cache was another than without."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--edits", type=int, default=40, help="of each stack")
    arguments.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    arguments.add_argument("--seconds", type=float, default=SECONDS_MAX)
    arguments.add_argument("--python", action="append", default=[], metavar="ENVIRONMENT=PROGRAM")
    arguments.add_argument("--only", action="append", default=[], metavar="STACK")
    arguments.add_argument("--out", type=Path, required=True)
    options = arguments.parse_args()
    pythons = {"": sys.executable, **dict(each.split("=", 1) for each in options.python)}
    print(f"seed {options.seed}")
    tallies = []
    with tempfile.TemporaryDirectory(prefix="mutations-") as name:
        folder = Path(name)
        data = {
            "images": made.images(folder / "images", None),
            "audio": made.audio(folder / "audio", None),
            "text": made.text(folder / "text.txt", None),
        }
        time.sleep(SETTLE_SECONDS)
        begun = time.monotonic()
        scripts = sorted((HERE / "stacks").glob("*.py"))
        scripts = [script for script in scripts if not options.only or script.stem in options.only]
        for i, script in enumerate(scripts):
            # Each has its share of the time that is left.
            left = begun + options.seconds - time.monotonic()
            until = time.monotonic() + max(0.0, left) / (len(scripts) - i)
            stacks = []
            for kind in ("without", "cached"):
                (folder / kind).mkdir(exist_ok=True)
                stacks.append(Stack(script, data, pythons, folder / kind))
            tally = mutate(script.stem, *stacks, options.edits, options.seed, until)
            tallies.append(tally)
            print(json.dumps(asdict(tally)), flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    found = {"seed": options.seed, "stacks": [asdict(tally) for tally in tallies]}
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    changing, wrong = sum(t.changing for t in tallies), sum(len(t.wrong) for t in tallies)
    failing, neutral = sum(t.failing for t in tallies), sum(t.neutral for t in tallies)
    print(
        f"{sum(t.edits for t in tallies)} edits: {changing} changed a batch, {failing} ended the script, "
        f"{neutral} changed nothing; {wrong} wrong"
    )
    return int(bool(wrong) or any(tally.error for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
