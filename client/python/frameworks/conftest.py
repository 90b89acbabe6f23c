"""What the frameworks' tests share: a real daemon, and jobs in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prebake.demo.daemon import PrivateDaemon

#: A job imports its framework (TensorFlow: ten seconds on a busy machine) and works for a second.
JOB_SECONDS_MAX = 240


class Node:
    """A daemon, and jobs that use it. Each prints JSON in its last line."""

    def __init__(self, daemon: PrivateDaemon, folder: Path) -> None:
        self.daemon = daemon
        self.folder = folder

    def write(self, **files: str) -> None:
        """Modules of the jobs, as a user would edit them."""
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(text)

    def start(self, *, off: bool = False, **task: Any) -> subprocess.Popen[str]:
        """Starts `main.py` on a task."""
        environment = {
            **os.environ,
            "PREBAKE": "off" if off else "on",
            "PREBAKE_DIR": str(self.daemon.folder / "cache"),
            "PREBAKE_AUTOSTART": "0",
            "PYTHONHASHSEED": "random",
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.folder),
            "HF_HUB_OFFLINE": "1",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            # Not as an argument: jobs with other tasks are of one world.
            "PREBAKE_TEST_TASK": json.dumps(task),
        }
        return subprocess.Popen(
            [sys.executable, "main.py"],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """What a job printed, and its stderr as `said`."""
        try:
            out, said = process.communicate(timeout=JOB_SECONDS_MAX)
        finally:
            process.kill()
        assert process.returncode == 0, said
        return {**json.loads(out.splitlines()[-1]), "said": said}

    def run(self, **task: Any) -> dict[str, Any]:
        """A job from start to end, and how many entries were `made` and `reused` meanwhile."""
        before = self.counts()
        result = self.finish(self.start(**task))
        after = self.counts()
        return {**result, **{name: after[name] - before[name] for name in after}}

    def example(self, name: str) -> None:
        """Runs the example in the documentation of a public name, twice: it has to print what it says."""
        script = Path(__file__).parents[1] / "tests" / "run_examples.py"
        text = f"import subprocess, sys\ndone = subprocess.run([sys.executable, {str(script)!r}, {name!r}])\n"
        self.write(main=text + "print('{}')\nsys.exit(done.returncode)\n")
        for _ in range(2):
            assert "not cached" not in self.run()["said"]

    def counts(self) -> dict[str, int]:
        """Entries made and reused so far, by the daemon's count."""
        metrics = self.daemon.metrics()
        outcome = {
            name: int(metrics[f'prebake_elements_total{{outcome="{name}"}}']) for name in ("miss", "hit")
        }
        return {"made": outcome["miss"], "reused": outcome["hit"]}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A daemon over an empty cache, in a folder whose socket paths are short enough."""
    with tempfile.TemporaryDirectory(prefix="prebake-") as folder, PrivateDaemon(Path(folder)) as daemon:
        yield Node(daemon, tmp_path)


def settle(path: Path) -> None:
    """Makes a file look as if it had been written a while ago, so that its stat can be trusted at once."""
    before = path.stat()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns - 10_000_000_000))
