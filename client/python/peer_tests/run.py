"""Peers' own tests, with Prebake in the peers' place: joblib, dask, datasets, cloudpickle, torch.

    run.py --sources FOLDER [--out FILE] [--argued FILE] [PEER ...]

The tests come from released packages (`sources.py`); an adapter (`of_NAME.py`) puts Prebake where the peer's
function was, and `plugin.py` sorts what comes of each test. A refusal is no failure. A failure is argued in
`argued.json`, by the test's name, or else this ends with 1. A crash and a stale value cannot be argued away,
nor can a test that ends the process, or hangs: `CANNOT`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sources

from prebake.demo.daemon import PrivateDaemon

HERE = Path(__file__).parent
#: A test that takes longer hangs; the longest take half a minute.
TEST_SECONDS_MAX = 120
OUTCOMES = ("right", "refused", "not ours", "not run", "wrong")
RAN = ("right", "refused", "wrong")
#: Kinds of failures that no argument makes right.
CANNOT = ("stale", "crash")


@dataclass
class Peer:
    """Whose tests, whence, and what makes their folder ready."""

    name: str
    distribution: str
    tests: Callable[[Path, Path], list[Path]]
    #: Tests that are left out, and why.
    left_out: dict[str, str] = field(default_factory=dict)
    tested: str = ""

    def version(self) -> str:
        return importlib.metadata.version(self.distribution)


def _joblib(_: Path, work: Path) -> list[Path]:
    return sources.installed("joblib", ["test/test_hashing.py", "test/test_memory.py"])


def _dask(_: Path, work: Path) -> list[Path]:
    return sources.installed("dask", ["tests/test_tokenize.py"])


def _datasets(folder: Path, work: Path) -> list[Path]:
    version = importlib.metadata.version("datasets")
    given = sources.distribution("datasets", version, folder) / "tests"
    tests = work / "tests"
    tests.mkdir()
    (tests / "__init__.py").touch()
    shutil.copy(HERE / "datasets_utils.py", tests / "utils.py")
    shutil.copy(HERE / "datasets_conftest.py", tests / "conftest.py")
    names = ["test_fingerprint.py", "test_arrow_dataset.py", "test_dataset_dict.py"]
    return [Path(shutil.copy(given / name, tests / name)) for name in names]


def _cloudpickle(folder: Path, work: Path) -> list[Path]:
    # The last source distribution that has them.
    given = sources.distribution("cloudpickle", "2.2.1", folder) / "tests"
    shutil.copytree(given, work / "tests")
    for test in (work / "tests").glob("*.py"):
        # The module is gone since.
        test.write_text(test.read_text().replace("from cloudpickle.compat import pickle", "import pickle"))
    shutil.copytree(given / "cloudpickle_testpkg" / "_cloudpickle_testpkg", work / "_cloudpickle_testpkg")
    return [work / "tests" / "cloudpickle_test.py"]


def _torch(folder: Path, work: Path) -> list[Path]:
    given = sources.debian("pytorch", "1.13.1", folder) / "test" / "test_dataloader.py"
    # Names that are gone since; and processes that a test spawns import it without pytest.
    text = given.read_text().replace("    DataLoader2,\n", "").replace("    communication,\n", "")
    made = work / "test_dataloader.py"
    made.write_text(f"{text}\nimport of_torch\nof_torch.patch(sys.modules[__name__])\n")
    return [made]


#: Of torch.
SPAWNING = [
    "test_dataloader.py::IntegrationTestDataLoaderDataPipe::test_shuffler_iterdatapipe",
    *(
        f"test_dataloader.py::{group}::test_multiprocessing_{name}"
        for group in ("TestDataLoader", "TestDataLoaderPersistentWorkers")
        for name in ("contexts", "iterdatapipe")
    ),
]
PEERS = [
    Peer("joblib", "joblib", _joblib),
    Peer("dask", "dask", _dask),
    Peer("cloudpickle", "cloudpickle", _cloudpickle, tested="2.2.1"),
    Peer("datasets", "datasets", _datasets),
    Peer(
        "torch",
        "torch",
        _torch,
        dict.fromkeys(SPAWNING, "it begins a hundred processes that import torch"),
        "1.13.1",
    ),
]
#: Peers of whose tests there is no release.
UNRELEASED = {
    "streamlit": "the tests of its hashing are in no wheel or source distribution",
    "torchdata": "there is a wheel only, and it is without tests",
}


def run(peer: Peer, folder: Path) -> list[dict[str, Any]]:
    """A line for each test."""
    with tempfile.TemporaryDirectory(prefix="peer-") as temporary, PrivateDaemon(Path(temporary)) as daemon:
        work = Path(temporary, "work")
        work.mkdir()
        tests = peer.tests(folder, work)
        lines: list[dict[str, Any]] = [
            {"test": test, "outcome": "not run", "why": why} for test, why in peer.left_out.items()
        ]
        ended: dict[str, Any] | None = {}
        while ended is not None:
            more, ended = _once(peer, tests, daemon, [line["test"] for line in lines], [])
            lines += [*more, ended] if ended else more
        if not any(line["outcome"] in RAN for line in lines):
            raise sources.Missing("; ".join(f"{line['test']}: {line.get('why')}" for line in lines[-3:]))
        failed = [line["test"] for line in lines if line["outcome"] == "wrong"]
        if failed:
            alone = {line["test"]: line for line in _once(peer, tests, daemon, [], failed)[0]}
            lines = [_without(line, alone) for line in lines]
        return lines


def _without(line: dict[str, Any], alone: dict[str, Any]) -> dict[str, Any]:
    """The line of a test; one that fails without Prebake too is not run."""
    also = line["outcome"] == "wrong" and alone.get(line["test"], {"outcome": "right"})["outcome"] != "right"
    return {**line, **alone[line["test"]]} if also and line["kind"] not in CANNOT else line


def _once(
    peer: Peer, tests: list[Path], daemon: PrivateDaemon, done: list[str], alone: list[str]
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """The lines of one process without the tests that are `done`, or of those that are to be run `alone`; and
    that of the test that ended it, if one did."""
    work = daemon.folder / "work"
    out, log = work / "out.jsonl", work / "log.txt"
    out.write_text("")
    (work / "done.txt").write_text("\n".join(done))
    (work / "alone.txt").write_text("\n".join(alone))
    environment = {
        **os.environ,
        "PREBAKE": "on",
        "PREBAKE_DIR": str(daemon.folder / "cache"),
        "PREBAKE_AUTOSTART": "0",
        "PREBAKE_PEER": f"of_{peer.name}",
        "PREBAKE_PEER_OUT": str(out),
        "PREBAKE_PEER_DONE": str(work / "done.txt"),
        "PREBAKE_PEER_ALONE": str(work / "alone.txt"),
        "PYTHONPATH": os.pathsep.join([str(HERE), str(work)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(work / "hf"),
    }
    options = ["-q", "-p", "plugin", "-p", "no:cacheprovider", "-c", os.devnull]
    options += ["-o", f"faulthandler_timeout={TEST_SECONDS_MAX * 2 // 3}"]
    options += [
        "--continue-on-collection-errors",
        "--rootdir",
        str(tests[0].parent),
        "--basetemp",
        str(work / "pytest"),
    ]
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *map(str, tests)],
            cwd=work,
            env=environment,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        try:
            hangs = _waits(process, out)
        finally:
            # With all that the tests began and left.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    found = [line for line in lines if "test" in line]
    begun = lines[-1].get("begun") if lines else None
    if begun is not None:
        why = f"no answer in {TEST_SECONDS_MAX} s" if hangs else f"the process ends with {process.returncode}"
        said = f"{why}\n{log.read_text()[-3000:]}"
        return found, {"test": begun, "outcome": "wrong", "kind": "crash", "why": said}
    if process.returncode not in (0, 5) and not found and not done:
        raise sources.Missing(f"pytest ends with {process.returncode}: {log.read_text()[-1500:]}")
    return found, None


def _waits(process: subprocess.Popen[bytes], out: Path) -> bool:
    """Waits until it ends; True if it has to be ended, no test having begun or ended for too long."""
    size, since = -1, time.monotonic()
    while process.poll() is None:
        time.sleep(0.2)
        now = out.stat().st_size
        if now != size:
            size, since = now, time.monotonic()
        elif time.monotonic() - since > TEST_SECONDS_MAX:
            return True
    return False


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--sources", type=Path, required=True)
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--argued", type=Path, default=HERE / "argued.json")
    arguments.add_argument("peers", nargs="*")
    given = arguments.parse_args()
    # What ends it in the end ends what it began, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    argued: dict[str, dict[str, str]] = json.loads(given.argued.read_text())

    rows, unargued, needless = [], 0, []
    for peer in PEERS:
        if given.peers and peer.name not in given.peers:
            continue
        begun = time.monotonic()
        row: dict[str, Any] = {
            "peer": peer.name,
            "version": peer.version(),
            "tests of": peer.tested or peer.version(),
        }
        rows.append(row)
        try:
            lines = run(peer, given.sources)
        except sources.Missing as missing:
            row |= {"missing": str(missing), "tests": []}
            unargued += not isinstance(missing, sources.NotHere)
            continue
        reasons = argued.get(peer.name, {})
        for line in lines:
            if line["outcome"] == "wrong" and line["test"] in reasons and line["kind"] not in CANNOT:
                line["argued"] = reasons[line["test"]]
        unargued += sum(line["outcome"] == "wrong" and "argued" not in line for line in lines)
        right = {line["test"] for line in lines if line["outcome"] != "wrong"}
        needless += [f"{peer.name}: {test}" for test in reasons if test in right]
        row |= {"seconds": round(time.monotonic() - begun), "tests": lines}
    print(_table(rows))
    for row in rows:
        for line in row["tests"]:
            if line["outcome"] == "wrong" and "argued" not in line:
                print(f"\n{row['peer']}: {line['test']}: {line['kind']}\n{line['why'][-1500:]}")
    for test in needless:
        print(f"argued, and it does not fail: {test}")
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps({"peers": rows, "not run": UNRELEASED}, indent=1))
    if unargued:
        print(f"{unargued} that nobody argues")
    return 1 if unargued else 0


def _table(rows: list[dict[str, Any]]) -> str:
    columns = ["peer", "version", "tests of", "run", *OUTCOMES, "argued", "asks", "served", "stale", "crash"]
    lines = [columns]
    for row in rows:
        if "missing" in row:
            lines.append([row["peer"], row["version"], row["tests of"], f"not run: {row['missing']}"])
            continue
        count = Counter(line["outcome"] for line in row["tests"])
        kinds = Counter(line.get("kind") for line in row["tests"])
        ran = sum(count[name] for name in RAN)
        sums = [sum(line.get(name, 0) for line in row["tests"]) for name in ("asks", "served")]
        wise = sum("argued" in line for line in row["tests"])
        numbers = [ran, *(count[name] for name in OUTCOMES), wise, *sums, kinds["stale"], kinds["crash"]]
        lines.append([row["peer"], row["version"], row["tests of"], *map(str, numbers)])
    wide = [line for line in lines if len(line) == len(columns)]
    widths = [max(len(line[i]) for line in wide) for i in range(len(columns))]
    texts = ["  ".join(cell.ljust(widths[i]) for i, cell in enumerate(line)).rstrip() for line in lines]
    return "\n".join(texts + [f"{name}: not run: {why}" for name, why in UNRELEASED.items()])


if __name__ == "__main__":
    sys.exit(main())
