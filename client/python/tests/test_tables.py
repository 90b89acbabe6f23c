"""Tables of pandas, Polars and PyArrow as values: they come back exactly, in their pieces, or are refused."""

import datetime
import math
import warnings
from typing import Any

import numpy as np
import pytest
from test_values import round_trip

from prebake import Refused
from prebake.codec import tables, values

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")


def frame(rows: int = 20) -> Any:
    """Columns of many kinds."""
    count = np.arange(rows)
    cells = [1, "x", None, 2.5, b"y", datetime.date(2020, 1, 2), (3, "z"), [4, 5], {"k": 6}, np.arange(3)]
    made = pd.DataFrame(
        {
            "int": count,
            "float": count / 3,
            "text": [f"row {i}" for i in count],
            "object": pd.Series([cells[i] if i < len(cells) else i for i in range(rows)], dtype=object),
            "kind": pd.Categorical([("a", "b")[i % 2] for i in count]),
            "when": pd.date_range("2020-01-01", periods=rows, tz="Europe/Paris"),
            "maybe": pd.array([i if i % 3 else None for i in range(rows)], dtype="Int64"),
        }
    )
    made.attrs["from"] = "here"
    return made


PANDAS = {
    "frame": frame,
    "indexed": lambda: frame().set_index(["text", "int"]),
    "one type": lambda: frame()[["int", "float"]].copy(),
    "dates": lambda: pd.Series([1, 2], pd.date_range("2020", periods=2, freq="MS"), name="named"),
    "arrow": lambda: frame().drop(columns=["object", "kind"]).convert_dtypes(dtype_backend="pyarrow"),
    "index": lambda: pd.Index(["a", "b"], name="i"),
    "time": lambda: pd.Timestamp("2020-01-01 03:04", tz="UTC"),
    "period": lambda: pd.Period("2020-01", "M"),
    "interval": lambda: pd.Interval(0, 1.5, closed="both"),
    "empty": pd.DataFrame,
}


def test_what_stands_for_nothing() -> None:
    assert round_trip([pd.NaT, pd.NA])[0] is pd.NaT and round_trip((pd.NA,))[0] is pd.NA


def test_before_pandas_copied_what_is_one_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "COPIES_ON_WRITE", 1_000)
    some = pd.DataFrame({"a": [1.0, 2.0]})
    assert round_trip(some).equals(some)
    with pytest.raises(Refused, match="memory"):
        values.encode((some, some.copy(deep=False)))


@pytest.mark.parametrize("make", PANDAS.values(), ids=PANDAS)
def test_pandas(make: Any) -> None:
    value = make()
    back = round_trip(value)
    assert type(back) is type(value)
    if isinstance(value, pd.DataFrame):
        pd.testing.assert_frame_equal(back, value, check_freq=True, check_flags=True)
        assert back.attrs == value.attrs
        assert [type(cell) for name in value for cell in back[name]] == [
            type(cell) for name in value for cell in value[name]
        ]
    elif isinstance(value, pd.Series):
        pd.testing.assert_series_equal(back, value, check_freq=True)
    else:
        assert (
            value.equals(back) and back.name == value.name if isinstance(value, pd.Index) else back == value
        )


def test_the_memory_of_columns_is_laid_out_as_it_was() -> None:
    """Or the sum of all might differ in its last bit."""
    some = pd.DataFrame(np.random.rand(1000, 3))[[0, 2]]
    back = round_trip(some)
    (block,), (other,) = (each._mgr.blocks for each in (some, back))
    assert not block.values.flags.c_contiguous and block.values.strides == other.values.strides
    assert back.to_numpy().sum() == some.to_numpy().sum()
    back.iloc[3, 1] = 5.0
    assert back.iloc[3, 1] == 5.0


def test_columns_that_lie_backwards() -> None:
    some = pd.DataFrame(np.random.rand(10, 3))
    for turned in (some[::-1], some[[2, 1, 0]]):
        back = round_trip(turned)
        assert back.equals(turned)
        assert back._mgr.blocks[0].values.strides == turned._mgr.blocks[0].values.strides


WRITES = {
    "a column of another": lambda d: d.assign(e=d["maybe"], f=d["when"], g=d["kind"], h=d["float"]),
    "two frames": lambda d: (d, d.copy(deep=False)),
    "filled": lambda d: {"raw": d[["when"]], "clean": d[["when"]].fillna(0)},
    "an index and its column": lambda d: (d.index, pd.Series(pd.Index([1, 2, 3])), pd.Index([1, 2, 3])),
    "features and label": lambda d: (d[["int", "maybe"]], d["float"].to_numpy()),
    "all features and a label": lambda d: (
        d[["int", "float"]].astype(float)[["int"]],
        d["float"].astype(float),
    ),
}


@pytest.mark.parametrize("make", WRITES.values(), ids=WRITES)
def test_what_is_copied_before_it_is_written_to_is_stored(make: Any) -> None:
    """And a write to the one is not seen in the other."""
    back = round_trip(make(frame()))
    tables = back.values() if isinstance(back, dict) else back if isinstance(back, tuple) else [back]
    frames = [each for each in tables if isinstance(each, pd.DataFrame)]
    before = [each.copy() for each in frames]
    for at, each in enumerate(frames):
        for name in list(each):
            each.loc[0, name] = each.loc[1, name]
            for column in set(each) - {name}:
                assert each[column].equals(before[at][column])
            each[name] = before[at][name].copy()
        for other, was in zip(frames[at + 1 :], before[at + 1 :], strict=True):
            assert other.equals(was)


def test_what_was_asked_of_a_table_is_no_part_of_it() -> None:
    some = frame().set_index("when")
    before = [bytes(each) for each in values.encode(some).parts]
    assert repr(some) and some["maybe"].max() and some.merge(some, on="int") is not None and some.index.mean()
    assert [bytes(each) for each in values.encode(some).parts] == before


def test_a_nan_is_the_one_it_was() -> None:
    column = pd.Series(["a", np.nan, np.nan, math.nan], dtype=object)
    assert len(set(round_trip(column))) == len(set(column))
    for row in ([math.nan, 1.0, 2.0, 3.0], [math.nan] * 4, (np.nan, 1)):
        assert [math.nan in row, len(set(row))] == [math.nan in round_trip(row), len(set(round_trip(row)))]


def test_what_is_shared_is_shared_again() -> None:
    features, some = frame(), [1]
    labels = pd.Series(np.arange(20), features.index)
    back, again, other = round_trip([features, features, labels])
    assert back is again and back.index is other.index
    cells = round_trip({"a": pd.Series([some, some])})["a"]
    assert cells.iloc[0] is cells.iloc[1]


def test_columns_come_back_in_their_pieces() -> None:
    """Or the variance of all might differ in its last bit."""
    for kind in ("int64[pyarrow]", "float64[pyarrow]", "str"):
        whole = pd.concat([pd.Series([1, 2, 3]).astype(kind)] * 3)
        pieces = round_trip(whole).array._pa_array
        assert pieces.num_chunks == whole.array._pa_array.num_chunks == 3
    assert round_trip(whole).equals(whole)


def test_a_column_of_objects_is_written_once() -> None:
    some = pd.Series([f"text {i}" for i in range(1000)], dtype=object)
    assert sum(map(len, values.encode(some).parts)) < 20_000


class Temperature(pa.ExtensionType):
    def __init__(self) -> None:
        super().__init__(pa.int64(), "temperature")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""


def test_columns_of_a_type_of_the_users_are_refused() -> None:
    column = pa.ExtensionArray.from_storage(Temperature(), pa.array([1]))
    for value in (column, pa.table({"a": column}), pa.StructArray.from_arrays([column], ["a"])):
        with pytest.raises(Refused, match="Temperature"):
            values.encode(value)


def test_a_table_can_be_written_to() -> None:
    back = round_trip(frame())
    back.loc[3, "float"] = 7.0
    assert back["float"].iloc[3] == 7.0


POLARS = {
    "frame": lambda: pl.DataFrame(
        {"i": [1, None], "s": ["x", None], "l": [[1], []], "d": [{"a": 1}, {"a": 2}]}
    ),
    "series": lambda: pl.Series("s", [0.1, float("nan"), None]),
    "kind": lambda: pl.Series("k", ["u", "v", "u"]).cast(pl.Categorical),
    "empty": pl.DataFrame,
    "pieces": lambda: pl.concat([pl.DataFrame({"x": np.arange(5) / i, "s": ["a"] * 5}) for i in (1, 3, 7)]),
    "one in pieces": lambda: pl.concat([pl.DataFrame({"x": [0.1]})] * 2, rechunk=False).hstack(
        [pl.Series("y", [1, 2])]
    ),
    "sorted pieces": lambda: pl.concat([pl.Series([1, 2]), pl.Series([3])], rechunk=False).set_sorted(),
}


@pytest.mark.parametrize("make", POLARS.values(), ids=POLARS)
def test_polars(make: Any) -> None:
    value = make()
    back = round_trip(value)
    assert type(back) is type(value) and back.equals(value, null_equal=True)
    if isinstance(value, pl.DataFrame):
        assert back.schema == value.schema and back.n_chunks("all") == value.n_chunks("all")
    else:
        assert (back.name, back.dtype, back.flags) == (value.name, value.dtype, value.flags)
        assert back.chunk_lengths() == value.chunk_lengths()


def arrow() -> Any:
    made = pa.table({"i": [1, None, 3], "s": ["x", "y", None], "l": [[1], None, [2, 3]]})
    return made.replace_schema_metadata({"from": "here"})


ARROW = {
    "table": arrow,
    "pieces": lambda: pa.concat_tables([arrow(), arrow()]),
    "empty pieces": lambda: pa.table({"x": pa.chunked_array([[1.5], [], [2.5]])}),
    "batch": lambda: arrow().to_batches()[0],
    "column": lambda: arrow()["l"],
    "array": lambda: pa.array([0.5, None]),
    "kinds": lambda: pa.array(["a", "b", "a"]).dictionary_encode(),
    "part": lambda: arrow().slice(1, 1),
    "no rows": lambda: arrow().slice(0, 0),
}


@pytest.mark.parametrize("make", ARROW.values(), ids=ARROW)
def test_arrow(make: Any) -> None:
    value = make()
    back = round_trip(value)
    assert type(back) is type(value)
    assert back.equals(value, **({"check_metadata": True} if hasattr(value, "schema") else {}))
    pieces = [column for column in getattr(value, "columns", [value]) if hasattr(column, "chunks")]
    for column, other in zip(pieces, getattr(back, "columns", [back]), strict=False):
        assert list(map(len, column.chunks)) == list(map(len, other.chunks))


@pytest.mark.parametrize("make", [frame, *POLARS.values(), arrow])
def test_equal_tables_are_equal_bytes(make: Any) -> None:
    """Or two runs that make the same would be taken for different ones."""

    def encoded() -> tuple[str, bytes]:
        layout, parts = values.encode(make())
        return layout, b"".join(map(bytes, parts))

    assert encoded() == encoded()


def test_texts_that_are_one_object_are_as_equal_ones() -> None:
    text, other = "some text", " ".join(["some", "text"])
    a, b = (pd.Series([text, each], dtype=object) for each in (text, other))
    assert [bytes(part) for part in values.encode(a).parts] == [
        bytes(part) for part in values.encode(b).parts
    ]


@pytest.mark.parametrize(
    "whole",
    [
        pa.table({"x": np.arange(1_000_000), "s": ["long text"] * 1_000_000}),
        pd.DataFrame({"s": pd.Series(["long text"] * 1_000_000)}),
        pl.DataFrame({"x": np.arange(1_000_000), "s": ["long text"] * 1_000_000}),
    ],
)
def test_a_part_is_stored_without_the_rest(whole: Any) -> None:
    part = whole[10:20]
    assert sum(map(len, values.encode(part).parts)) < 10_000


NUMBERS, GRID = np.zeros(3), np.zeros((2, 3))


def with_a_list() -> Any:
    made, some = frame(), [1]
    made.attrs["some"] = some
    return [made, some]


def with_an_attribute(made: Any = None) -> Any:
    made = frame() if made is None else made
    with warnings.catch_warnings(action="ignore"):
        made.source = "web"
    return made


REFUSED = {
    "gaps": (lambda: pd.DataFrame(np.random.rand(90, 9)).iloc[::9], "gaps"),
    "a part of an array in a cell": (lambda: pd.Series([{"whole": NUMBERS, "part": NUMBERS[1:]}]), "memory"),
    "parts of one array": (
        lambda: [pd.Series(NUMBERS[:2], copy=False), pd.Series(NUMBERS[1:], copy=False)],
        "memory",
    ),
    "an array beside its column of Polars": (lambda: [NUMBERS, pl.Series(NUMBERS)], "memory"),
    "columns of one array": (lambda: [pa.array(NUMBERS), pd.Series(NUMBERS, copy=False)], "memory"),
    "objects with gaps": (lambda: pd.DataFrame(np.arange(24).reshape(6, 4).astype(object)).iloc[::2], "gaps"),
    "one memory for all": (lambda: pd.Series(np.broadcast_to(1.0, (5,)), copy=False), "gaps"),
    "an array beside its table": (lambda: [NUMBERS, pd.DataFrame({"a": NUMBERS}, copy=False)], "memory"),
    "a part of a cell beside it": (lambda: pd.Series([GRID[0], GRID]), "memory"),
    "an array beside its column": (lambda: [NUMBERS, pa.array(NUMBERS)], "memory"),
    "a list beside its table": (with_a_list, "beside"),
    "an attribute": (with_an_attribute, "source"),
    "an attribute of Polars": (lambda: with_an_attribute(pl.Series([1])), "source"),
    "rows without columns": (lambda: pa.table({"a": [1, 2]}).select([]), "Table"),
    "the second of two hours": (
        lambda: pd.Timestamp(year=2020, month=11, day=1, hour=1, fold=1),
        "Timestamp",
    ),
    "a text that NumPy cuts": (lambda: pd.Series([np.str_("a\0")], dtype=object), "str_"),
    "a masked array": (lambda: pd.Series([np.ma.masked_array([1, 2, 3])[::2]]), "masked"),
    "a class": (lambda: pd.Series([pytest.Item]), "NodeMeta"),
    "an instance": (lambda: pd.Series([pytest.approx(1)]), "Approx"),
    "a plan to read": (lambda: pd.Series([pl.LazyFrame({"a": [1]})], dtype=object), "LazyFrame"),
    "a set": (lambda: pd.Series([{1, 2}]), "set"),
    "by itself": (lambda: pl.LazyFrame({"a": [1]}), "LazyFrame"),
    "objects": (lambda: pl.DataFrame({"o": pl.Series([object()], dtype=pl.Object)}), "Object"),
}


@pytest.mark.parametrize(("make", "why"), REFUSED.values(), ids=REFUSED)
def test_what_would_not_come_back_is_refused(make: Any, why: str) -> None:
    with pytest.raises(Refused, match=why) as refused:
        values.encode(make())
    assert refused.value.code == "R39"


def test_one_that_extends_a_table_is_refused() -> None:
    class Frame(pd.DataFrame):
        pass

    with pytest.raises(Refused):
        values.encode(Frame({"a": [1]}))


def test_another_version_does_not_read_it() -> None:
    stream, buffers, versions, _ = tables.pickled([pa.table({"a": [1]})], set())
    assert versions.keys() == {"pyarrow"}
    with pytest.raises(Refused, match="cannot be read"):
        tables.unpickled(stream, buffers, {"pyarrow": "1.0"})


@pytest.mark.parametrize(
    "asked",
    [
        "builtins eval",
        "builtins getattr",
        "os system",
        "posix system",
        "subprocess Popen",
        "numpy memmap",
        "numpy load",
        "numpy.testing._private.utils runstring",
        "pandas HDFStore",
        "pandas ExcelWriter",
        "pandas eval",
        "pandas read_pickle",
        "pandas io",
        "pickle loads",
        "importlib import_module",
        "prebake cached",
        "prebake.codec.tables importlib",
        "prebake.codec.tables pickled",
        "prebake.codec.table_makers stream_of",
    ],
)
def test_a_stream_that_asks_for_more_than_tables_are_made_of_is_not_read(asked: str) -> None:
    module, name = asked.split()
    stream = b"\x80\x04" + f"c{module}\n{name}\n.".encode()
    with pytest.raises(Refused, match="a stored table asks for"):
        tables.unpickled(stream, [], {"pandas": pd.__version__, "numpy": np.__version__})


KINDS = [
    pd.Series([pd.Timedelta("1s"), "text"], dtype=object),
    pd.timedelta_range("0s", periods=3, freq="2s"),
    pd.TimedeltaIndex(["1s", "5s"]),
    pd.DatetimeIndex(["2020-01-01", "2021-05-05"], tz="Europe/Berlin"),
    pd.period_range("2020-01", periods=3, freq="M"),
    pd.IntervalIndex.from_breaks([0, 1, 2]),
    pd.CategoricalIndex(["a", "b", "a"]),
    pd.MultiIndex.from_tuples([(1, "a"), (2, "b")]),
    pd.Series(pd.Categorical([pd.Timedelta("1s"), pd.Timedelta("2s")])),
    pd.Series(pd.arrays.SparseArray([0, 0, 1])),
    pd.Series([1, None], dtype="Int64"),
    pd.Series([True, None], dtype="boolean"),
    pd.DataFrame({"when": [pd.Timestamp("2020-01-01", tz="UTC"), pd.NaT]}),
    pd.Series([pd.Timestamp("2020-01-01"), pd.Period("2020"), pd.Interval(0, 1), pd.NA], dtype=object),
    pd.date_range("2020-01-01", periods=3, freq="MS"),
]


@pytest.mark.parametrize(
    "table", KINDS, ids=lambda each: f"{type(each).__name__} {getattr(each, 'dtype', '')}"
)
def test_what_is_written_of_each_kind_can_be_read(table: Any) -> None:
    again = round_trip(table)
    assert type(again) is type(table) and again.equals(table)
