"""The symbols of a code object, by one pass over its instructions."""

from __future__ import annotations

import functools
import types

from prebake.bytecode.calls import Calls
from prebake.bytecode.containers import Containers
from prebake.bytecode.instructions import CODES_MAX
from prebake.bytecode.symbols import Symbols
from prebake.bytecode.variables import Variables


def of(code: types.CodeType) -> Symbols:
    """The symbols of a code object, with those of the code objects nested in it."""
    # Two functions that are equal as code may be of two classes.
    return _of(code, code.co_qualname)


@functools.lru_cache(maxsize=CODES_MAX)
def _of(code: types.CodeType, name: str) -> Symbols:
    found = Symbols()
    _Pass(code, found, {}, whole=True).run()
    return found


class _Pass(Variables, Calls, Containers):
    """Knows all instructions."""
