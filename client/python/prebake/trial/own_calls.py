"""Calls of a function that this process made itself, and was told nothing of yet.

A trial makes the first call again, and others only later. What a later call alone does (a branch of its own
that draws in compiled code, or asks for the time) would be given out again before any of that is heard. So a
cheap call that comes again is made once more, and compared.
"""

from __future__ import annotations

#: So many of one function, as long as all together took no longer than this when they were made first: cheap
#: ones are not worth a risk.
CALLS_MAX, CHEAP_NS = 64, 500_000_000
#: One that cannot be compared, since it fails or what it reads changes, is tried so often.
TRIES_MAX = 2


class OwnCalls:
    """Those of one function in this process, by the fingerprint of what it was given."""

    def __init__(self) -> None:
        #: Those that are to be made once more, and how often that is still tried.
        self._untold: dict[bytes, int] = {}
        self._told: set[bytes] = set()
        #: What is left of the two limits.
        self._calls, self._ns = CALLS_MAX, CHEAP_NS

    def __contains__(self, fingerprint: bytes) -> bool:
        return fingerprint in self._told or fingerprint in self._untold

    def __len__(self) -> int:
        return len(self._told) + len(self._untold)

    def add(self, fingerprint: bytes, ns: int, is_tried: bool) -> None:
        """Takes note of one that was made in so long; `is_tried` if a trial makes just that again."""
        if fingerprint in self:
            return
        if is_tried or self._calls <= 0 or ns > self._ns:
            self._told.add(fingerprint)
            return
        self._calls -= 1
        self._ns -= ns
        self._untold[fingerprint] = TRIES_MAX

    @property
    def are_told(self) -> bool:
        """Whether none is to be made once more."""
        return not self._untold

    def wants(self, fingerprint: bytes) -> bool:
        """Whether it is to be made once more and compared, before it is given out again."""
        return fingerprint in self._untold

    def tries(self, fingerprint: bytes) -> None:
        """Takes note that it was made once more and could not be compared."""
        left = self._untold.get(fingerprint, 0) - 1
        if left > 0:
            self._untold[fingerprint] = left
        else:
            self.tell(fingerprint)

    def tell(self, fingerprint: bytes) -> None:
        """Takes note that it is the same, or cannot be told so: it is given out from now on."""
        self._untold.pop(fingerprint, None)
        self._told.add(fingerprint)
