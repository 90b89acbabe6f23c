"""What is sent to another process arrives there as what it was."""

import io
import pickle

import pytest

from prebake._sent import send

arrow = pytest.importorskip("pyarrow.lib")

#: Compiled code often does not tell its classes their module: pickle takes them for Python's own, in vain.
COMPILED = [arrow.MonthDayNano]


@pytest.mark.parametrize("cls", COMPILED)
def test_a_class_that_names_no_module_is_found_where_it_is_offered(cls: type) -> None:
    assert cls.__module__ == "builtins"
    sent = io.BytesIO()
    send(cls, sent)
    assert pickle.loads(sent.getvalue()) is cls
