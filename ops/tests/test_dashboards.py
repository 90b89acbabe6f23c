"""Every query of the dashboard, against a real Prometheus that scrapes a real daemon after real jobs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from servers import Prometheus, free_address, until

from prebake.demo.daemon import PrivateDaemon

DASHBOARD = json.loads((Path(__file__).parents[1] / "grafana" / "prebake.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [
    pytest.param(panel, target, id=f"{panel['title']} {target['refId']}")
    for panel in PANELS
    for target in panel["targets"]
]

#: What Grafana puts in for its variables.
VARIABLES = {"$__rate_interval": "1m", "$__range": "5m", "$instance": ".*"}
#: Samples shown of a range query.
RANGE_SECONDS = 60
#: No job of the mix takes longer unless something hangs.
JOB_SECONDS_MAX = 120

#: The daemon's least budgets, so that a small mix overflows both tiers.
BUDGETS = ("--ram-bytes", str(40 << 20), "--ssd-bytes", str(16 << 20))

#: What the mix must have caused, so that no panel is only about zeros.
CAUSED = [
    'prebake_elements_total{outcome="hit"}',
    'prebake_elements_total{outcome="miss"}',
    'prebake_elements_total{outcome="bypass"}',
    'prebake_misses_total{reason="new graph"}',
    'prebake_misses_total{reason="input changed"}',
    'prebake_misses_total{reason="evicted"}',
    "prebake_cpu_seconds_saved_total",
    "prebake_cpu_seconds_spent_total",
    "prebake_money_saved_total",
    'prebake_read_bytes_total{tier="ram"}',
    'prebake_tier_bytes{tier="ssd"}',
    'prebake_evictions_total{tier="ram"}',
    'prebake_evictions_total{tier="ssd"}',
    'prebake_evicted_bytes_total{tier="ram"}',
    'prebake_evicted_bytes_total{tier="ssd"}',
    "prebake_evicted_recompute_cpu_seconds_total",
    "sum(prebake_errors_total)",
    "prebake_verified_total",
    "prebake_verify_cpu_seconds_total",
    "prebake_mismatches_total",
    "prebake_quarantined",
]


class Mix:
    """Folders of made files and the jobs that run over them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PREBAKE": "on",
            "PREBAKE_DIR": str(folder / "cache"),
            "PREBAKE_AUTOSTART": "0",
        }

    def make(self, name: str, count: int) -> Path:
        folder = self.folder / name
        folder.mkdir()
        numbers = np.random.default_rng(count)
        for i in range(count):
            (folder / f"{i:03}.txt").write_bytes(numbers.bytes(4000))
        return folder

    def run(self, kind: str, folder: Path, jobs: int = 1, **environment: str) -> None:
        script = Path(__file__).parent / "jobs.py"
        command = [sys.executable, str(script), kind, str(folder)]
        started = [subprocess.Popen(command, env=self.environment | environment) for _ in range(jobs)]
        for job in started:
            assert job.wait(timeout=JOB_SECONDS_MAX) == 0


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("ops")
    target = free_address()
    with (
        PrivateDaemon(folder, *BUDGETS, "--metrics-address", target) as daemon,
        Prometheus(folder / "prometheus", daemon, target).start() as prometheus,
    ):
        until(lambda: prometheus.value('up{job="prebake"}'), "the first scrape")
        mix = Mix(folder)
        shared, few, many, large = (
            mix.make(name, count) for name, count in {"shared": 40, "few": 10, "many": 48, "large": 2}.items()
        )
        mix.run("share", shared, jobs=2)
        mix.run("share", shared)
        (shared / "000.txt").write_bytes(b"edited")
        mix.run("share", shared)
        mix.run("share", shared, PREBAKE_VERIFY="1")
        mix.run("drifting", few, PREBAKE_TEST_DRIFT="0")
        mix.run("drifting", few, PREBAKE_TEST_DRIFT="1", PREBAKE_VERIFY="1")
        mix.run("large", large)
        # The dear elements push out the cheap ones, which are then missed.
        mix.run("cheap", few)
        mix.run("dear", many)
        mix.run("cheap", few)
        yield prometheus


@pytest.mark.parametrize("metric", CAUSED)
def test_the_mix_caused(prometheus: Prometheus, metric: str) -> None:
    until(lambda: prometheus.value(metric) > 0, metric)


@pytest.mark.parametrize(("panel", "target"), QUERIES)
def test_query_returns_data(prometheus: Prometheus, panel: Any, target: Any) -> None:
    query = target["expr"]
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    assert "$" not in query

    def numbers() -> list[float]:
        if target["instant"]:
            found = prometheus.get("query", query=query)["result"]
            values = [series["value"] for series in found]
        else:
            end = time.time()
            window = {"start": str(end - RANGE_SECONDS), "end": str(end), "step": "1"}
            found = prometheus.get("query_range", query=query, **window)["result"]
            values = [value for series in found for value in series["values"]]
        return [float(value) for _, value in values if value != "NaN"]

    # A rate has a value from the second scrape on.
    until(numbers, f"data of panel {panel['title']!r}: {query}")


def test_every_metric_is_on_the_dashboard(prometheus: Prometheus) -> None:
    names = prometheus.get("label/__name__/values")
    exported = {name for name in names if name.startswith("prebake_")}
    shown = {
        name
        for panel in PANELS
        for target in panel["targets"]
        for name in re.findall(r"prebake_\w+", target["expr"])
    }
    assert exported == shown


def test_variables_are_found(prometheus: Prometheus) -> None:
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["query"] == "prometheus"
    label, metric = "instance", "prebake_jobs"
    assert variables["instance"]["query"]["query"] == f"label_values({metric}, {label})"
    assert prometheus.get(f"label/{label}/values", **{"match[]": metric}) == [prometheus.target]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_panel_is_whole(panel: Any) -> None:
    assert panel["description"]
    assert panel["fieldConfig"]["defaults"]["unit"]
    for part in [panel, *panel["targets"]]:
        assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_panels_have_ids_and_places_of_their_own() -> None:
    assert DASHBOARD["schemaVersion"] >= 39
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
