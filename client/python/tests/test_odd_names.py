"""Names that are no characters: of the script, of files, of folders, and in the surroundings. A job goes on
as without a cache."""

import os
import subprocess
import sys
from pathlib import Path

from prebake.demo.daemon import PrivateDaemon

SCRIPT = b"""
import os, random
import prebake
ODD = os.fsdecode(b"odd\\xff")
print(open(ODD).read())

@prebake.cached
def size(path): return os.path.getsize(path)
@prebake.cached
def read(path): return open(path, "rb").read()
@prebake.cached
def draws(path): return random.random() > len(path)
@prebake.cached
def lists(path): return len(os.listdir(path)) > 0
@prebake.cached
def fails(path): return open(path + ODD).read()
@prebake.cached
def writes(path):
    with open(path + ODD, "w") as out:
        return out.write(ODD.encode("utf-8", "backslashreplace").decode())
@prebake.cached
def lines(path):
    for line in open(path): yield len(line)
class Rows:
    def __len__(self): return 2
    def __getitem__(self, i): return len(open(ODD).read()) + i

print(size(ODD), read(ODD), read(os.path.abspath(ODD)), draws(ODD), lists("."), writes(ODD), list(lines(ODD)))
try:
    fails(ODD[::-1])
except FileNotFoundError:
    print("not there")
rows, files = prebake.wrap(Rows()), prebake.wrap([os.path.abspath(ODD)], [read, len])
print(rows[0], rows[1], files[0])
"""


def test_a_job_goes_on(daemon: PrivateDaemon, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/folder\xed"
    os.mkdir(folder)
    Path(os.fsdecode(folder + b"/main\xfe.py")).write_bytes(SCRIPT)

    def run(prebake: bytes) -> tuple[bytes, bytes]:
        own = {b"PREBAKE": prebake, b"PREBAKE_DIR": os.fsencode(daemon.folder / "cache"), b"ODD": b"\xff"}
        command = [sys.executable, b"main\xfe.py", b"argument\xff"]
        done = subprocess.run(command, cwd=folder, env={**os.environb, **own}, capture_output=True)
        assert not done.returncode, done.stderr
        return done.stdout, done.stderr

    for text in ("one", "one", "other"):
        Path(os.fsdecode(folder + b"/odd\xff")).write_text(text)
        expected, _ = run(b"off")
        assert run(b"on")[0] == expected
