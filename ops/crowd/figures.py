"""What was measured, made into figures: percentiles by phase, ratios with their spread, a table."""

from __future__ import annotations

import statistics
from typing import Any

from watch import Sample

KINDS = {
    "mapped": "a hit that is mapped",
    "asked": "a hit that the daemon is asked for",
    "own": "a copy of own memory, for comparison",
}
ROW = "{:46} {:>10} {:>10} {:>10}"
MIB = 1 << 20


def windows(measured: dict[str, Any], kind: str, percentile: str) -> list[float]:
    """One percentile of each window in which there were hits."""
    return [window[kind][percentile] for window in measured["windows"] if window[kind]["count"]]


def ratios(phases: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """p99 in the crowd over p99 alone: of the medians of windows; for the spread, of the best and the worst.

    Alone is before and after: their ratio tells what the machine did meanwhile by itself.
    """
    found = {}
    for kind in KINDS:
        before, crowd, after = (windows(phases[name], kind, "p99") for name in ("before", "crowd", "after"))
        alone = before + after
        if not (before and crowd and after):
            continue
        found[kind] = {
            "ratio": round(statistics.median(crowd) / statistics.median(alone), 3),
            "least": round(min(crowd) / max(alone), 3),
            "most": round(max(crowd) / min(alone), 3),
            "after_over_before": round(statistics.median(after) / statistics.median(before), 3),
        }
    return found


def show(out: dict[str, Any]) -> None:
    """The table."""
    phases = ("before", "crowd", "after")
    print(ROW.format("", *("alone", "in crowd", "alone")))
    for kind, words in KINDS.items():
        for percentile in ("p50", "p99"):
            taken = (windows(out["phases"][name], kind, percentile) for name in phases)
            shown = (f"{statistics.median(each):.0f} us" if each else "none" for each in taken)
            print(ROW.format(f"{words}, {percentile}", *shown))
    samples: dict[str, list[Sample]] = out["samples"]
    for name, words in (
        ("rss", "daemon's resident memory"),
        ("anonymous", "of which its own"),
        ("shared", "its shared memory"),
    ):
        most = (max(sample[name] for sample in samples[phase]) / MIB for phase in phases)
        print(ROW.format(words, *(f"{each:.0f} MiB" for each in most)))
    for name in ("descriptors", "threads", "jobs"):
        most = (max(sample[name] for sample in samples[phase]) for phase in phases)
        print(ROW.format(f"daemon's {name}", *(f"{each:.0f}" for each in most)))
    for kind, found in out["ratios"].items():
        print(
            f"p99 of {KINDS[kind]}: {found['ratio']:.2f} times alone"
            f" (windows {found['least']:.2f} to {found['most']:.2f}; after over before"
            f" {found['after_over_before']:.2f})"
        )
    share = out["cpu_share"]
    print(f"processors in use: crowd {share['crowd']:.2f}, daemon {share['daemon']:.2f}, of {share['there']}")
    print("visitors:", _counted(out["visitors"]))
    for kind, count in out["clients"].items():
        print(f"{count} {kind}:", _counted(out["counts"].get(kind, {})))
    for finding in out["findings"]:
        print(f"    FOUND: {finding}")


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()) if count) or "nothing"
