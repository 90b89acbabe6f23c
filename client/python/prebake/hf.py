"""Hugging Face `datasets`: `prebake.hf.map(ds, function, ...)` in place of `ds.map(function, ...)`.

The rows are cut into chunks of whole batches, and each chunk's result is an entry: an Arrow stream, known by
the function (what it does and holds), the arguments that matter, and the rows' content. So rows appended
recompute only the tail, and an edit to an imported helper is seen.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, TypeVar

from prebake.encoding.digests import digest
from prebake.frameworks.entries import Entries, Input
from prebake.frameworks.hf_call import (
    CHUNK,
    EXECUTION_ONLY,
    Arguments,
    ForItsEffects,
    NotByChunk,
    is_made,
    moved,
)
from prebake.frameworks.hf_tables import (
    dataset_of,
    features_of,
    files_of,
    format_of,
    formatted,
    held_rows,
    no_bars,
    stream_of,
    table_of,
)
from prebake.identity.code import identify
from prebake.runtime import daemon
from prebake.runtime.errors import Code, Refused
from prebake.runtime.refusals import not_cached

CONTEXT = "prebake 2026 hf chunk v1"
#: Batches are taken together until their rows have so many bytes: an entry costs about a millisecond.
CHUNK_BYTES_MIN = 64 << 10
#: Rows of a chunk when the function sees one row at a time; as many as `datasets` infers types from.
ROWS = 1000


class Mapped(Protocol):
    """A `datasets.Dataset` or `datasets.DatasetDict`."""

    @property
    def map(self) -> Callable[..., Any]: ...


Data = TypeVar("Data", bound=Mapped)


def map(ds: Data, function: Callable[..., Any], **kwargs: Any) -> Data:
    """`ds.map(function, **kwargs)`, computed once for all jobs on the node.

    What cannot be shared is left to `ds.map`, and a warning says why, once.

    Parameters
    ----------
    ds
        A `datasets.Dataset` or `datasets.DatasetDict`.
    function
        As for `ds.map`. It must read no files but those of image and audio columns.
    **kwargs
        As for `ds.map`.

    Returns
    -------
    Dataset or DatasetDict
        What `ds.map` returns, with the same rows, types and format.

    Raises
    ------
    Exception
        What `ds.map` raises, and what `function` does.

    Examples
    --------
    >>> import datasets
    >>> import prebake
    >>> ds = datasets.Dataset.from_dict({"text": ["Bake once", "serve every job"]})
    >>> prebake.hf.map(ds, lambda row: {"words": len(row["text"].split())})["words"][:]
    [2, 3]
    """
    return _mapped(ds, function, kwargs)


def _mapped(ds: Any, function: Callable[..., Any], kwargs: Arguments) -> Any:
    import datasets

    dictionaries: Any = dict
    is_dictionary = isinstance(ds, dictionaries)
    if is_dictionary and kwargs.keys() - inspect.signature(datasets.Dataset.map).parameters.keys():
        # Arguments of a dictionary's own, as `cache_file_names=` for the splits: a cache of the caller's own.
        return ds.map(function, **kwargs)
    if is_dictionary:
        return type(ds)({name: _mapped(each, function, kwargs) for name, each in ds.items()})
    if daemon.native() is None or daemon.connection() is None:
        return ds.map(function, **kwargs)
    try:
        if not isinstance(ds, datasets.Dataset):
            raise Refused(Code.DATASET, f"hf.map does not know a {type(ds).__qualname__}")
        job = _Map(ds, function, kwargs)
    except Exception as error:
        not_cached(error)
        return ds.map(function, **kwargs)
    try:
        with no_bars():
            return job.result()
    except ForItsEffects:
        # As `ds.map` has it: the rows as they are, as a data set of its own if they were in several hands.
        return ds if job.workers == 1 else copy.copy(ds)
    except NotByChunk:
        return ds.map(function, **kwargs)
    except Refused as error:
        not_cached(error)
        return ds.map(function, **kwargs)


class _Chunk(NamedTuple):
    """Rows of a data set, from and to, and what is in them."""

    start: int
    end: int
    content: bytes


class _Map:
    """One call of `Dataset.map`. Raises `Refused` when made if it cannot be shared."""

    def __init__(self, ds: Any, function: Callable[..., Any], kwargs: Arguments) -> None:
        bound = inspect.signature(type(ds).map).bind(ds, function, **kwargs)
        bound.apply_defaults()
        self.ds, self.function, self.kwargs = ds, function, kwargs
        self.arguments = dict(bound.arguments)
        self.workers: int = self.arguments["num_proc"] or 1
        self._refuse_unknowable()
        self.step = functools.partial(function, **{"datasets.map": self._semantics()})
        self.identity = identify(self.step, getattr(function, "__qualname__", "function")).digest
        self.sequences = [_Sequence(self, start, end) for start, end in self._shards()]

    def _refuse_unknowable(self) -> None:
        arguments = self.arguments
        if not callable(self.function) or inspect.iscoroutinefunction(self.function):
            raise Refused(Code.OPAQUE, "hf.map shares plain functions only")
        if arguments["with_rank"]:
            raise Refused(Code.DATASET, "with_rank makes rows depend on the number of processes")
        if arguments["cache_file_name"]:
            raise Refused(Code.DATASET, "cache_file_name= names a cache of the caller's own")
        if self.ds.list_indexes():
            raise Refused(Code.OPAQUE, "the data set holds search indexes, which no entry does")
        if not len(self.ds):
            raise Refused(Code.DATASET, "the data set has no rows")

    def _semantics(self) -> Arguments:
        """What of the call decides what comes out of a chunk, besides its rows."""
        import datasets
        import pyarrow

        own = {name: value for name, value in self.arguments.items() if name not in EXECUTION_ONLY}
        # Batches are written as they come; rows are gathered, and their types inferred, this many at a time.
        if own["batched"]:
            del own["writer_batch_size"]
        else:
            del own["batch_size"], own["drop_last_batch"]
        if own["features"] is not None:
            own["features"] = own["features"].to_dict()
        own["input"] = {"features": self.ds.features.to_dict(), "format": format_of(self.ds)}
        own["versions"] = [datasets.__version__, pyarrow.__version__]
        return own

    def result(self) -> Any:
        """The mapped data set. Raises `NotByChunk` if it has to be left to `ds.map`."""
        import datasets

        sequences = self.sequences
        if self.workers > 1:
            self._fill()
        elif not sequences[0].begin():
            sequences[0].leave()
            raise ForItsEffects
        parts = [dataset_of(self.ds, each.tables(), each.fingerprint) for each in sequences]
        result = parts[0] if len(parts) == 1 else datasets.concatenate_datasets(parts)
        names = b"".join(bytes.fromhex(sequence.fingerprint) for sequence in sequences)
        return formatted(self.ds, result, self.arguments["new_fingerprint"] or digest(CONTEXT, names).hex())

    def _shards(self) -> Iterator[tuple[int, int]]:
        """Rows that are batched on their own: with several processes each begins its batches anew."""
        rows = len(self.ds)
        count = min(self.workers, rows) if self.arguments["batched"] else 1
        each, more = divmod(rows, count)
        for i in range(count):
            start = each * i + min(i, more)
            yield start, start + each + (i < more)

    def _fill(self) -> None:
        """Makes what is missing in `num_proc` processes, as `ds.map` would."""
        # Of single rows the first chunk tells the types of all; shards of batches have their own.
        if len(self.sequences) == 1:
            sequence = self.sequences[0]
            # In a process too: what else the function does is none of this one's.
            self._in_processes(_begun_part, [(sequence, 0, 1)])
            tasks = [(sequence, i, self.workers) for i in range(self.workers)]
        else:
            tasks = [(sequence, 0, 1) for sequence in self.sequences]
        self._in_processes(_fill_part, tasks)
        if any(sequence.returns_none for sequence, _, _ in tasks):
            if all(sequence.returns_none for sequence, _, _ in tasks):
                raise ForItsEffects
            raise NotByChunk

    def _in_processes(self, work: Callable[[int], Any], tasks: list[_Task]) -> None:
        """Runs tasks in processes that are forked for it, and takes over what could not be stored there."""
        import multiprocess

        global _tasks
        _tasks = tasks
        try:
            with multiprocess.get_context("fork").Pool(min(self.workers, len(tasks))) as pool:
                made = pool.map(work, range(len(tasks)), 1)
        finally:
            _tasks = []
        for (sequence, _, _), (more, returns_none) in zip(tasks, made, strict=True):
            sequence.own |= more
            sequence.returns_none |= returns_none

    def run(self, rows: Any, offset: int, features: Any) -> Any:
        """The rows mapped; `offset` is the place of the first."""
        arguments = {
            **self.kwargs,
            "num_proc": None,
            "keep_in_memory": True,
            "load_from_cache_file": False,
            "new_fingerprint": CHUNK,
            "features": features,
            "drop_last_batch": False,
        }
        function = self.function
        if offset and self.arguments["with_indices"]:
            columns = self.arguments["input_columns"]
            count = 1 if columns is None or isinstance(columns, str) else len(columns)
            function = functools.partial(moved, self.function, count, offset)
        return rows.map(function, **arguments)


class _Sequence:
    """Rows whose batches follow each other. The first chunk decides the types of all, as in one `ds.map`."""

    def __init__(self, call: _Map, start: int, end: int) -> None:
        self.call = call
        arguments = call.arguments
        size = arguments["batch_size"] if arguments["batched"] else arguments["writer_batch_size"] or ROWS
        self.size = size if size and size > 0 else end - start
        if arguments["batched"] and arguments["drop_last_batch"]:
            end = start + (end - start) // self.size * self.size
        self.chunks = list(self._chunks(start, end))
        if not self.chunks:
            raise Refused(Code.DATASET, "the data set has no whole batch")
        self.fingerprint = digest(CONTEXT, call.identity + b"".join(c.content for c in self.chunks)).hex()
        #: Streams at hand: the first, and those that could not be stored by the processes that made them.
        self.own: dict[int, Any] = {}
        #: Of the first chunk the function returned None: it is called for what else it does.
        self.returns_none = False
        self._rest: Entries | None = None

    def _chunks(self, start: int, end: int) -> Iterator[_Chunk]:
        """Cut by what the rows before hold, so that rows appended leave the first chunks as they are."""
        table = self.call.ds.with_format("arrow")
        first, contents, length = start, b"", 0
        for at in range(start, end, self.size):
            after = min(end, at + self.size)
            content = stream_of(table[at:after])
            contents += digest(CONTEXT, content.to_pybytes())
            length += content.size
            if length >= CHUNK_BYTES_MIN or after == end:
                where = str(first).encode() if self.call.arguments["with_indices"] else b""
                yield _Chunk(first, after, digest(CONTEXT, contents + where))
                first, contents, length = after, b"", 0

    def _rows(self, chunk: _Chunk) -> Any:
        return self.call.ds.select(range(chunk.start, chunk.end))

    def _input(self, chunk: _Chunk, types: bytes) -> Input:
        content = digest(CONTEXT, chunk.content + types)
        return Input(content, f"rows {chunk.start}..{chunk.end}", files_of(self._rows(chunk)))

    def _run(self, chunk: _Chunk, features: Any) -> Any:
        return self.call.run(held_rows(self._rows(chunk)), chunk.start, features)

    def _made(self, chunk: _Chunk, features: Any) -> Any:
        import numpy

        made = self._run(chunk, features)
        if not is_made(made):
            self.returns_none = chunk is self.chunks[0]
            raise NotByChunk
        return numpy.frombuffer(stream_of(made.data.table), numpy.uint8)

    @functools.cached_property
    def _first(self) -> Entries:
        features = self.call.arguments["features"]
        chunk = self.chunks[0]
        return Entries(self.call.step, [self._input(chunk, b"")], lambda _: self._made(chunk, features))

    def head(self) -> Any:
        """The first chunk's table."""
        if 0 not in self.own:
            self.own[0] = self._first.get(0)
        table = table_of(self.own[0])
        if not table.num_rows:
            # It does not tell the types of the others.
            raise NotByChunk
        return table

    def begin(self) -> bool:
        """Makes the first chunk; whether the function returns anything."""
        try:
            self.head()
        except NotByChunk:
            if not self.returns_none:
                raise
        return not self.returns_none

    def leave(self, part: int = 0, parts: int = 1) -> None:
        """Calls the function on the rows of every so many-th chunk after the first for what else it does: no
        row is given to it twice."""
        for chunk in self.chunks[1:][part::parts]:
            if is_made(self._run(chunk, self.call.arguments["features"])):
                # Of a value after None `ds.map` raises an error of its own.
                raise NotByChunk

    def rest(self, head: Any) -> Entries:
        """The other chunks, written as what the first one's types say."""
        if self._rest is None:
            types = digest(CONTEXT, head.schema.serialize().to_pybytes())
            features = self.call.arguments["features"] or features_of(head)
            chunks = self.chunks[1:]
            self._rest = Entries(
                self.call.step,
                [self._input(chunk, types) for chunk in chunks],
                lambda i: self._made(chunks[i], features),
            )
        return self._rest

    def tables(self) -> Iterator[Any]:
        """The chunks' tables in turn."""
        head = self.head()
        yield head
        rest = self.rest(head)
        for i in range(len(rest)):
            yield table_of(self.own[i + 1] if i + 1 in self.own else rest.get(i))

    def unstored(self) -> dict[int, Any]:
        """The first chunk's stream, if it is at hand and could not be stored."""
        return {} if 0 not in self.own or self._first.is_stored(0) else {0: self.own[0]}

    def fill(self, part: int, parts: int) -> dict[int, Any]:
        """Makes every so many-th chunk; returns the streams of those that could not be stored."""
        rest = self.rest(self.head())
        own = {} if part else self.unstored()
        for i in range(part, len(rest), parts):
            stream = rest.get(i)
            if not rest.is_stored(i):
                own[i + 1] = stream
        return own


#: A part of the chunks of a sequence: every so many-th.
_Task = tuple[_Sequence, int, int]
#: What a pool's processes take over from the one that forks them.
_tasks: list[_Task] = []


def _begun_part(place: int) -> tuple[dict[int, Any], bool]:
    """The first chunk if it could not be stored, and whether the function returned None."""
    sequence = _tasks[place][0]
    sequence.begin()
    return sequence.unstored(), sequence.returns_none


def _fill_part(place: int) -> tuple[dict[int, Any], bool]:
    sequence, part, parts = _tasks[place]
    try:
        if sequence.returns_none or not sequence.begin():
            sequence.leave(part, parts)
            return {}, True
        return sequence.fill(part, parts), False
    except NotByChunk:
        return {}, False


__all__ = ["map"]
