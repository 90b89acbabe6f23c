"""A stream as it runs here: what it yields, and what it was seen to ask for."""

from __future__ import annotations

import contextlib
import copy
import itertools
import os
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from prebake.codec import values
from prebake.compute.restart_signals import Inseparable, Tripped
from prebake.execution.scope import Scope
from prebake.identity.code import Identity
from prebake.known import marks
from prebake.leases.lease_costs import LEASE_NS
from prebake.purity import tripwire
from prebake.reads import tracked_inputs
from prebake.reads.checked_reads import check
from prebake.reads.recorder import Recorder
from prebake.runtime.errors import Code, Refused
from prebake.streams.stream import Sharing, Stream
from prebake.world import world
from prebake.world.switches import Switches

#: Elements in an entry, and their bytes: few enough that a job which stops early made little for nobody.
ELEMENTS_MAX, BYTES_MAX = 256, 16 << 20
#: Values that are the same wherever they are.
_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
_ENDED = object()


class Block(NamedTuple):
    """A run of elements as they were made here."""

    elements: list[Any]
    ended: bool
    error: BaseException | None


class StreamRun:
    """One run of a stream that is `known`."""

    def __init__(
        self, stream: Stream, known: Identity, lists: dict[str, list[Any]], sharing: Sharing
    ) -> None:
        self._stream, self._known, self._lists, self._sharing = stream, known, lists, sharing
        #: The stream; how many elements it made; what stands for its lists.
        self._live: Iterator[Any] | None = None
        self._made = 0
        self._tracked: dict[str, Any] = {}
        #: What it asked for.
        self.asked = tracked_inputs.Asks()
        self._scope = Scope(is_placed=True)

    def from_place(self, served: int) -> Iterator[Any]:
        """What comes after those that were served, which is not shared. Nothing is made before it is asked
        for, so that random numbers are drawn in the order in which they would be."""
        if self._live is None or self._made != served:
            before = tripwire.state()
            self.close()
            if not self._seek(served, {}):
                return
            if served:
                tripwire.restore(before)
        assert self._live is not None, "begun above"
        yield from self._live

    def elements(self, served: int) -> Block:
        """Those after so many that were `served`, as many as make an entry. Raises `Tripped` if it draws."""
        before = tripwire.state()
        tracked = self._tracked if self._live is not None else None
        if self._live is None or self._made > served:
            self.close()
            tracked = None
        if tracked is None:
            self.asked = tracked_inputs.Asks()
            tracked = {
                name: tracked_inputs.Tracked(items, self.asked.note(name))
                for name, items in self._stream.lists().items()
            }
        scope = self._scope
        around, switches = world.current(), Switches()
        with self._stream.given(tracked), Recorder(scope=scope) as record:
            block = record.gave(self._taken(tracked, served))
        switched = switches.changed(around)
        if not marks.is_pure(self._stream.roots()[0]):
            self.asked.ran_on.update(dict.fromkeys(scope.names_beside_world(self._known.reached)))
            record.incomplete = record.incomplete or scope.unseen or None
        drawn = tripwire.moved(before)
        if scope.worker_seed:
            raise Tripped("its worker's seed", before, self._stream)
        # Another thread may have drawn meanwhile: then it must not be put back.
        if drawn is not None and (threading.active_count() == 1 or tripwire.draws(self._run_again)):
            raise Tripped(drawn, before, self._stream)
        for path in record.reads:
            self.asked.files.setdefault(path, record.stats.get(path))
        try:
            for path in self._declared():
                self.asked.files.setdefault(path, tracked_inputs.look(path))
            check(record, list(record.reads), "it")
            if switched:
                why = f"it changes what the whole process is set to ({switched}), which a hit would not"
                raise Refused(Code.EFFECT, why)
            if self.asked.changed:
                raise Refused(Code.CARRIES_STATE, "it changes a list that it goes through")
        except Refused as refused:
            self._sharing.refuse(refused)
        self._sharing.is_over = self._sharing.is_over or block.error is not None
        return block

    def _run_again(self) -> None:
        """Makes what was made once more, for nothing."""
        with contextlib.suppress(Exception):
            for _ in itertools.islice(self._stream.begin({}), self._made):
                pass

    def _declared(self) -> Iterator[str]:
        """Files that it is said to have read by now."""
        yield from map(os.path.abspath, self._stream.inputs)
        for name in self._stream.path_lists & self.asked.items.keys():
            items = self._lists[name]
            taken = range(len(items)) if name in self.asked.whole else self.asked.items[name]
            yield from (os.path.abspath(items[i]) for i in taken if i < len(items))

    def _taken(self, tracked: dict[str, Any], served: int) -> Block:
        """The elements after those that were served, as far as they are made in the time of a lease."""
        made: list[Any] = []
        size, until = 0, time.monotonic_ns() + LEASE_NS
        try:
            if not self._seek(served, tracked):
                raise Inseparable("it ends sooner than it did before")
            assert self._live is not None, "it was begun"
            while len(made) < ELEMENTS_MAX and size < BYTES_MAX:
                value = next(self._live)
                self._made += 1
                if type(value) not in _PLAIN:
                    # What it yielded it may go on to work on in place.
                    value, length = self.copied(value)
                    size += length
                elif isinstance(value, (str, bytes)):
                    size += len(value)
                made.append(value)
                if self._sharing.is_over or time.monotonic_ns() > until:
                    break
        except StopIteration:
            return Block(made, True, None)
        except Exception as error:
            return Block(made, False, error)
        return Block(made, False, None)

    def copied(self, value: Any) -> tuple[Any, int]:
        """An element that later ones do not change, and its bytes."""
        try:
            try:
                layout, parts = values.encode(value)
            except Refused:
                # What stands for one of its lists is a list again once it is copied.
                layout, parts = values.encode(copy.deepcopy(value))
            raw = bytearray(b"".join(parts))
            return values.decode(layout, raw), len(raw)
        except Exception as error:
            self._sharing.refuse(error)
            return value, 0

    def _seek(self, count: int, tracked: dict[str, Any]) -> bool:
        """Begins it if need be, and leaves out what was made before; whether there is as much."""
        if self._live is None:
            self._tracked = tracked
            self._live = self._stream.begin(tracked)
            self._made = 0
        while self._made < count:
            if next(self._live, _ENDED) is _ENDED:
                return False
            self._made += 1
        return True

    def close(self) -> None:
        """Ends it: it is begun again for what comes next."""
        live, self._live = self._live, None
        self._made = 0
        close = getattr(live, "close", None)
        if close is not None:
            close()
