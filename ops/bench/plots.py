"""`python plots.py BENCH_JSON`: what a report's rows look like, as SVG beside it. Prints the files' names."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot

matplotlib.use("svg")
#: Ids in an SVG are then the same each time.
matplotlib.rcParams["svg.hashsalt"] = "prebake"
#: Of one row, in inches.
HEIGHT = 0.3


def bars(rows: list[dict[str, Any]], out: Path) -> Path:
    """Rows with a bar, each over its bar: better to the right, met if the interval is right of the line."""
    figure, axes = pyplot.subplots(figsize=(9, 1.5 + HEIGHT * len(rows)))
    for place, row in enumerate(reversed(rows)):
        bar, higher = row["bar"], row["better"] == "higher"
        value, *ends = (
            row[name] / bar if higher else bar / max(row[name], bar / 100)
            for name in ("value", "low", "high")
        )
        errors = [[max(0.0, value - min(ends))], [max(0.0, max(ends) - value)]]
        colour = "tab:green" if min(ends) >= 1 else "tab:red"
        axes.errorbar(value, place, xerr=errors, fmt="o", color=colour, capsize=3)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [row["id"] for row in reversed(rows)])
    axes.set_xlabel("how far beyond its bar (1 = the bar), median and 95 % interval")
    return _saved(figure, out)


def peers(rows: list[dict[str, Any]], out: Path) -> Path:
    """Elements a second of both sides of each row that has them."""
    figure, axes = pyplot.subplots(figsize=(9, 1.5 + HEIGHT * len(rows)))
    for side, (offset, label) in enumerate(((0.2, "Prebake"), (-0.2, "the other"))):
        places = [place + offset for place in range(len(rows))]
        axes.barh(places, [row["speeds"][side] for row in reversed(rows)], height=0.38, label=label)
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [row["id"] for row in reversed(rows)])
    axes.set_xlabel("elements a second, all jobs together")
    axes.margins(y=0.01)
    axes.legend()
    return _saved(figure, out)


def _saved(figure: Any, out: Path) -> Path:
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})
    pyplot.close(figure)
    return out


def main() -> None:
    """The command line."""
    report = Path(sys.argv[1])
    rows = json.loads(report.read_text())
    kinds = {
        "bars": (bars, [row for row in rows if row["bar"] is not None]),
        "peers": (peers, [row for row in rows if row["speeds"]]),
    }
    for name, (draw, drawn) in kinds.items():
        if drawn:
            print(draw(drawn, report.with_name(f"{report.stem}-{name}.svg")).name)


if __name__ == "__main__":
    main()
