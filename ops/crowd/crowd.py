"""A thousand clients on one daemon: `python crowd.py --clients 1000 --seconds 600 --out FILE`.

Most behave: sessions that are idle but for a read now and then. The others are half open, do not read, forge,
dribble, are greedy, vanish, hold leases. Meanwhile a probe takes the time of its hits, as it did alone before
and will after, and jobs come and go. The daemon must stay within its memory and descriptors, no value may be
wrong, and nobody who behaves may be turned away. All sockets are Unix sockets in a folder of the run's own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
from pathlib import Path

import bounds
import figures
import kinds
from run import Run


def main() -> int:
    """The command line; 1 if a bound is broken or anything was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument(
        "--without", nargs="*", default=[], choices=[*kinds.RUDE, ""], help="kinds that stay away"
    )
    parser.add_argument("--ratio-max", type=float, help=f"judge times too ({bounds.RATIO_MAX} is the aim)")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    # Ended by `timeout`, it still ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # A folder that the caller uses is none of ours.
    os.environ.pop("PREBAKE_DIR", None)
    absent = [*arguments.without, *_harmful()]
    clients = kinds.shared_out(arguments.clients, absent)
    sessions = resource.getrlimit(resource.RLIMIT_NOFILE)[1] // kinds.DESCRIPTORS_PER_SESSION
    if (needed := kinds.sessions(clients)) > sessions:
        print(f"not run: {needed} jobs need more descriptors than the limit has: ulimit -Hn", file=sys.stderr)
        return 1

    with tempfile.TemporaryDirectory(prefix="pbcr-", dir="/tmp", ignore_cleanup_errors=True) as name:
        run = Run(Path(name), clients, arguments.seconds)
        out = run.run()
    out["ratios"] = figures.ratios(out["phases"])
    if arguments.ratio_max:
        out["findings"] += bounds.of_ratios(out["ratios"], arguments.ratio_max)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(out, indent=1) + "\n")
    figures.show(out)
    return int(bool(out["findings"]))


def _harmful() -> list[str]:
    """Kinds that would harm others here: what a grabber uses up is shared by all programs of a user. Root's
    others have no such limit."""
    if os.geteuid() == 0:
        return []
    print("no grabbers: they are for root, since this user's programs could pass no descriptors meanwhile")
    return ["grabber"]


if __name__ == "__main__":
    sys.exit(main())
