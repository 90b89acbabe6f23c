"""The `with` statements that a call is made in. What one of them sets is often hidden in a package
(`sympy.evaluate(False)`, `mock.patch(...)`): so a call inside is made in another world than one outside.

Where a statement is tells it from others; what its context manager was given does not count.
"""

from __future__ import annotations

import dis
import functools
import sys
import types

#: Callers that are gone through. Those of a test runner are some sixty.
CALLERS_MAX = 128
#: Places of calls that are kept: a job's code has some hundred.
CALLS_MAX = 4096
_WITH = dis.opmap["WITH_EXCEPT_START"]
_CACHE = dis.opmap["CACHE"]
_UNIT = 2


def statements(frame: types.FrameType | None) -> list[str]:
    """The `with` statements around what a frame and its callers do, by the function and the place in it."""
    found: list[str] = []
    for _ in range(CALLERS_MAX):
        if frame is None:
            break
        code = frame.f_code
        if code.co_exceptiontable:
            found += _around(code, frame.f_lasti)
        frame = frame.f_back
    return found


def of_caller() -> list[str]:
    """Those around the caller of who asks."""
    return statements(sys._getframe(2))


@functools.lru_cache(maxsize=CALLS_MAX)
def _around(code: types.CodeType, at: int) -> tuple[str, ...]:
    """Handlers lie within those further out: each tells the next."""
    entries = list(dis._parse_exception_table(code))  # type: ignore[attr-defined]
    found: list[str] = []
    seen = set()
    while at not in seen:
        seen.add(at)
        handler = next((each.target for each in entries if each.start <= at < each.end), None)
        if handler is None:
            break
        if _WITH in code.co_code[handler : handler + 2 * _UNIT : _UNIT]:
            found.append(f"{code.co_qualname}+{handler}")
        at = handler
    return tuple(found)
