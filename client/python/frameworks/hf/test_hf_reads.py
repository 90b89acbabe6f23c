"""A function of `map` that reads a file beside the rows."""

from __future__ import annotations

import pytest
from conftest import Node
from vocabulary import check_edits_are_seen

MAIN = """
import json
import datasets
import helper
import prebake.hf

datasets.disable_progress_bars()

def numbered(row):
    return {"number": helper.number(row["word"])}

def all_numbered(batch):
    return {"number": [helper.number(word) for word in batch["word"]]}

ds = datasets.Dataset.from_dict({"word": list("abc")})
print(json.dumps({"values": list(prebake.hf.map(ds, CALL)["number"])}))
"""


@pytest.mark.parametrize(
    "call", ["numbered", "all_numbered, batched=True, batch_size=1", "numbered, num_proc=2"]
)
def test_a_file_that_the_function_reads_is_watched(node: Node, call: str) -> None:
    check_edits_are_seen(node, MAIN.replace("CALL", call))
