"""Names that installed code looks up in the frame of its caller: `df.query("a > @THRESHOLD")`,
`duckdb.sql("select * from weights")`, `numexpr.evaluate("x * gain")`.

No bytecode names them. They stand in texts, so where code calls something that reads its caller's names,
every global that a text of its own mentions counts as if the code named it.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator

from prebake.runtime.words import words

#: Attributes and functions by which frames are read: of pandas and polars, duckdb and other SQL, numexpr, and
#: formulas.
READERS = words(
    "query eval sql execute execute_query from_query evaluate re_evaluate validate NumExpr dmatrix dmatrices "
    "from_formula ols SQLContext sqldf"
)
#: Characters of a text that are looked at.
TEXT_MAX = 1 << 16
_NAME = re.compile(r"[^\W\d]\w*")


def mentioned(function: types.FunctionType) -> set[str]:
    """Globals of a function that its texts mention, if it calls something that may look them up."""
    code, space = function.__code__, function.__globals__
    found = set[str]()
    for inner in _codes(code):
        if READERS.isdisjoint(inner.co_names):
            continue
        texts = [*_texts(inner.co_consts), *_texts(tuple(space.get(name) for name in inner.co_names))]
        found |= {name for text in texts for name in _NAME.findall(text[:TEXT_MAX]) if name in space}
    return found


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _texts(values: tuple[object, ...]) -> Iterator[str]:
    for value in values:
        if type(value) is str:
            yield value
        elif type(value) in (tuple, frozenset):
            yield from _texts(tuple(value))  # type: ignore[arg-type]
