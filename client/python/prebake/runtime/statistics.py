"""What was done with one data set, in numbers, by all processes of a job that have it.

Counts lie in memory that the processes share. A forked child has it anyway. A process that is sent the data
set opens the memory of the one that sent it (`/proc/PID/fd/N`), and a random tag tells whether it is that
memory. Where it cannot be reached, in another container or once the sender has ended, the process counts for
itself.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple, TypedDict, cast

from prebake.runtime import daemon


class Stats(TypedDict):
    """Elements by how they came to a job, and bytes by where they came from.

    Examples
    --------
    >>> import prebake
    >>> sorted(prebake.Stats.__annotations__)[:2]
    ['bypassed', 'bytes_ram']
    """

    #: Computed and stored.
    computed: int
    #: Served: they were there.
    reused: int
    #: Served once another job had computed them.
    followed: int
    #: Computed and not stored.
    bypassed: int
    #: Served, computed again, and found to be the same.
    verified: int
    #: Of elements that were served.
    bytes_ram: int
    #: What the daemon read from SSD for that.
    bytes_ssd: int


NOTHING = Stats(computed=0, reused=0, followed=0, bypassed=0, verified=0, bytes_ram=0, bytes_ssd=0)


class _Row(NamedTuple):
    """Where counts lie that other processes may find."""

    table: Any
    number: int


class _Address(NamedTuple):
    """The same for another process; `opened_at` is None if the memory can only be inherited."""

    opened_at: tuple[int, int] | None
    tag: bytes
    row: int


#: Rows are taken from it, here and in children that are forked.
_table: Any = None
#: All that are mapped here, by tag.
_tables: weakref.WeakValueDictionary[bytes, Any] = weakref.WeakValueDictionary()


class Statistics:
    """Counts of one data set, or of what this process alone knows of."""

    def __init__(self, counters: Any = None, row: _Row | None = None, since: Stats = NOTHING) -> None:
        self._counters, self._row, self._since = counters, row, since

    @classmethod
    def shared(cls) -> Statistics:
        """Fresh counts for this process and those that will have the data set from it."""
        global _table
        module = daemon.native()
        if module is None:
            return cls()
        taken = None if _table is None else _table.take()
        if taken is None:
            try:
                _table = module.CounterTable()
            except module.Error:
                # There is no memory to be had: counted for this process.
                return cls()
            _tables[_table.tag] = _table
            taken = _table.take()
        return cls() if taken is None else cls(taken[1], _Row(_table, taken[0]))

    def counters(self) -> Any:
        """What native items add to; to be asked for only where there is a native module."""
        if self._counters is None:
            self._counters = daemon.native().Counters()
        return self._counters

    def read(self) -> Stats:
        """What was counted since it began."""
        if self._counters is None:
            return NOTHING.copy()
        counted, since = self._counters.read(), dict[str, Any](self._since)
        return cast(Stats, {name: count - since[name] for name, count in counted.items()})

    def begin_anew(self) -> None:
        """Forgets what was counted, in this process's view alone."""
        self._since = NOTHING if self._counters is None else self._counters.read()

    def __copy__(self) -> Statistics:
        """The same counts, which begin anew by themselves."""
        return Statistics(self._counters, self._row, self._since)

    def __reduce__(self) -> Any:
        return _reached, (self._address(), self._since)

    def _address(self) -> _Address | None:
        if self._row is None:
            return None
        return _Address(self._row.table.address, self._row.table.tag, self._row.number)


def _reached(address: _Address | None, since: Stats) -> Statistics:
    """The counts of the process that sent them; this one's own where these cannot be reached."""
    table = None if address is None else _table_of(address)
    counters = None if address is None or table is None else table.row(address.row)
    if address is None or counters is None:
        return Statistics.shared()
    return Statistics(counters, _Row(table, address.row), since)


def _table_of(address: _Address) -> Any:
    found, module = _tables.get(address.tag), daemon.native()
    if found is None and module is not None and address.opened_at is not None:
        found = module.CounterTable.open(address.opened_at, address.tag)
        if found is not None:
            _tables[address.tag] = found
    return found
