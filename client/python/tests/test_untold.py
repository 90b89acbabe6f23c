"""A function that fails in any other process: which files compiled code opens for it nobody sees, so that
it is shared only if they are declared."""

import os
import time
from pathlib import Path

from scripts import run_main

from prebake.demo.daemon import PrivateDaemon

SCRIPT = """
import codecs, pathlib
import pyarrow.fs
import prebake
def read(name):
    "".encode("of_script")
    return pyarrow.fs.LocalFileSystem().open_input_file(name + ".txt").read().decode()
utf = codecs.lookup("utf-8")
mine = codecs.CodecInfo(utf.encode, utf.decode, name="of_script")
codecs.register(lambda name: mine if name == "of_script" else None)
@prebake.cached{declared}
def f(name):
    print("ran")
    return read(name)
print(f("a"))
"""


def write(folder: Path, text: str) -> None:
    (folder / "a.txt").write_text(text)
    # Files as young as that are read anew each time.
    os.utime(folder / "a.txt", (time.time() - 100 + ord(text),) * 2)


def test_it_is_called_each_time(daemon: PrivateDaemon, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(SCRIPT.format(declared=""))
    for text in "aaab":
        write(tmp_path, text)
        assert run_main(daemon, tmp_path) == f"ran\n{text}\n"


def test_it_is_shared_if_nothing_but_pythons_own_is_called(daemon: PrivateDaemon, tmp_path: Path) -> None:
    """Which tells of what it opens."""
    opened = 'pyarrow.fs.LocalFileSystem().open_input_file(name + ".txt").read().decode()'
    script = SCRIPT.replace(opened, 'open(name + ".txt").read()')
    (tmp_path / "main.py").write_text(script.format(declared=""))
    for text in "ab":
        write(tmp_path, text)
        for _ in range(3):
            assert run_main(daemon, tmp_path).removeprefix("ran\n") == f"{text}\n"
        assert run_main(daemon, tmp_path) == f"{text}\n"


def test_it_is_shared_if_its_files_are_declared(daemon: PrivateDaemon, tmp_path: Path) -> None:
    declared = "(inputs=[pathlib.Path('a.txt')])"
    (tmp_path / "main.py").write_text(SCRIPT.format(declared=declared))
    for text in "ab":
        write(tmp_path, text)
        for _ in range(3):
            assert run_main(daemon, tmp_path).removeprefix("ran\n") == f"{text}\n"
        assert run_main(daemon, tmp_path) == f"{text}\n"
