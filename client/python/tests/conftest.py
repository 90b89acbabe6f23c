"""What the tests share: fresh processes, made images, a real daemon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from prebake.demo.daemon import PrivateDaemon

Run = Callable[..., str]
Take = Callable[..., dict[str, Any]]
#: What a call returned, how often it ran, and what else was said.
Call = Callable[..., tuple[str, int, str]]

#: Texts for streams.
TEXTS = 24
#: What a stream opens while it was just written is not trusted.
SETTLED_SECONDS = 0.1


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("markexpr") == "torch":
        # Where it should be, no test may skip itself for want of it.
        import torch  # noqa: F401
        import torchdata  # noqa: F401
        import torchvision  # noqa: F401


@pytest.fixture
def script(tmp_path: Path) -> Run:
    """Runs files in a process of its own under a random hash seed; returns what `main.py` prints."""

    def run(
        main: str, *, folder: str = "job", environment: dict[str, str] | None = None, **files: str
    ) -> str:
        job = tmp_path / folder
        job.mkdir(exist_ok=True)
        for name, text in {"main": main, **files}.items():
            (job / f"{name}.py").write_text(text)
        env = {
            **os.environ,
            "PYTHONHASHSEED": "random",
            "PYTHONDONTWRITEBYTECODE": "1",
            **(environment or {}),
        }
        done = subprocess.run(
            [sys.executable, "main.py"], cwd=job, env=env, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


@pytest.fixture
def images(tmp_path: Path) -> list[str]:
    """Forty small JPEGs of one size."""
    return make_images(tmp_path / "images", 40)


def make_images(folder: Path, count: int, shape: tuple[int, int] = (48, 64), **how: Any) -> list[str]:
    """Writes small JPEGs whose content differs; `how` is for Pillow."""
    folder.mkdir(exist_ok=True)
    numbers = np.random.default_rng(7)
    paths = []
    for i in range(count):
        path = folder / f"{i:03}.jpg"
        Image.fromarray(numbers.integers(0, 256, (*shape, 3), dtype=np.uint8)).save(
            path, **{"quality": 90, **how}
        )
        settle(path)
        paths.append(str(path))
    return paths


def threads() -> list[str]:
    """Names of this process's threads that are not Python's own."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except OSError:
            # It ended.
            continue
    return [name for name in names if name.startswith("prebake-")]


def settle(path: Path) -> None:
    """Dates a file back. By its ctime, which nobody can set, it is racy for RACY_SECONDS all the same."""
    before = path.stat()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns - 10_000_000_000))


@pytest.fixture
def off() -> Iterator[None]:
    """Prebake turned off in this process."""
    from prebake.identity import snapshot
    from prebake.runtime import daemon as runtime_daemon

    def forget() -> None:
        runtime_daemon.native.cache_clear()
        snapshot._look_type.cache_clear()

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREBAKE", "off")
        forget()
        yield
    # Once it is on again: whoever asks before would have it off for all tests that follow.
    forget()


@pytest.fixture
def daemon() -> Iterator[PrivateDaemon]:
    """A daemon over an empty cache, in a folder whose socket paths are short enough."""
    with tempfile.TemporaryDirectory(prefix="prebake-") as folder, PrivateDaemon(Path(folder)) as running:
        yield running


class Job:
    """A process that runs `job.py` on a task; see there."""

    def __init__(self, cache: Path | None, count: Path, task: dict[str, Any]) -> None:
        environment = {**os.environ, "PREBAKE_AUTOSTART": "0", "PREBAKE_TEST_DECODES": str(count)}
        # Not as an argument: jobs with other tasks are of one world.
        environment["PREBAKE_TEST_TASK"] = json.dumps(task)
        environment |= {"PREBAKE": "off"} if cache is None else {"PREBAKE": "on", "PREBAKE_DIR": str(cache)}
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("job.py"))],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for_pause(self) -> None:
        """Until it says that it waits."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == "paused\n", line + (self.process.stderr.read() if self.process.stderr else "")

    def go_on(self) -> None:
        """Ends its pause."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def result(self) -> dict[str, Any]:
        """Lets it go on and ends it; what it reports, and its stderr as `said`."""
        out, said = self.process.communicate("\n", timeout=60)
        assert self.process.returncode == 0, said
        return {**json.loads(out.splitlines()[-1]), "said": said}


class Jobs:
    """Starts jobs on one cache and counts their decodes."""

    def __init__(self, daemon: PrivateDaemon, folder: Path) -> None:
        self.daemon = daemon
        self._count = folder / "decodes"
        self._uncached = folder / "uncached"
        self._started: list[Job] = []

    def start(self, files: list[str], **task: Any) -> Job:
        """A job that uses the daemon."""
        job = Job(self.daemon.folder / "cache", self._count, {"files": files, **task})
        self._started.append(job)
        return job

    def run(self, files: list[str], **task: Any) -> dict[str, Any]:
        """A job from start to end."""
        return self.start(files, **task).result()

    def uncached(self, files: list[str], **task: Any) -> dict[str, Any]:
        """The same without Prebake."""
        return Job(None, self._uncached, {"files": files, **task}).result()

    def decodes(self) -> int:
        """Decodes of all jobs so far, as the pipeline counts them."""
        return self._count.stat().st_size if self._count.exists() else 0

    def stop(self) -> None:
        for job in self._started:
            job.process.kill()
            job.process.wait()


@pytest.fixture
def jobs(daemon: PrivateDaemon, tmp_path: Path) -> Iterator[Jobs]:
    started = Jobs(daemon, tmp_path)
    yield started
    started.stop()


@pytest.fixture
def connected(daemon: PrivateDaemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process with a daemon of its own, and nothing said yet."""
    from prebake.runtime import daemon as runtime_daemon
    from prebake.runtime import errors

    # The package as it stands in the source has no native module: everything would be computed, and pass.
    assert runtime_daemon.native() is not None, (
        "test the installed wheel: run pytest from the repository's root"
    )
    monkeypatch.setenv("PREBAKE_DIR", str(daemon.folder / "cache"))
    for name, value in (("_current", None), ("_retry_at", 0.0), ("_autostart", False)):
        monkeypatch.setattr(runtime_daemon, name, value)
    monkeypatch.setattr(errors, "_said", set())
    yield
    runtime_daemon._current = None


@pytest.fixture
def texts(tmp_path: Path) -> list[str]:
    """Small texts that differ."""
    made = [tmp_path / "texts" / f"{i:03}.txt" for i in range(TEXTS)]
    made[0].parent.mkdir()
    for i, path in enumerate(made):
        write_text(path, f"text {i:03} " * 10)
    time.sleep(SETTLED_SECONDS)
    return [str(path) for path in made]


def write_text(path: Path, text: str) -> None:
    """Writes a text of 100 characters, a while ago."""
    path.write_text(f"{text:100.100}")
    settle(path)


@pytest.fixture
def take(daemon: PrivateDaemon, tmp_path: Path) -> Take:
    """Goes through a stream in a fresh process, by `main` of a module beside this; what it saw, said and read
    (texts, in two epochs)."""

    def run(
        kind: str, files: list[str], wrapped: bool = True, module: str = "streams", **more: Any
    ) -> dict[str, Any]:
        count = tmp_path / "reads"
        count.write_bytes(b"")
        environment = {
            **os.environ,
            "PREBAKE": "on" if wrapped else "off",
            "PREBAKE_DIR": str(daemon.folder / "cache"),
            "PREBAKE_AUTOSTART": "0",
            "PREBAKE_TEST_READS": str(count),
            "PREBAKE_TEST_TASK": json.dumps({"kind": kind, "files": files, "wrapped": wrapped, **more}),
        }
        done = subprocess.run(
            [sys.executable, "-c", f"import {module}; {module}.main()"],
            cwd=Path(__file__).parent,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return {**json.loads(done.stdout), "reads": count.stat().st_size}

    return run


@pytest.fixture
def call(daemon: PrivateDaemon, tmp_path: Path) -> Call:
    """Calls the function in a fresh process: what it returns, how often it ran, and what else was said."""
    (tmp_path / "data.txt").write_text("four")
    (tmp_path / "words.txt").write_text("a b")
    for name in ("data.txt", "words.txt"):
        settle(tmp_path / name)

    def run(arguments: str, function: str) -> tuple[str, int, str]:
        environment = {**os.environ, "PREBAKE": "on", "PREBAKE_DIR": str(daemon.folder / "cache")}
        (tmp_path / "main.py").write_text(f"{function}\nprint(count({arguments}))")
        done = subprocess.run(
            [sys.executable, "main.py"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        said = [line for line in done.stderr.splitlines() if line != "called"]
        return done.stdout.strip(), done.stderr.count("called\n"), "\n".join(said)

    return run


def installed(folder: Path, name: str, text: str) -> str:
    """Installs a module as pip does; the folder that has to be on the path."""
    site = folder / "site-packages"
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (site / f"{name}.py").write_text(text)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text(f"{name}.py,,\n{info.name}/METADATA,,\n{info.name}/RECORD,,\n")
    return str(site)
