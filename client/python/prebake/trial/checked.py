"""How much of a function was compared by this process, call by call."""

from __future__ import annotations

import time
from typing import NamedTuple

#: So many calls are compared in a world that this process proved, as long as all together take no more CPU
#: time than this, and no longer than that: cheap ones are not worth a risk. With them it is compared that the
#: function is still the same.
CALLS_MAX, CHEAP_NS, CHEAP_WALL_NS = 64, 100_000_000, 250_000_000
#: What the first may take beside, as it loads what all need. One that takes longer is dear.
FIRST_NS, FIRST_WALL_NS = 2_000_000_000, 5_000_000_000


class Checked(NamedTuple):
    """How many calls were compared, and in how many nanoseconds of CPU and of wall time after the first."""

    count: int = 0
    cpu_ns: int = 0
    wall_ns: int = 0

    @staticmethod
    def clocks() -> tuple[int, int]:
        """What CPU and wall time it is, for `one_more`."""
        return time.thread_time_ns(), time.perf_counter_ns()

    def one_more(self, begun: tuple[int, int]) -> Checked:
        """With one that was compared since then."""
        cpu, wall = self.clocks()
        cpu, wall = cpu - begun[0], wall - begun[1]
        if self.count == 0 and cpu < FIRST_NS and wall < FIRST_WALL_NS:
            return Checked(1)
        return Checked(self.count + 1, self.cpu_ns + cpu, self.wall_ns + wall)

    def wants_more(self) -> bool:
        """Whether another call is to be compared."""
        return self.count < CALLS_MAX and self.cpu_ns < CHEAP_NS and self.wall_ns < CHEAP_WALL_NS
