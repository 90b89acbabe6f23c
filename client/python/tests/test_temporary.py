"""Temporary files and folders: what a fill keeps in them is its own, and no value holds their names."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Call

from prebake.reads.recorder import Recorder

PROGRAM = """
import os, sys, tempfile
from pathlib import Path
import prebake

@prebake.cached
def count(text, kind):
    sys.stderr.write("called\\n")
    if kind == "folder":
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "below").mkdir()
            (Path(folder) / "below" / "a").write_text(text)
            return {each.name: len(os.listdir(each)) for each in sorted(Path(folder).iterdir())}
    if kind == "file":
        with tempfile.NamedTemporaryFile("w+", suffix=".wav") as file:
            file.write(text)
            file.flush()
            return Path(file.name).read_text()
    if kind == "descriptor":
        descriptor, path = tempfile.mkstemp()
        try:
            os.write(descriptor, text.encode())
            return os.path.getsize(path)
        finally:
            os.close(descriptor)
            os.unlink(path)
    if kind == "named":
        with tempfile.TemporaryDirectory() as folder:
            return folder
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        return file.read()
"""


@pytest.mark.parametrize("kind", ["folder", "file", "descriptor", "nameless"])
def test_what_is_made_of_temporary_files_is_reused(call: Call, kind: str) -> None:
    value, calls, said = call(f"'four', {kind!r}", PROGRAM)
    assert calls == 1 and not said
    assert call(f"'four', {kind!r}", PROGRAM) == (value, 0, "")


def test_a_value_that_holds_a_name_is_not_stored(call: Call) -> None:
    values = set()
    for _ in range(2):
        value, calls, said = call("'four', 'named'", PROGRAM)
        values.add(value)
        assert calls == 1 and "R21" in said and "name of a temporary file" in said
    assert len(values) == 2


def _of(path: str) -> list[Any]:
    return [path, Path(path).stem, {"of": [path]}, np.array([path]), Path(path), path.encode()]


@pytest.mark.parametrize("place", range(len(_of("x"))))
def test_a_name_is_found_wherever_it_lies(place: int) -> None:
    with Recorder() as record:
        descriptor, path = tempfile.mkstemp(suffix=".tar.gz")
        os.close(descriptor)
        os.unlink(path)
        value = _of(path)[place]
    record.gave(value)
    assert record.named == path


def test_a_folder_that_was_there_before_is_none_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("a")
    with Recorder() as record, tempfile.TemporaryDirectory() as folder:
        os.listdir(folder)
        os.listdir(tmp_path)
        Path(folder, "words.txt").write_text((tmp_path / "words.txt").read_text())
        Path(folder, "words.txt").read_text()
    record.gave("a")
    assert [*record.reads] == [str(tmp_path / "words.txt")]
    assert [*record.listed] == [str(tmp_path)] and record.named is None


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_in_a_temporary_folder_is_no_file_of_its_own(tmp_path: Path, link: Any) -> None:
    (tmp_path / "words.txt").write_text("a")
    with Recorder() as record, tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        link(tmp_path / "words.txt", f"{folder}/x")
        Path(folder, "x").read_text()
    assert record.incomplete and "is a link" in record.incomplete
