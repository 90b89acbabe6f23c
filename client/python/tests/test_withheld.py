"""Copies of elements that are not handed over yet."""

from __future__ import annotations

import numpy as np
import pytest

from prebake.compute import pending_elements
from prebake.compute.pending_elements import MEMORY_BYTES, PendingElements


@pytest.fixture(autouse=True)
def nothing_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_elements, "_spare", [])


def test_parts_are_as_they_were_when_they_were_kept() -> None:
    kept = PendingElements()
    values = [np.arange(6, dtype="<i8").reshape(2, 3), np.zeros(0), np.array(7.0), bytearray(b"text")]
    copies = kept.keep(values)
    expected = [np.asarray(value).tobytes() for value in values]
    for value in values[:3]:
        value[...] = 1
    values[3][:] = b"----"
    assert [bytes(copy) for copy in copies] == expected


def test_parts_that_do_not_lie_side_by_side_are_kept_in_order_of_their_elements() -> None:
    table = np.arange(12).reshape(3, 4)
    for part in (table[:, ::2], table.T, table[:, ::2].T):
        (copy,) = PendingElements().keep([part])
        assert bytes(copy) == part.tobytes()


def test_what_has_no_room_is_kept_all_the_same_and_said() -> None:
    kept = PendingElements()
    (half,) = kept.keep([b"a" * (MEMORY_BYTES // 2)])
    assert not kept.is_full
    (whole,) = kept.keep([b"b" * MEMORY_BYTES])
    assert kept.is_full
    assert (half[-1:], whole[-1:]) == (b"a", b"b")
    kept.clear()
    assert not kept.is_full
    kept.keep([b"c" * MEMORY_BYTES])
    assert not kept.is_full


def test_memory_is_used_by_one_at_a_time() -> None:
    one, two = PendingElements(), PendingElements()
    (first,), (second,) = one.keep([b"one"]), two.keep([b"two"])
    assert (bytes(first), bytes(second)) == (b"one", b"two")
    one.close()
    two.close()
    again, other = PendingElements(), PendingElements()
    assert again._memory is one._memory
    assert other._memory is not again._memory
