"""A function that reads a file which nobody declared, by a name that it makes up, for each framework."""

from __future__ import annotations

import time

from conftest import Node, settle

HELPER = """
import os

FOLDER = "tables"

def table():
    with open(os.path.join(FOLDER, "vocabulary" + ".txt")) as file:
        return file.read().split()

def number(word):
    return table().index(word)
"""
#: Values made while it is found out what they read are stored if a later write could not go unseen.
RACY_SECONDS = 2.1


def check_edits_are_seen(node: Node, main: str) -> None:
    """Edits what a job's function reads. The job prints its `values` for the words a, b and c."""
    node.write(helper=HELPER, main=main)
    folder = node.folder / "tables"
    folder.mkdir()

    def write(text: str) -> None:
        (folder / "vocabulary.txt").write_text(text)
        settle(folder / "vocabulary.txt")
        time.sleep(RACY_SECONDS)

    write("a b c")
    assert node.run()["values"] == [0, 1, 2]
    again = node.run()
    assert again["values"] == [0, 1, 2] and again["made"] == 0, again["said"]
    write("c b a")
    assert node.run()["values"] == [2, 1, 0]
    again = node.run()
    assert again["values"] == [2, 1, 0] and again["made"] == 0
    write("a b c")
    back = node.run()
    assert back["values"] == [0, 1, 2] and back["made"] == 0
