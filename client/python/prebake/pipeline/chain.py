"""A stream's elements as a chain of entries: each is known by all that was asked for up to its end.

A stream cannot be taken apart, and not be begun in the middle. But its code and what it holds are known, and
what it asks for while it runs is seen (`tracked_inputs.py`). So the chain begins with the former. Under each
key lies either what the stream asks for next, and the answers lead to the next key; or a run of elements,
and the key after them is that of the next. (`prebake run` finds what a command reads in the same way.)
Another job follows the chain as far as the answers are the same for it: of a list with more items at its
end, or another file late in it, that is all but the tail. From there the stream runs, without the elements
that are there.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from prebake.codec import values
from prebake.encoding.encoder import digest
from prebake.identity import graph, snapshot
from prebake.identity.code import Identity
from prebake.known import marks
from prebake.leases.client import LEASE_NS, Fill, nobody, nothing_ahead
from prebake.leases.probe_cache import verdict
from prebake.leases.proof import Split, varied
from prebake.leases.restart_signals import Again, Inseparable, Tripped
from prebake.leases.stream_proof import CANARIES, CHEAP_SECONDS, CHEAP_WALL_SECONDS, Head, StreamProof
from prebake.leases.watched import refuse_unheard
from prebake.probe.analysis import Verdict
from prebake.purity import tripwire
from prebake.reads import tracked_inputs
from prebake.reads.audit import Recorder
from prebake.reads.checked_reads import check
from prebake.reads.settled import SETTLED_NS
from prebake.runtime import worker_rank
from prebake.runtime.errors import Code, Refused, warn_once
from prebake.runtime.patience import Pending
from prebake.runtime.refusals import not_cached
from prebake.world import within, world
from prebake.world.executed import Scope, shown

CONTEXT = "prebake 2026 stream v1"
#: Elements in an entry, and their bytes: few enough that a job which stops early made little for nobody.
ELEMENTS_MAX, BYTES_MAX = 256, 16 << 20
#: Times that a stream asks for more before its first element.
ASKS_MAX = 64
#: Elements that a probe takes from the beginning, in two runs; and in further ones, if that takes no longer
#: than so many seconds of CPU time, and of any: one may be made in another way than those before it.
PROBED, FURTHER, FURTHER_SECONDS, FURTHER_WALL_SECONDS = (3, 6), (16, 64), 0.25, 1.0
#: Values that are the same wherever they are.
_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
_ENDED = object()


class Stream(Protocol):
    """What yields elements. It can be sent to another process."""

    #: Files that it is said to read.
    inputs: Sequence[str]
    #: Lists whose items are files that it is said to read when it takes them.
    path_lists: frozenset[str]

    def roots(self) -> list[Any]:
        """The objects that it runs, which must not change unseen."""

    def identity(self) -> Identity:
        """What those are, without its lists. Raises `Refused`."""

    def lists(self) -> dict[str, list[Any]]:
        """The lists that it may go through."""

    def begin(self, lists: dict[str, Any]) -> Iterator[Any]:
        """Its elements, with stand-ins for some of its lists. Inside `given` of the same."""

    def given(self, lists: dict[str, Any]) -> contextlib.AbstractContextManager[None]:
        """Puts the stand-ins in place while it runs."""


class Block(NamedTuple):
    """A run of elements as they were made here."""

    elements: list[Any]
    ended: bool
    error: BaseException | None


class Chain:
    """One run of a stream: `elements`. Once it is known that it cannot be shared, `refused` says why."""

    def __init__(self, stream: Stream) -> None:
        """Raises `Refused` if it cannot be known what the stream is."""
        self._stream = stream
        self._held = snapshot.Snapshot(stream.roots())
        self._known = stream.identity()
        if not stream.inputs and not stream.path_lists:
            refuse_unheard(self._known, "it")
        self._lists = {name: list(items) for name, items in stream.lists().items()}
        self._key = digest(CONTEXT, self._known.digest + json.dumps(worker_rank.place()).encode())
        #: What was asked for up to the key, and the files' answers.
        self._answered = tracked_inputs.Asks()
        self._files: dict[str, tracked_inputs.File] = {}
        self._begun_ns = time.time_ns()
        self._served = 0
        #: The stream as it runs here; how many elements it made; what it asked for.
        self._live: Iterator[Any] | None = None
        self._made = 0
        self._asked = tracked_inputs.Asks()
        self._tracked: dict[str, Any] = {}
        self._block: Block | None = None
        self._scope = Scope(is_placed=True)
        #: Not shared from here on; and why, if that holds for later runs too.
        self._through = False
        self.refused: Refused | None = None
        self._job: Any = None
        self._collection: tuple[Any, Any] | None = None
        self._proof = StreamProof(self._plan, self._stored_head, self._made_head)
        #: The `with` statements that its next elements are asked for in.
        self._inside: list[str] = []

    def elements(self) -> Iterator[Any]:
        """All elements in turn: read, waited for, or made here."""
        try:
            # A hit is of what the stream was when its elements began, too.
            while not self._through and self._unchanged(False):
                found = self._next()
                if self._through:
                    break
                if isinstance(found, str):
                    self._follow(found)
                    continue
                ended, elements = found
                # What was made here for this run may have been cut otherwise.
                self._block = None
                self._key = digest(CONTEXT, self._key + b"next")
                # Before they are given: they are made, and never again for this run.
                self._served += len(elements)
                # One by one: what is sent to a generator does not concern a list.
                for element in elements:  # noqa: UP028
                    yield element
                if ended:
                    return
            yield from self._rest()
        finally:
            self._close()

    def _rest(self) -> Iterator[Any]:
        """What is not shared. Nothing is made before it is asked for, so that random numbers are drawn in the
        order in which they would be."""
        block, self._block = self._block, None
        if block is not None:
            self._served += len(block.elements)
            for element in block.elements:  # noqa: UP028
                yield element
            if block.error is not None:
                raise block.error
            if block.ended:
                return
        if self._live is None or self._made != self._served:
            before = tripwire.state()
            self._close()
            if not self._seek(self._served, {}):
                return
            if self._served:
                tripwire.restore(before)
        assert self._live is not None, "begun above"
        yield from self._live

    # What is under a key.

    def _next(self) -> Any:
        """What is under the key: asks as text, or whether it ended and a run of elements."""
        inside = within.of_request()
        if inside != self._inside:
            self._inside, self._collection = inside, None
        fill = Fill(
            self._open,
            self._make,
            1,
            self._unchanged,
            # That is told in `_run`.
            culprit=nobody,
            approve=lambda items, i: not self._through,
            inside=inside,
        )
        try:
            return fill.many([0], nothing_ahead)[0]
        except Exception as error:
            # What the stream raises is in its block.
            self._refuse(error)
            return None
        except Pending:
            # As it is, this time.
            self._through = True
            self._block = None
            return None
        except Again as reason:
            # It runs again from its beginning, as it is.
            if isinstance(reason, Tripped):
                tripwire.restore(reason.before)
                self._refuse(Refused(Code.RANDOM, f"it draws from {reason.generator} as it runs"))
            else:
                self._refuse(Refused(Code.OPAQUE, f"what it yields is not shared: {reason}"))
            self._block = None
            self._close()
            return None

    def _open(self, job: Any) -> Any:
        if self._collection is None or self._collection[0] is not job:
            target = self._stream.roots()[0]
            self._job = job
            collection = self._plan(self._proof.variants(job.boot_id, self._inside))
            if collection.bypass:
                warn_once(f"bypass {collection.bypass}", f"not cached: {collection.bypass}")
                self._through = True
                return None
            if not collection.entries and marks.known(target).kind != marks.DETERMINISTIC:
                self._prove()
            self._collection = job, collection
        return self._collection[1].named("/", [(self._key, f"element {self._served}")], unread=True)

    def _plan(self, variants: list[Split]) -> Any:
        target = self._stream.roots()[0]
        described = graph.chain([graph.arguments(), graph.step(target, self._known)])
        return self._job.plan(varied(described, variants))

    def _stored_head(self, collection: Any) -> Head | None:
        """What is there of its first elements, without making any."""
        key = self._key
        for _ in range(ASKS_MAX):
            items = collection.named("/", [(key, "element 0")], unread=True)
            found = items.stored(0) if items.locate([0]) else None
            if found is None:
                return None
            stored, layout = found
            try:
                held = values.decode(layout, stored)
            except Refused:
                return None
            if type(held) is not str:
                ended, elements = held
                return Head(elements, ended)
            key = digest(CONTEXT, b"".join([key, *map(self._answer, json.loads(held))]))
        return None

    def _made_head(self, count: int) -> Head:
        elements: list[Any] = []
        ended = False
        cpu, until = time.thread_time() + CHEAP_SECONDS, time.monotonic() + CHEAP_WALL_SECONDS
        with self._stream.given({}):
            live = self._stream.begin({})
            while len(elements) < count:
                if len(elements) > CANARIES and (time.thread_time() > cpu or time.monotonic() > until):
                    break
                element = next(live, _ENDED)
                if element is _ENDED:
                    ended = True
                    break
                # What it yielded it may go on to work on in place.
                elements.append(self._copied(element)[0])
        return Head(elements, ended)

    def _prove(self) -> None:
        count = len(PROBED)
        further = range(count, count + len(FURTHER))
        found, _ = verdict([self._known], _itself, [_Head(self._stream)], (), count, further)
        try:
            _accept(found, {os.path.realpath(path) for path in self._stream.inputs})
        except Refused as refused:
            self._refuse(refused)
            raise

    def _follow(self, text: str) -> None:
        """Goes to the key that the answers to what is asked lead to."""
        out = [self._key]
        try:
            for ask in json.loads(text):
                out.append(self._answer(ask))
                self._answered.add(ask)
        except Exception as error:
            self._refuse(error)
        self._key = digest(CONTEXT, b"".join(out))

    def _answer(self, ask: list[Any]) -> bytes:
        kind, name, *rest = ask
        if kind == "file":
            stat, content = rest[0] or (None, "")
            hint = tracked_inputs.File(tuple(stat), bytes.fromhex(content)) if stat else None
            found = self._files.get(name) or tracked_inputs.read(name, hint)
            if found is None:
                self._through = True
                return b""
            self._files[name] = found
            return digest(CONTEXT, b"file" + found.content)
        if kind == "ran on":
            return digest(CONTEXT, f"ran on {name} {shown(name)}".encode("utf-8", "surrogatepass"))
        items = self._lists.get(name, [])
        return tracked_inputs.items_digest(items if kind == "whole" else items[rest[0] : rest[1]])

    # How it is made.

    def _make(self, _: int) -> Any:
        if self._block is None and not self._through:
            self._block = self._run()
        if self._through:
            return None
        assert self._block is not None, "it was just made"
        new = self._asked.beyond(self._answered)
        for path in self._asked.files:
            if not self._is_as_read(path):
                self._through = True
                return None
        if new:
            return json.dumps([self._hinted(ask) for ask in new])
        return self._block.ended, self._block.elements

    def _hinted(self, ask: list[Any]) -> list[Any]:
        """An ask with what is known of the answer, for who finds the file as it is now."""
        if ask[0] != "file":
            return ask
        file = self._files[ask[1]]
        return [*ask, None if file.stat is None else [file.stat, file.content.hex()]]

    def _is_as_read(self, path: str) -> bool:
        """Whether a file is, and was when its content was looked at, as it was when the stream opened it."""
        try:
            file = self._files.get(path) or tracked_inputs.read(path)
            now = tracked_inputs.look(path)
        except Refused as refused:
            self._refuse(refused)
            return False
        if file is None:
            return False
        self._files[path] = file
        opened = self._asked.files[path]
        settled = now is None or max(now[3], now[4]) < self._begun_ns - SETTLED_NS
        return opened == file.stat == now and settled

    def _run(self) -> Block:
        before = tripwire.state()
        tracked = self._tracked if self._live is not None else None
        if self._live is None or self._made > self._served:
            self._close()
            tracked = None
        if tracked is None:
            self._asked = tracked_inputs.Asks()
            tracked = {
                name: tracked_inputs.Tracked(items, self._asked.note(name))
                for name, items in self._stream.lists().items()
            }
        scope = self._scope
        around, switches = world.current(), world.Switches()
        with self._stream.given(tracked), Recorder(scope=scope) as record:
            block = record.gave(self._taken(tracked))
        switched = switches.changed(around)
        if not marks.is_pure(self._stream.roots()[0]):
            self._asked.ran_on.update(dict.fromkeys(scope.names_beside_world(self._known.reached)))
            record.incomplete = record.incomplete or scope.unseen or None
        drawn = tripwire.moved(before)
        if scope.worker_seed:
            raise Tripped("its worker's seed", before, self._stream)
        # Another thread may have drawn meanwhile: then it must not be put back.
        if drawn is not None and (threading.active_count() == 1 or tripwire.draws(self._run_again)):
            raise Tripped(drawn, before, self._stream)
        for path in record.reads:
            self._asked.files.setdefault(path, record.stats.get(path))
        try:
            for path in self._declared():
                self._asked.files.setdefault(path, tracked_inputs.look(path))
            check(record, list(record.reads), "it")
            if switched:
                why = f"it changes what the whole process is set to ({switched}), which a hit would not"
                raise Refused(Code.EFFECT, why)
            if self._asked.changed:
                raise Refused(Code.CARRIES_STATE, "it changes a list that it goes through")
        except Refused as refused:
            self._refuse(refused)
        self._through = self._through or block.error is not None
        return block

    def _run_again(self) -> None:
        """Makes what was made once more, for nothing."""
        with contextlib.suppress(Exception):
            for _ in itertools.islice(self._stream.begin({}), self._made):
                pass

    def _declared(self) -> Iterator[str]:
        """Files that it is said to have read by now."""
        yield from map(os.path.abspath, self._stream.inputs)
        for name in self._stream.path_lists & self._asked.items.keys():
            items = self._lists[name]
            taken = range(len(items)) if name in self._asked.whole else self._asked.items[name]
            yield from (os.path.abspath(items[i]) for i in taken if i < len(items))

    def _taken(self, tracked: dict[str, Any]) -> Block:
        """The elements after those that were served, as far as they are made in the time of a lease."""
        made: list[Any] = []
        size, until = 0, time.monotonic_ns() + LEASE_NS
        try:
            if not self._seek(self._served, tracked):
                raise Inseparable("it ends sooner than it did before")
            assert self._live is not None, "it was begun"
            while len(made) < ELEMENTS_MAX and size < BYTES_MAX:
                value = next(self._live)
                self._made += 1
                if type(value) not in _PLAIN:
                    # What it yielded it may go on to work on in place.
                    value, length = self._copied(value)
                    size += length
                elif isinstance(value, (str, bytes)):
                    size += len(value)
                made.append(value)
                if self._through or time.monotonic_ns() > until:
                    break
        except StopIteration:
            return Block(made, True, None)
        except Exception as error:
            return Block(made, False, error)
        return Block(made, False, None)

    def _copied(self, value: Any) -> tuple[Any, int]:
        try:
            try:
                layout, parts = values.encode(value)
            except Refused:
                # What stands for one of its lists is a list again once it is copied.
                layout, parts = values.encode(copy.deepcopy(value))
            raw = bytearray(b"".join(parts))
            return values.decode(layout, raw), len(raw)
        except Exception as error:
            self._refuse(error)
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

    def _close(self) -> None:
        live, self._live = self._live, None
        self._made = 0
        close = getattr(live, "close", None)
        if close is not None:
            close()

    def _refuse(self, error: Exception) -> None:
        not_cached(error)
        self._through = True
        if isinstance(error, Refused):
            self.refused = error

    def _unchanged(self, closely: bool) -> bool:
        if not closely and self._held.holds(self._stream.roots()):
            return True
        held = snapshot.Snapshot(self._stream.roots())
        try:
            unchanged = self._stream.identity() == self._known and self._lists == self._stream.lists()
        except Exception:
            unchanged = False
        if unchanged:
            self._held = held
        elif not self._through:
            self._refuse(Refused(Code.CARRIES_STATE, "it changes while its elements are taken"))
        return unchanged


def _accept(found: Verdict, declared: set[str]) -> None:
    """Raises `Refused` unless a probe found that a stream is what it seems to be."""
    if found.deterministic_until < 1:
        raise Refused(found.code or Code.OPAQUE, found.reason)
    if found.listed:
        raise Refused(Code.UNDECLARED, f"it lists the folder {found.listed[0]}")
    unseen = [path for path in found.unhooked if os.path.realpath(path) not in declared]
    if unseen:
        raise Refused(Code.UNDECLARED, f"compiled code reads {unseen[0]}; name the files with inputs=")
    if not found.reads_proven and not found.unhooked:
        raise Refused(Code.UNDECLARED, f"what it reads cannot be known: {found.reason}")


def _itself(i: int) -> int:
    return i


class _Head:
    """The first elements of a stream, in a probe."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        #: What it is called where a fault of its is told.
        self.__qualname__ = "its first elements"

    def __prebake_token__(self) -> Any:
        # Whether running it changes it.
        return self._stream.roots()

    def __call__(self, i: int) -> Any:
        if i >= len(PROBED):
            return self._first(FURTHER[i - len(PROBED)], {}, FURTHER_SECONDS, FURTHER_WALL_SECONDS)
        plain = self._first(PROBED[i], {})
        lists = self._stream.lists()
        tracked = {name: tracked_inputs.Tracked(items, lambda i: None) for name, items in lists.items()}
        if tracked and self._first(PROBED[i], tracked) != plain == self._first(PROBED[i], {}):
            raise ValueError("it yields something else where its lists are of another class")
        return plain

    def _first(
        self, count: int, lists: dict[str, Any], cpu_seconds: float = math.inf, seconds: float = math.inf
    ) -> list[Any]:
        found: list[Any] = []
        cpu, until = time.thread_time() + cpu_seconds, time.monotonic() + seconds
        with self._stream.given(lists):
            live = self._stream.begin(lists)
            for value in live:
                layout, parts = values.encode(value)
                found.append([layout, b"".join(parts)])
                if len(found) == count:
                    break
                if time.thread_time() > cpu or time.monotonic() > until:
                    raise TimeoutError("its elements are not cheap")
        return found
