"""The pytest plug-in that runs a peer's tests with Prebake in the peer's place, and sorts what comes of each.

A test that fails with the adapter is run again with other answers, to tell what kind of failure it is. The
environment names the adapter (PREBAKE_PEER), the file to write to, a line for each test (PREBAKE_PEER_OUT),
and one that names the tests to leave out (PREBAKE_PEER_DONE), or those that are to be run without Prebake
(PREBAKE_PEER_ALONE).
"""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any

import asked
import pytest
from _pytest.runner import runtestprotocol

adapter = importlib.import_module(os.environ["PREBAKE_PEER"])
out = Path(os.environ["PREBAKE_PEER_OUT"])
done = set(Path(os.environ["PREBAKE_PEER_DONE"]).read_text().splitlines())

#: Tests to run without Prebake: one that fails then too says nothing of us.
alone = set(Path(os.environ["PREBAKE_PEER_ALONE"]).read_text().splitlines())

#: Outcomes of a test. Only `wrong` is a failure.
RIGHT, REFUSED, NOT_OURS, NOT_RUN, WRONG = "right", "refused", "not ours", "not run", "wrong"
#: A failure's kinds.
FALSE_EQUALITY, MISSES, OTHER, STALE, CRASH = "false equality", "differs", "other", "stale", "crash"
TEXT_MAX = 3000


def pytest_configure(config: pytest.Config) -> None:
    adapter.prepare()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for module in {item.getparent(pytest.Module) for item in items}:
        if module is not None:
            adapter.patch(module.obj)
    concerns = getattr(adapter, "concerns", lambda test: True)
    for item in items:
        if item.nodeid not in done and not alone and not concerns(item.function):
            done.add(item.nodeid)
            _write(test=item.nodeid, outcome=NOT_OURS, why="it asks nothing that Prebake answers")
    items[:] = [item for item in items if item.nodeid not in done and (not alone or item.nodeid in alone)]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _write(test=report.nodeid, outcome=NOT_RUN, why=_last(str(report.longrepr)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    _write(begun=item.nodeid)
    try:
        found = _alone(item, nextitem) if alone else _sorted(item, nextitem)
    finally:
        asked.on = False
    _write(test=item.nodeid, **found)
    return True


def _sorted(item: Any, nextitem: Any) -> dict[str, Any]:
    said, notes = _run(item, nextitem)
    more = {"asks": notes.asks, "served": notes.served, "refusals": notes.refused[:20]}
    if notes.unknown:
        more["uncompared"] = notes.unknown[:5]
    if notes.crashed:
        return {"outcome": WRONG, "kind": CRASH, "why": notes.crashed[0][:TEXT_MAX], **more}
    if notes.stale:
        return {"outcome": WRONG, "kind": STALE, "why": notes.stale[0][:TEXT_MAX], **more}
    if said == "skipped":
        return {"outcome": NOT_RUN, "why": "it skips itself", **more}
    if notes.not_ours:
        return {"outcome": NOT_OURS, "why": notes.not_ours[0], **more}
    if not notes.asks:
        return {"outcome": NOT_OURS, "why": "it asks nothing that Prebake answers", **more}
    if said == "passed":
        return {"outcome": REFUSED if notes.refused else RIGHT, **more}
    return {**_failed(item, nextitem, notes), **more, "why": said[-TEXT_MAX:]}


def _alone(item: Any, nextitem: Any) -> dict[str, Any]:
    said, _ = _run(item, nextitem, stand_in=False)
    return {"outcome": RIGHT if said == "passed" else NOT_RUN, "why": f"without Prebake too: {_last(said)}"}


def _failed(item: Any, nextitem: Any, notes: asked.Asked) -> dict[str, Any]:
    """Which kind of failure it is: with which other answers the test would pass."""
    is_refused = bool(notes.refused)
    if not notes.identities:
        counts = getattr(adapter, "COUNTS_CALLS", False)
        return {"outcome": REFUSED} if is_refused and counts else {"outcome": WRONG, "kind": OTHER}
    # Of functions that are wrapped a test may ask what only they themselves are; and it may be unsteady.
    if _run(item, nextitem, wrap_functions=False)[0] == "passed":
        return {"outcome": REFUSED if is_refused else RIGHT}
    ways = [asked.LENIENT, asked.UNIQUE, asked.RAISE] if is_refused else [asked.LENIENT]
    for way in ways[1:]:
        if _run(item, nextitem, how_refused=way, wrap_functions=False)[0] == "passed":
            return {"outcome": REFUSED}
    for kind, answers in (
        (FALSE_EQUALITY, (asked.ALWAYS_UNLIKE, asked.NEVER_EQUAL)),
        (MISSES, (asked.ALWAYS_EQUAL, asked.NEVER_UNLIKE)),
    ):
        for how_known in answers:
            for how_refused in ways:
                if _run(item, nextitem, how_refused=how_refused, how_known=how_known)[0] == "passed":
                    return {"outcome": WRONG, "kind": kind}
    return {"outcome": WRONG, "kind": OTHER}


def _run(item: Any, nextitem: Any, stand_in: bool = True, **how: Any) -> tuple[str, asked.Asked]:
    """`passed`, `skipped` or what failed; and what was asked."""
    notes = asked.begin(stand_in, **how)
    item._initrequest()
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    asked.on = False
    failed = [str(report.longrepr) for report in reports if report.failed]
    if failed:
        return failed[0] or "failed", notes
    return "skipped" if any(report.skipped for report in reports) else "passed", notes


def _last(text: str) -> str:
    errors = [line for line in text.splitlines() if line.startswith("E  ")]
    named = [line for line in errors if "Error" in line]
    return (named or errors or text.splitlines() or [""])[-1].strip()[:200]


def _write(**line: Any) -> None:
    with out.open("a") as file:
        file.write(json.dumps(line, default=repr) + "\n")
