"""Values of one function, known by a digest each: what shims make of a framework's chunks and shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from prebake import graph, snapshot
from prebake.code import Identity, identify
from prebake.errors import warn_once
from prebake.fill import Fill, unseen


class Input(NamedTuple):
    """What a value is made from: a digest, a name for people, and the files and folders that are read."""

    digest: bytes
    name: str
    paths: Sequence[str] = ()


class Entries:
    """The values of `step` over `inputs`; `compute(i)` makes the one of input i.

    `step` is what the values are known by: a function, or a partial of one with parameters. Raises `Refused`
    if that cannot be known.
    """

    def __init__(
        self, step: Callable[..., Any], inputs: Sequence[Input], compute: Callable[[int], Any]
    ) -> None:
        self._step = step
        self._inputs = inputs
        self._known: Identity = identify(step)
        self._held = snapshot.take([step])
        self._fill = Fill(self._open, compute, len(inputs), self._unchanged)

    def __len__(self) -> int:
        return len(self._inputs)

    def get(self, i: int) -> Any:
        """Value i: read, waited for, or computed here."""
        return self._fill.many([i], unseen(range(len(self)), i + 1, self._fill.seen))[0]

    def is_stored(self, i: int) -> bool:
        """Whether value i can be read by other processes, as far as this one knows."""
        items = self._fill.items()
        return items is not None and not items.missing([i])

    def stats(self) -> dict[str, int]:
        """Values by outcome (computed, reused, followed, bypassed), as this process saw them."""
        return self._fill.stats()

    def _open(self, job: Any) -> Any:
        # First what it is held to be, then what is planned: a change in between is seen by `_unchanged`.
        self._held, self._known = snapshot.take([self._step]), identify(self._step)
        collection = job.plan(graph.of_call(self._step))
        if collection.bypass:
            warn_once(f"bypass {collection.bypass}", f"not cached: {collection.bypass}")
            return None
        return _Items(collection, self._inputs)

    def _unchanged(self, closely: bool) -> bool:
        held = snapshot.take([self._step])
        if not closely and snapshot.same(held, self._held):
            return True
        try:
            unchanged = identify(self._step) == self._known
        except Exception:
            # It cannot be known any more; opening the collection anew says why.
            return False
        if unchanged:
            self._held = held
        return unchanged


class _Items:
    """Calls of one collection as the items that `Fill` works on."""

    def __init__(self, collection: Any, inputs: Sequence[Input]) -> None:
        self._collection = collection
        self._inputs = inputs
        self._calls: dict[int, Any] = {}
        self._last: Any = None

    def _call(self, i: int) -> Any:
        if i not in self._calls:
            digest, name, paths = self._inputs[i]
            self._calls[i] = self._collection.call(name, digest, list(paths))
        return self._calls[i]

    def get(self, i: int, validated: bool = False) -> Any:
        return self._call(i).get(0, validated)

    def acquire(
        self, wanted: Sequence[int], ahead: Sequence[int], leases: int
    ) -> tuple[list[int], dict[int, str]]:
        """As the native call, but waits for the first wanted item that another job holds."""
        for i in wanted:
            granted, bypass = self._call(i).acquire([0], [], 1)
            if granted or bypass:
                return [i] * len(granted), dict.fromkeys([i] * len(bypass), bypass.get(0, ""))
        return [], {}

    def put(self, i: int, *args: Any, **kwargs: Any) -> bool:
        self._last = self._call(i)
        return self._last.put(0, *args, **kwargs)

    def commit(self) -> None:
        # Everything that this process put, through whichever call.
        if self._last is not None:
            self._last.commit()

    def release(self, items: Sequence[int]) -> None:
        for i in items:
            self._call(i).release([0])

    def missing(self, indices: Sequence[int]) -> list[int]:
        return [i for i in indices if self._call(i).missing([0])]

    def validate(self) -> int:
        return sum(call.validate() for call in self._calls.values())

    def stats(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for call in self._calls.values():
            for name, count in call.stats().items():
                total[name] = total.get(name, 0) + count
        return total
