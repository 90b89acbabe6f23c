"""Data values are known by content."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import prebake
from prebake import _native

# The environment with torch has none of these; there the rest of the suite runs.
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
regex = pytest.importorskip("regex")


@pytest.mark.parametrize(
    ("make", "others"),
    [
        (
            lambda: np.arange(1000.0),
            [np.arange(1001.0)[1:], np.arange(1000), np.arange(1000.0).reshape(10, 100)],
        ),
        (lambda: np.arange(2000)[::2], [np.arange(2000)[1::2]]),
        (lambda: np.asfortranarray(np.eye(80)), [np.eye(80), np.asfortranarray(2 * np.eye(80))]),
        (lambda: np.array(3), [np.int64(3), np.array([3]), np.array(4)]),
        (lambda: np.array([], "f4"), [np.array([], "f8"), np.zeros((0, 1), "f4")]),
        (lambda: np.array(["2020"], "M8[s]"), [np.array(["2021"], "M8[s]"), np.array(["2020"], "M8[D]")]),
        (
            lambda: np.array([(1, 2.0)], "i4,f8"),
            [np.array([(1, 3.0)], "i4,f8"), np.array([(1, 2.0)], "i8,f8")],
        ),
        (lambda: pd.DataFrame({"a": [1, 2]}), [pd.DataFrame({"a": [1, 3]}), pd.DataFrame({"b": [1, 2]})]),
        (lambda: pd.Series(["x", None]), [pd.Series(["y", None]), pd.Series(["x", None], index=[1, 2])]),
        (lambda: pa.table({"a": [1, 2]}), [pa.table({"a": [1, None]}), pa.table({"a": [1.0, 2.0]})]),
        (lambda: pa.chunked_array([[1], [2, 3]]), [pa.chunked_array([[1, 2, 4]]), pa.array([1, 2, 3])]),
        (lambda: pl.DataFrame({"a": ["x"]}), [pl.DataFrame({"a": ["y"]}), pl.DataFrame({"b": ["x"]})]),
        (lambda: Image.new("RGB", (9, 9), 5), [Image.new("RGB", (9, 9), 6), Image.new("L", (9, 9), 5)]),
        (lambda: regex.compile("a+"), [regex.compile("a*"), regex.compile("a+", regex.I)]),
    ],
)
def test_equal_content_is_equal_and_other_content_is_not(make: Callable[[], Any], others: list[Any]) -> None:
    assert prebake.fingerprint(make()) == prebake.fingerprint(make())
    found = {prebake.fingerprint(value) for value in [make(), *others]}
    assert len(found) == 1 + len(others)


def test_a_compiled_pattern_is_the_same_in_every_process(script: Callable[..., str]) -> None:
    main = """import prebake, regex
print(prebake.fingerprint(regex.compile(r"<a>|<b>|'s|[\\p{L}]+|\\L<more>", regex.I, more=["x", "y", "z"])))"""
    assert len({script(main) for _ in range(4)}) == 1


def test_chunks_and_slices_of_arrow_data_are_only_how_it_lies() -> None:
    assert prebake.fingerprint(pa.chunked_array([[1, 2], [3]])) == prebake.fingerprint(
        pa.chunked_array([[1], [2, 3]])
    )
    assert prebake.fingerprint(pa.array(["a", "b", "c"]).slice(1)) == prebake.fingerprint(
        pa.array(["b", "c"])
    )


def test_an_array_mapped_from_a_file_is_none_of_memory(tmp_path: Path) -> None:
    # What is made of it may be of its class, or fail when it is written to.
    numbers = np.arange(6.0)
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, numbers)
    mapped = {mode: np.load(tmp_path / "a.npy", mmap_mode=mode) for mode in ("r", "c")}
    assert len({prebake.fingerprint(each) for each in [numbers, *mapped.values(), mapped["r"][1:]]}) == 4
    # It is known by what it holds, as a file is.
    other = np.load(tmp_path / "b.npy", mmap_mode="r")
    assert prebake.fingerprint(other) == prebake.fingerprint(mapped["r"])
    assert prebake.fingerprint(np.asarray(mapped["c"])) == prebake.fingerprint(numbers)


def test_an_array_that_cannot_be_written_to_is_another() -> None:
    array = np.arange(3)
    before = prebake.fingerprint(array)
    array.flags.writeable = False
    assert prebake.fingerprint(array) != before


def test_an_array_changed_in_place_is_another() -> None:
    table = np.zeros(1 << 20)

    def look_up(x: int) -> float:
        return table[x]

    before = prebake.fingerprint(look_up)
    table[12345] = 1
    assert prebake.fingerprint(look_up) != before
    table[12345] = 0
    assert prebake.fingerprint(look_up) == before


class Held:
    """An object that holds what is no part of it, and says itself what it is."""

    def __init__(self, token: Any) -> None:
        self.token, self.lock = token, threading.Lock()

    def __prebake_token__(self) -> Any:
        return self.token


def test_an_object_may_say_what_it_is() -> None:
    assert prebake.fingerprint(Held(("v", 1))) == prebake.fingerprint(Held(("v", 1)))
    assert prebake.fingerprint(Held(("v", 1))) != prebake.fingerprint(Held(("v", 2)))
    with pytest.raises(prebake.Refused) as refused:
        prebake.fingerprint(Held(threading.local()))
    assert "__prebake_token__" in str(refused.value)


def test_plain_values_are_walked_natively() -> None:
    pairs = [(f"{i}.jpg", i % 7) for i in range(1000)]
    values: list[Any] = [
        pairs,
        pairs[::-1],
        tuple(pairs),
        [list(pair) for pair in pairs],
        [*pairs[:-1], ("999.jpg", True)],
        [*pairs[:-1], ("999.jpg", 5.0)],
        [*pairs[:-1], (b"999.jpg", 5)],
        [*pairs[:-1], (None, 5)],
        [*pairs[:-1], ("999.jp", "g5")],
        dict(pairs),
        dict(pairs[::-1]),
        [-0.0],
        [0.0],
    ]
    digests = [_native.digest_plain(value) for value in values]
    assert None not in digests and len(set(digests)) == len(values)
    # Which strings are one object says nothing.
    assert _native.digest_plain(["abc"] * 100) == _native.digest_plain(["".join("abc") for _ in range(100)])


def test_what_is_not_plain_is_left_to_the_general_description() -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: list[Any] = []
    for _ in range(1000):
        deep = [deep]

    class Text(str):
        pass

    for value in ([1 << 64], ["\ud800"], [object()], [{1}], [Text("a")], loop, deep, [np.int64(1)]):
        assert _native.digest_plain(value) is None
    assert prebake.fingerprint([Text("a")] * 100) != prebake.fingerprint(["a"] * 100)


def test_digests_read_any_buffer_where_it_lies() -> None:
    data = np.arange(1 << 21, dtype="u1")
    assert (
        _native.digest("c", data)
        == _native.digest("c", data.tobytes())
        == _native.digest("c", bytearray(data))
    )
    with pytest.raises(BufferError):
        _native.digest("c", data[::2])
