"""A stage of webdataset that reads a file beside the shard."""

from __future__ import annotations

import io
import tarfile

from conftest import Node, settle
from vocabulary import check_edits_are_seen

MAIN = """
import json
import webdataset as wds
import helper
import prebake.wds

def numbered(sample):
    return {**sample, "number": helper.number(sample["txt"])}

ds = wds.WebDataset(["words.tar"], shardshuffle=False).decode().map(numbered).compose(prebake.wds.cached())
print(json.dumps({"values": [sample["number"] for sample in ds]}))
"""


def test_a_file_that_a_stage_reads_is_watched(node: Node) -> None:
    with tarfile.open(node.folder / "words.tar", "w") as tar:
        for word in "abc":
            member = tarfile.TarInfo(f"{word}.txt")
            member.size = 1
            tar.addfile(member, io.BytesIO(word.encode()))
    settle(node.folder / "words.tar")
    check_edits_are_seen(node, MAIN)
