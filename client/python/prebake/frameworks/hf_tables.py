"""Tables of Hugging Face's `datasets`: as streams, and as data sets again."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

from prebake.runtime.errors import Code, Refused

#: Results up to this size stay mapped from shared memory; larger ones are copied to a file, since what is
#: mapped cannot leave the daemon's memory.
MAPPED_BYTES_MAX = 256 << 20


def stream_of(table: Any) -> Any:
    """A table as an Arrow stream whose bytes depend on what it holds, not on how that was cut."""
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()


def table_of(stream: Any) -> Any:
    """The table of a stream, in the stream's own memory."""
    import pyarrow

    return pyarrow.ipc.open_stream(pyarrow.py_buffer(stream)).read_all()


def features_of(table: Any) -> Any:
    import datasets

    return datasets.Features.from_arrow_schema(table.schema)


def files_of(rows: Any) -> list[str]:
    """Files that formatting the rows reads: of images, audio and the like that are kept by path."""
    found = []
    for name, feature in rows.features.items():
        if not _decodes(feature):
            continue
        if not hasattr(feature, "decode"):
            raise Refused(Code.UNDECLARED, f"column {name} holds files inside other values")
        for value in rows.with_format("arrow")[name].to_pylist():
            path = None if value is None or value.get("bytes") is not None else value.get("path")
            if path is not None and "://" in path:
                raise Refused(Code.NETWORK, f"column {name} is read from {path}")
            found += [path] if path is not None else []
    return found


def _decodes(feature: Any) -> bool:
    """Whether reading a column means to open what it names."""
    from datasets.features.features import require_decoding

    return require_decoding(feature)


def format_of(ds: Any) -> dict[str, Any]:
    return {**ds.format, "columns": sorted(ds.format["columns"])}


def held_rows(rows: Any) -> Any:
    """Rows without the files they lie in, beside which `map` would look for what it made of them before."""
    import datasets
    from datasets.table import InMemoryTable

    table = InMemoryTable(rows.with_format("arrow")[:])
    made = datasets.Dataset(table, info=rows.info.copy(), split=rows.split, fingerprint=rows._fingerprint)
    form = rows.format
    made.set_format(form["type"], form["columns"], form["output_all_columns"], **form["format_kwargs"])
    return made


def dataset_of(ds: Any, tables: Iterator[Any], fingerprint: str) -> Any:
    """The tables one after the other as a data set that describes itself as `ds` does."""
    import datasets
    import pyarrow
    from datasets.table import InMemoryTable

    held: list[Any] = []
    length = 0
    for table in tables:
        held.append(table)
        length += table.nbytes
        if length > MAPPED_BYTES_MAX:
            return _from_file(ds, itertools.chain(held, tables), fingerprint)
    whole = pyarrow.concat_tables(held)
    info = ds.info.copy()
    info.features = features_of(whole)
    return datasets.Dataset(InMemoryTable(whole), info=info, split=ds.split, fingerprint=fingerprint)


def _from_file(ds: Any, tables: Iterator[Any], fingerprint: str) -> Any:
    import tempfile

    import datasets
    import pyarrow
    from datasets.fingerprint import get_temporary_cache_files_directory

    first = next(tables)
    folder = get_temporary_cache_files_directory()
    with (
        tempfile.NamedTemporaryFile("wb", dir=folder, suffix=".arrow", delete=False) as file,
        pyarrow.ipc.new_stream(file, first.schema) as writer,
    ):
        for table in itertools.chain([first], tables):
            writer.write_table(table)
    info = ds.info.copy()
    info.features = features_of(first)
    result = datasets.Dataset.from_file(file.name, info=info, split=ds.split)
    result._fingerprint = fingerprint
    return result


def formatted(ds: Any, result: Any, fingerprint: str) -> Any:
    """The format of `ds` for what came of it, as `Dataset.map` hands it on."""
    form = ds.format
    hidden = set(ds.column_names) - set(form["columns"])
    columns = sorted(set(result.column_names) - hidden) if hidden else None
    result.set_format(form["type"], columns, form["output_all_columns"], **form["format_kwargs"])
    result._fingerprint = fingerprint
    return result


@contextlib.contextmanager
def no_bars() -> Iterator[None]:
    """One progress bar for each chunk tells nothing."""
    from datasets.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    if are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()
