"""The demonstration's figures as a table for people."""

from __future__ import annotations

from typing import Any

MEGA = 1e6


def table(report: dict[str, Any]) -> str:
    """All pipelines, one block each."""
    return "\n\n".join("\n".join(_pipeline(name, each)) for name, each in report.items())


def _pipeline(name: str, each: dict[str, Any]) -> list[str]:
    note = (
        "images made for this run; real ones decode differently" if each["images_made"] else "images as given"
    )
    head = f"{'':6}{'no cache':>18}{'cold':>18}{'':>28}{'warm':>18}"
    columns = (
        f"{'job':6}{'wall s':>9}{'cpu s':>9}{'wall s':>9}{'cpu s':>9}"
        f"{'computed':>10}{'reused':>9}{'followed':>9}{'wall s':>9}{'cpu s':>9}{'reused':>9}"
    )
    lines = [f"{name}: {each['jobs']} jobs, {each['items_total']} images ({note})", head, columns]
    for place, job in enumerate(each["per_job"]):
        alone, cold, warm = job["alone"], job["cold"], job["warm"]
        lines.append(
            f"{place:<6}{alone['wall_s']:9.2f}{alone['cpu_s']:9.2f}{cold['wall_s']:9.2f}{cold['cpu_s']:9.2f}"
            f"{cold['computed']:10}{cold['reused']:9}{cold['followed']:9}"
            f"{warm['wall_s']:9.3f}{warm['cpu_s']:9.3f}{warm['reused']:9}"
        )
    lines += [
        f"  decoded {each['decodes']} times for {each['items_total']} images and {each['jobs']} jobs",
        f"  CPU: one job {each['cpu_s_one_job_no_cache']:.2f} s; all jobs "
        f"{each['cpu_s_k_jobs_no_cache']:.2f} s without a cache, "
        f"{each['cpu_s_k_jobs_cold']:.2f} s cold, {each['cpu_s_k_jobs_warm']:.2f} s warm",
        f"  cold over one job {each['duplication_factor']:.2f}; over the least possible "
        f"{each['cold_over_least']:.2f}; CPU saved {each['cpu_s_saved_cold']:.2f} s cold, "
        f"{each['cpu_s_saved_warm']:.2f} s warm",
        f"  a warm job is {each['warm_speedup']:.1f} times as fast as without a cache (both alone; "
        f"{each['warm_speedup_together']:.1f} times with {each['jobs']} warm jobs at once)",
        f"  read {each['bytes_from_ram'] / MEGA:.0f} MB from RAM, "
        f"{each['bytes_from_ssd'] / MEGA:.0f} MB from SSD; "
        f"{each['stored_bytes_per_item']:.0f} bytes stored per item; "
        f"daemon at most {each['daemon_peak_rss_bytes'] / MEGA:.0f} MB",
        f"  outputs identical to the uncached runs: {'yes' if each['outputs_identical'] else 'NO'}",
    ]
    return lines
