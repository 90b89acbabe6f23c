"""Where an epoch begins, for a data set that is only ever asked for items."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class Epoch:
    """The items given to the caller since an epoch began."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._given, self._given_count = bytearray(count), 0

    def begins(self, indices: Sequence[int], may: Callable[[], bool]) -> bool:
        """Whether giving these begins another: one was given before, and half of all since; or fewer, where
        `may()`. Takes note of them."""
        given, again = self._given, False
        for i in indices:
            if i >= len(given):
                break
            again = again or bool(given[i])
            self._given_count += not given[i]
            given[i] = 1
        begins = again and (2 * self._given_count >= len(given) or may())
        if begins:
            self._given, self._given_count = bytearray(len(given)), 0
            # These are the first of the new one.
            self.begins(indices, bool)
        return begins
