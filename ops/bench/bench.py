"""`python ops/bench/bench.py`: what Prebake costs and gains, against no cache and against `numpy.memmap`.

What is compared runs by turns in the same run, so that figures are ratios; the median, its 95 % bootstrap
interval and the extremes are told. Nothing else should run meanwhile. `QUICK=1` takes fewer pairs: enough to
see that it works, too few to tell a few percent. Reports a table and `--out` (JSON).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rows import Row, table

from prebake._demo_run import ONE_THREAD


@dataclass
class Size:
    """How often each kind of measurement is made."""

    #: Cold runs: half a minute each.
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


#: 10,000 elements are 1.5 GB, more than processors cache, and a pass takes a tenth of a second; the images
#: are as many as the demonstration's. `small` is there to see that all of it runs.
SIZES = {
    "full": Size(
        rounds=10,
        processes=10,
        pairs=20,
        files=1_000_000,
        items=10_000,
        images=300,
        ssd_pairs=10,
        entries=10**6,
    ),
    "quick": Size(
        rounds=3, processes=3, pairs=10, files=0, items=4_000, images=300, ssd_pairs=0, entries=0
    ),
    "small": Size(
        rounds=1, processes=1, pairs=2, files=10_000, items=500, images=48, ssd_pairs=1, entries=10**4
    ),
}
#: Daemons that are filled with many entries, a minute each; of all of them together, starts.
DAEMONS, STARTS = 3, 12
#: Beside which a graph is planned, a power of ten.
COLLECTIONS = 10_000
#: A file's `stat` is trusted once the file has been left alone for two seconds.
SETTLE_SECONDS = 2.5


def measure(args: argparse.Namespace, size: Size) -> list[Row]:
    """All rows, in the order of the table."""
    data = args.data
    import cold
    import knowing
    import scale
    import ssd
    import warm

    images = size.images if data is None else count(data, size.images)
    rows = [
        *warm.idle_rows(size.processes),
        *warm.Warm(
            size.items, size.processes, size.pairs, args.torch or sys.executable, bool(args.torch)
        ).rows(),
        *(ssd.Ssd(size.items, size.ssd_pairs, args.torch or sys.executable).rows() if size.ssd_pairs else ()),
        *(knowing.rows(size.processes, size.files, args.files, args.torch) if size.files else ()),
        *(scale.rows(DAEMONS, STARTS // DAEMONS, size.entries, COLLECTIONS) if size.entries else ()),
    ]
    if data is not None:
        return [*rows, *cold.Cold(data, images).rows(size.rounds)]
    with tempfile.TemporaryDirectory(prefix="prebake-bench-images-") as folder:
        from prebake import _demo_images

        print(f"making {images} images", file=sys.stderr)
        _demo_images.make(Path(folder), images)
        time.sleep(SETTLE_SECONDS)
        return [*rows, *cold.Cold(Path(folder), images).rows(size.rounds)]


def count(data: Path, most: int) -> int:
    """JPEGs of a folder that will be used."""
    from prebake import _demo_job

    found = len(_demo_job.images(str(data), most))
    if not found:
        sys.exit(f"no JPEG under {data}")
    return found


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
    args = parser.parse_args()
    # NumPy reads these when it is loaded, which is why what needs it is imported later.
    os.environ.update(ONE_THREAD)
    quick = os.environ.get("QUICK", "") not in ("", "0")
    size = args.size or ("quick" if quick else "full")
    before = os.getloadavg()[0]
    rows = [row.figures() for row in measure(args, SIZES[size])]
    report: dict[str, Any] = {
        "images_made": args.data is None,
        "size": size,
        "processors": os.cpu_count(),
        "load_before": before,
        "load_after": os.getloadavg()[0],
        "rows": rows,
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=2))
    print(table(rows))
    print("\nmet: by the median; ? where the bar lies within the 95 % interval.")
    print(
        f"Images {'made for this run' if args.data is None else 'as given'}; load {before:.2f} before and "
        f"{report['load_after']:.2f} after on {os.cpu_count()} processors (its own makes about 2). "
        f"The same figures are in {args.out}."
    )


if __name__ == "__main__":
    main()
