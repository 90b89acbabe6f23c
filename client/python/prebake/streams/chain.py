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

import json
import time
from collections.abc import Iterator
from typing import Any

from prebake.codec import values
from prebake.compute.computation import Computation
from prebake.compute.restart_signals import Restart, Tripped
from prebake.encoding.digests import digest
from prebake.identity import graph, snapshot
from prebake.known import determinism
from prebake.leases.client import LeaseClient
from prebake.leases.read_order import nothing_ahead
from prebake.proof.stream_proof import CANARIES, CHEAP_SECONDS, CHEAP_WALL_SECONDS, Head, StreamProof
from prebake.proof.variants import Split, varied
from prebake.purity import tripwire
from prebake.reads import tracked_inputs
from prebake.runtime import worker_rank
from prebake.runtime.errors import Code, Refused, warn_once
from prebake.runtime.patience import Pending
from prebake.streams.answers import Answers
from prebake.streams.first_elements import prove
from prebake.streams.run import Block, StreamRun
from prebake.streams.stream import CONTEXT, Sharing, Stream
from prebake.watched.watched import refuse_unheard
from prebake.world import within

#: Times that a stream asks for more before its first element.
ASKS_MAX = 64

_ENDED = object()


class Chain(Computation):
    """One run of a stream: `elements`."""

    # Who draws is told by its run.
    may_draw = False

    def __init__(self, stream: Stream) -> None:
        """Raises `Refused` if it cannot be known what the stream is."""
        self._stream = stream
        self._held = snapshot.Snapshot(stream.roots())
        self._known = stream.identity()
        if not stream.inputs and not stream.path_lists:
            refuse_unheard(self._known, "it")
        self._lists = {name: list(items) for name, items in stream.lists().items()}
        self._key = digest(CONTEXT, self._known.digest + json.dumps(worker_rank.place()).encode())
        self._sharing = Sharing()
        #: What was asked for up to the key, and what answers that.
        self._answered = tracked_inputs.Asks()
        self._answers = Answers(self._lists, self._sharing)
        #: Elements that were given out; the stream as it runs here; what it made that is given out next.
        self._served = 0
        self._run = StreamRun(stream, self._known, self._lists, self._sharing)
        self._block: Block | None = None
        self._job: Any = None
        self._collection: tuple[Any, Any] | None = None
        self._proof = StreamProof(self._plan, self._stored_head, self._made_head)
        #: The `with` statements that its next elements are asked for in.
        self._inside: list[str] = []

    @property
    def refused(self) -> Refused | None:
        """Why it cannot be shared, once that is known."""
        return self._sharing.refused

    def elements(self) -> Iterator[Any]:
        """All elements in turn: read, waited for, or made here."""
        try:
            # A hit is of what the stream was when its elements began, too.
            while not self._sharing.is_over and self.is_unchanged(False):
                found = self._next()
                if self._sharing.is_over:
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
            self._run.close()

    def _rest(self) -> Iterator[Any]:
        """What is not shared."""
        block, self._block = self._block, None
        if block is not None:
            self._served += len(block.elements)
            for element in block.elements:  # noqa: UP028
                yield element
            if block.error is not None:
                raise block.error
            if block.ended:
                return
        yield from self._run.from_place(self._served)

    # What is under a key.

    def _next(self) -> Any:
        """What is under the key: asks as text, or whether it ended and a run of elements."""
        inside = within.of_request()
        if inside != self._inside:
            self._inside, self._collection = inside, None
        try:
            return LeaseClient(self, 1, inside=inside).many([0], nothing_ahead)[0]
        except Exception as error:
            # What the stream raises is in its block.
            self._sharing.refuse(error)
            return None
        except Pending:
            # As it is, this time.
            self._sharing.end()
            self._block = None
            return None
        except Restart as reason:
            # It runs again from its beginning, as it is.
            if isinstance(reason, Tripped):
                tripwire.restore(reason.before)
                self._sharing.refuse(Refused(Code.RANDOM, f"it draws from {reason.generator} as it runs"))
            else:
                self._sharing.refuse(Refused(Code.OPAQUE, f"what it yields is not shared: {reason}"))
            self._block = None
            self._run.close()
            return None

    def open(self, job: Any) -> Any:
        if self._collection is None or self._collection[0] is not job:
            target = self._stream.roots()[0]
            self._job = job
            collection = self._plan(self._proof.variants(job.boot_id, self._inside))
            if collection.bypass:
                warn_once(f"bypass {collection.bypass}", f"not cached: {collection.bypass}")
                self._sharing.end()
                return None
            if not collection.entries and determinism.known(target).kind != determinism.DETERMINISTIC:
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
            key = digest(CONTEXT, b"".join([key, *map(self._answers.answer, json.loads(held))]))
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
                elements.append(self._run.copied(element)[0])
        return Head(elements, ended)

    def _prove(self) -> None:
        try:
            prove(self._stream, self._known)
        except Refused as refused:
            self._sharing.refuse(refused)
            raise

    def _follow(self, text: str) -> None:
        """Goes to the key that the answers to what is asked lead to."""
        out = [self._key]
        try:
            for ask in json.loads(text):
                out.append(self._answers.answer(ask))
                self._answered.add(ask)
        except Exception as error:
            self._sharing.refuse(error)
        self._key = digest(CONTEXT, b"".join(out))

    # How it is made.

    def compute(self, i: int) -> Any:
        if self._block is None and not self._sharing.is_over:
            self._block = self._run.elements(self._served)
        if self._sharing.is_over:
            return None
        assert self._block is not None, "it was just made"
        asked = self._run.asked
        for path, opened in asked.files.items():
            if not self._answers.is_as_read(path, opened):
                self._sharing.end()
                return None
        if new := asked.beyond(self._answered):
            return json.dumps([self._answers.hinted(ask) for ask in new])
        return self._block.ended, self._block.elements

    def approve(self, items: Any, i: int) -> bool:
        return not self._sharing.is_over

    def is_unchanged(self, closely: bool) -> bool:
        if not closely and self._held.holds(self._stream.roots()):
            return True
        held = snapshot.Snapshot(self._stream.roots())
        try:
            unchanged = self._stream.identity() == self._known and self._lists == self._stream.lists()
        except Exception:
            unchanged = False
        if unchanged:
            self._held = held
        elif not self._sharing.is_over:
            self._sharing.refuse(Refused(Code.CARRIES_STATE, "it changes while its elements are taken"))
        return unchanged
