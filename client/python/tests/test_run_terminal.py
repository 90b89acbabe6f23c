"""`prebake run` prints to a terminal as the command would by itself, and says how old what it replays is."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

from prebake.demo.daemon import PrivateDaemon
from prebake.runtime import programs

#: In colours on a terminal, like most programs; and what a clock said.
PRINTS = (
    "if [ -t 1 ]; then printf '\\033[31mred\\033[0m\\n'; else printf 'plain\\n'; fi; date +%N; date +%s >&2"
)


def run(daemon: PrivateDaemon, folder: Path, output: int) -> str:
    """What the command line says on standard error; what the command prints goes to `output`."""
    command = [programs.path("prebake"), "--dir", daemon.folder / "cache", "run", "--", "sh", "-c", PRINTS]
    done = subprocess.run(
        list(map(str, command)), cwd=folder, stdout=output, stderr=subprocess.PIPE, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def on_terminal(daemon: PrivateDaemon, folder: Path) -> tuple[bytes, str]:
    """What it prints on a terminal, and says."""
    read, written = pty.openpty()
    try:
        said = run(daemon, folder, written)
        return os.read(read, 4096), said
    finally:
        os.close(read)
        os.close(written)


def test_a_command_on_a_terminal_prints_in_colours(daemon: PrivateDaemon, tmp_path: Path) -> None:
    first, said = on_terminal(daemon, tmp_path)
    assert first.startswith(b"\x1b[31mred\x1b[0m\r\n") and "kept" in said
    again, said = on_terminal(daemon, tmp_path)
    assert again == first
    assert "ago: times and random numbers in them are of then" in said


def test_a_command_in_a_pipe_is_another_one(daemon: PrivateDaemon, tmp_path: Path) -> None:
    on_terminal(daemon, tmp_path)
    for _ in range(2):
        with (tmp_path / "out").open("wb") as output:
            run(daemon, tmp_path, output.fileno())
        assert (tmp_path / "out").read_bytes().startswith(b"plain\n")
