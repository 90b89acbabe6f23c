"""Which part of an object's identity is another in each process: what `prebake doctor --unstable` runs.

    python -m prebake.doctor.unstable REPORT script.py [arguments]

runs the script (or `-m module`) as Python would, and writes what it and its workers identified, as JSON.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path

from prebake.doctor.recording import Recording


def main() -> None:
    """Runs the script with every identity noted."""
    report, *command = sys.argv[1:]
    if not command:
        sys.exit("usage: python -m prebake.doctor.unstable REPORT script.py [arguments]")
    writer = os.getpid()
    recording = Recording(f"{report}.lines")
    try:
        _run(command)
    finally:
        # A forked worker that ends by an exception comes here too.
        if os.getpid() == writer:
            Path(report).write_text(json.dumps(recording.found()))


def _run(command: list[str]) -> None:
    if command[0] == "-m":
        sys.argv = command[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        sys.path.insert(0, os.path.dirname(os.path.abspath(command[0])))
        runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main()
