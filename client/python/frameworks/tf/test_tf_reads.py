"""A Python function of a `tf.data` graph that reads a file, in TensorFlow's threads."""

from __future__ import annotations

import pytest
from conftest import Node
from vocabulary import check_edits_are_seen

MAIN = """
import json
import numpy as np
import tensorflow as tf
import helper
import prebake.tf

def numbered(word):
    return np.int64(helper.number(word.decode()))

def called(word):
    return tf.numpy_function(numbered, [word], tf.int64)

words = tf.data.Dataset.from_tensor_slices(list("abc"))
ds = (CALL).apply(prebake.tf.cache())
print(json.dumps({"values": [int(number) for number in ds]}))
"""
CALLS = [
    "words.map(called)",
    "words.map(called, num_parallel_calls=3, deterministic=True).prefetch(2)",
    # Of a pipeline whose rows do not make its elements one by one.
    "words.map(called).filter(lambda number: number >= 0)",
    "words.map(called, num_parallel_calls=3).prefetch(2).filter(lambda number: number >= 0)",
]


@pytest.mark.parametrize("call", CALLS)
def test_a_file_that_a_function_reads_is_watched(node: Node, call: str) -> None:
    check_edits_are_seen(node, MAIN.replace("CALL", call))
