"""What README.md and the documents show works: their marked blocks run as they stand."""

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import make_images

ROOT = Path(__file__).parents[3]
#: README first: its first block starts the daemon.
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    block
    for document in DOCUMENTS
    for block in re.findall(
        r"^<!-- test -->\n```(\w+)\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL
    )
]
COMMANDS = {"python": [sys.executable, "-c"], "sh": ["bash", "-euo", "pipefail", "-c"]}
#: The auto-started daemon closes its segments when it ends.
STOP_SECONDS = 30.0

CLEAN = """
import os, pathlib, sys
raw, clean = map(pathlib.Path, sys.argv[1:])
clean.mkdir(exist_ok=True)
for path in raw.iterdir():
    (clean / path.name).write_text(path.read_text().lower())
with open(os.environ["RUNS"], "a") as runs:
    runs.write(".")
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """The files that the blocks name, and a cache whose daemon the first block starts."""
    with tempfile.TemporaryDirectory(prefix="prebake-") as name:
        folder = Path(name)
        make_images(folder / "photos", 8)
        for each in ("texts", "raw"):
            (folder / each).mkdir()
            (folder / each / "a.txt").write_text("Bake once, serve every job")
        (folder / "clean.py").write_text(CLEAN)
        yield folder
        stop(folder / "cache")
        Path(f"{folder}.runs").unlink(missing_ok=True)


def stop(cache: Path) -> None:
    """Ends the daemon that serves a folder, if there is one."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(cache / "prebake.sock"))
        except OSError:
            return
        credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, _, _ = struct.unpack("3i", credentials)
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while Path(f"/proc/{pid}/fd/0").exists() and time.monotonic() < deadline:
        time.sleep(0.05)


def run(folder: Path, language: str, text: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PREBAKE": "on",
        "PREBAKE_AUTOSTART": "1",
        "PREBAKE_DIR": str(folder / "cache"),
        # Beside the folder, which is temporary: elsewhere a command may write to its outputs alone.
        "RUNS": f"{folder}.runs",
    }
    environment.pop("PREBAKE_DAEMON", None)
    # Variables count for a command, and this one differs from test to test.
    environment.pop("PYTEST_CURRENT_TEST", None)
    command = [*COMMANDS[language], text]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("language", "text"), BLOCKS, ids=[f"{place} {block[0]}" for place, block in enumerate(BLOCKS)]
)
def test_block(folder: Path, language: str, text: str) -> None:
    if "flight" in text or "prebake status" in text:
        # Tests run side by side, in a folder for each process: there must be a daemon, and something to read.
        run(folder, *block("prebake.wrap"))
    done = run(folder, language, text)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr


def block(word: str) -> tuple[str, str]:
    return next(each for each in BLOCKS if word in each[1])


def test_the_data_set_is_reused(folder: Path) -> None:
    for _ in range(2):
        printed = run(folder, *block("prebake.wrap")).stdout
    assert "'computed': 0" in printed
    assert "'reused': 0" not in printed


def test_other_programs_read_it(folder: Path) -> None:
    run(folder, *block("prebake.wrap"))
    printed = run(folder, *block("flight")).stdout
    assert "resize" in printed and "fixed_shape_tensor" in printed


def test_the_command_is_replayed(folder: Path) -> None:
    for _ in range(2):
        run(folder, *block("prebake run"))
    assert Path(f"{folder}.runs").read_text() == "."
    assert (folder / "clean" / "a.txt").read_text() == "bake once, serve every job"
