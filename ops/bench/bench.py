"""`python ops/bench/bench.py`: what Prebake costs and gains, against no cache, `numpy.memmap` and its peers.

What is compared runs by turns in the same run, so that figures are ratios; the median, its 95 % bootstrap
interval and the extremes are told. Nothing else should run meanwhile. `QUICK=1` takes fewer pairs and no
peers: enough to see that it works, too few to tell a few percent. Reports a table and `--out` (JSON).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import report
from rows import Row

from prebake.demo.run import ONE_THREAD


@dataclass
class Size:
    """How often each kind of measurement is made."""

    #: Cold runs: half a minute each. A hundred, since CPU time differs by a tenth from one run to the next.
    rounds: int
    #: Daemons without blocks, and processes that read a warm cache first.
    processes: int
    #: Of warm reads.
    pairs: int
    #: Of a large data set; with 0 what it costs to know is left out.
    files: int
    #: Elements of the warm reads.
    items: int
    #: Of a cold run.
    images: int
    #: Of reads from disk, half a minute each; with 0 they are left out.
    ssd_pairs: int
    #: Of a daemon that has many, a power of ten; with 0 what many cost is left out. 10^7 take three minutes.
    entries: int
    #: Pairs with each peer; with 0 they are left out.
    peers: int


#: 10,000 elements are 1.5 GB, more than processors cache, and a pass takes a tenth of a second; the images
#: are as many as the demonstration's. `small` is there to see that all of it runs.
SIZES = {
    "full": Size(
        rounds=100,
        processes=10,
        pairs=60,
        files=1_000_000,
        items=10_000,
        images=300,
        ssd_pairs=10,
        entries=10**6,
        peers=10,
    ),
    "quick": Size(
        rounds=3, processes=3, pairs=10, files=0, items=4_000, images=300, ssd_pairs=0, entries=0, peers=0
    ),
    "small": Size(
        rounds=1,
        processes=1,
        pairs=2,
        files=10_000,
        items=500,
        images=48,
        ssd_pairs=1,
        entries=10**4,
        peers=2,
    ),
}
#: Daemons that are filled with many entries, a minute each; of all of them together, starts.
DAEMONS, STARTS = 3, 12
#: Beside which a graph is planned, a power of ten.
COLLECTIONS = 10_000
#: A file's `stat` is trusted once the file has been left alone for two seconds.
SETTLE_SECONDS = 2.5


def measure(args: argparse.Namespace, size: Size) -> Iterator[tuple[list[Row], dict[str, str]]]:
    """Rows in the order of the table, some at a time as they are measured, and what was not run, by name with
    the reason. First those that have bars."""
    import cold
    import knowing
    import peer_half
    import scale
    import ssd
    import warm

    with contextlib.ExitStack() as stack:
        data = args.data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prebake-images-")))
        if args.data is None:
            make(data, size.images)
        python = args.torch or sys.executable
        photographs = images(data, size.images)
        yield warm.idle_rows(size.processes), {}
        yield warm.Warm(size.items, size.processes, size.pairs, python, bool(args.torch)).rows(), {}
        yield cold.Cold(data, len(photographs)).rows(size.rounds), {}
        if size.ssd_pairs:
            yield ssd.Ssd(size.items, size.ssd_pairs, python).rows(), {}
        if size.entries:
            yield scale.rows(DAEMONS, STARTS // DAEMONS, size.entries, COLLECTIONS), {}
        if size.peers:
            environments = dict(args.environment)
            half = peer_half.PeerHalf(
                size.peers, size.items, photographs, environments, args.text, args.audio
            )
            yield half.rows()
        else:
            yield [], {"peers": "left out of a quick run"}
        if size.files:
            yield knowing.rows(size.processes, size.files, args.files, args.torch), {}


def make(folder: Path, count: int) -> None:
    """JPEGs, where none are given."""
    from prebake.demo import images as demo_images

    print(f"making {count} images", file=sys.stderr)
    demo_images.make(folder, count)
    time.sleep(SETTLE_SECONDS)


def images(data: Path, most: int) -> list[str]:
    """JPEGs of a folder that will be used."""
    from prebake.demo import job

    found = job.images(str(data), most)
    if not found:
        sys.exit(f"no JPEG under {data}")
    return found


def plot(python: str | None, out: Path) -> list[str]:
    """Plots of a written report, by a Python that has matplotlib; their names."""
    if python is None:
        return []
    script = Path(__file__).with_name("plots.py")
    done = subprocess.run([python, str(script), str(out)], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()


def environment(named: str) -> tuple[str, str]:
    """`NAME=PYTHON`, as an option."""
    name, _, python = named.partition("=")
    return name, python


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder of JPEGs; without it, images are made")
    parser.add_argument("--out", type=Path, default=Path("target/bench.json"))
    parser.add_argument(
        "--files", type=Path, help="a folder to keep a million small files in, for the next run"
    )
    parser.add_argument("--size", choices=SIZES, help="instead of `full`, or `quick` with QUICK=1")
    parser.add_argument("--torch", help="a Python that has torchvision and this package")
    parser.add_argument(
        "--environment",
        type=environment,
        action="append",
        default=[],
        metavar="NAME=PYTHON",
        help="a Python that has some peers, by its name in rivals.py; peers without one are not run",
    )
    parser.add_argument("--plots", help="a Python that has matplotlib; without it, nothing is drawn")
    parser.add_argument("--text", type=Path, help="a folder of text files, for rows of ragged tokens")
    parser.add_argument("--audio", type=Path, help="a folder of WAV files, for rows of ragged spectra")
    args = parser.parse_args()
    # NumPy reads these when it is loaded, which is why what needs it is imported later.
    os.environ.update(ONE_THREAD)
    quick = os.environ.get("QUICK", "") not in ("", "0")
    args.size = args.size or ("quick" if quick else "full")
    before, start = os.getloadavg()[0], time.monotonic()
    told: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    table = ""
    for rows, not_run in measure(args, SIZES[args.size]):
        told += [{**row.figures(), "versions": row.versions or versions()} for row in rows]
        missing |= not_run
        run = {
            "size": args.size,
            "images": "made for this run" if args.data is None else "as given",
            "processors": os.cpu_count(),
            "load_before": before,
            # Its own makes about 2.
            "load_after": os.getloadavg()[0],
            "seconds": time.monotonic() - start,
            "versions": versions(),
            "not_run": missing,
        }
        # What is measured is kept, whatever becomes of the rest.
        table = report.write(args.out, told, run)
        print(f"{time.strftime('%T')} {len(told)} rows", file=sys.stderr, flush=True)
    print(table)
    plots = plot(args.plots, args.out)
    print(f"The same in {args.out}, and beside it {', '.join(['.md', '-run.json', *plots])}.")


def versions() -> dict[str, str]:
    """Of what the benchmark itself runs by."""
    return {
        "python": sys.version.split()[0],
        "kernel": os.uname().release,
        **{name: importlib.metadata.version(name) for name in ("prebake", "numpy", "pillow")},
    }


if __name__ == "__main__":
    main()
