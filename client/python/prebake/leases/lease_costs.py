"""How many items to lease at once, by what items and looks cost."""

from __future__ import annotations

#: Time to lease at once: long against the 2 ms of asking, looking and committing, short against what others
#: wait for. Wall time, since they wait for reading too. Where little is left the daemon grants less.
LEASE_NS = 250_000_000
#: Leases at once, however fast the items are: what a dead job holds must be computed by others after a wait.
LEASES_MAX = 64
#: Leases at once where a look is so long that it pays for more items than those above.
LEASES_LONG_MAX = 1024
#: What is made between two looks at what makes it, in the time of a look; and no longer than this, since
#: others wait for what is leased.
LOOK_WORK, LOOK_WORK_NS_MAX = 10, 1_000_000_000
#: Weight of the newest item in the average cost.
COST_WEIGHT = 0.25


class LeaseCosts:
    """What the items of one collection cost in this process, in nanoseconds."""

    def __init__(self) -> None:
        #: Of an item on average, and of the last close look at what makes it.
        self.item_ns, self.look_ns = 0.0, 0

    def add(self, item_ns: int) -> None:
        """Takes note of an item that was made."""
        self.item_ns += (item_ns - self.item_ns) * (COST_WEIGHT if self.item_ns else 1.0)

    def leases(self) -> int:
        """Items to lease at once."""
        if not self.item_ns:
            return 1
        work = min(LOOK_WORK * self.look_ns, LOOK_WORK_NS_MAX)
        most = LEASES_MAX if work <= LEASE_NS else LEASES_LONG_MAX
        return max(1, min(most, int(max(LEASE_NS, work) / self.item_ns)))
