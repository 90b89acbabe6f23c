"""Scripts of the user's that a test runs in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from prebake.demo.daemon import PrivateDaemon

#: Far more than any takes on a busy machine.
SECONDS_MAX = 120


def run_main(daemon: PrivateDaemon, folder: Path) -> str:
    """Runs `main.py` in its folder with the cache on; what it prints."""
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=folder,
        env={**os.environ, "PREBAKE": "on", "PREBAKE_DIR": str(daemon.folder / "cache")},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
