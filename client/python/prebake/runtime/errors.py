"""What Prebake says when it cannot help: codes, one exception, one warning, each said once."""

from __future__ import annotations

import enum
import os
import sys
import warnings

from prebake.runtime.here import HERE


class Code(enum.StrEnum):
    """Why something is not cached. The codes are stable: programs and documentation refer to them."""

    #: Draws random numbers, or holds what draws them.
    RANDOM = "R20"
    #: Reads the clock, or makes identifiers that are never the same.
    CLOCK = "R21"
    #: Talks to the network.
    NETWORK = "R22"
    #: Reads files that nothing tells of.
    UNDECLARED = "R23"
    #: Reads environment variables in a way that does not show which.
    ENVIRONMENT = "R24"
    #: Keeps something from one item to the next.
    CARRIES_STATE = "R25"
    #: Writes files, or changes something outside that a hit would not.
    EFFECT = "R26"
    #: It cannot be told what item i is.
    DATASET = "R30"
    #: An object of which it cannot be told what it is.
    OPAQUE = "R31"
    #: Changes what it is given.
    MUTATES = "R32"
    #: Yields something else when run twice.
    UNSTABLE = "R33"
    #: Reaches names that cannot be seen in its code.
    DYNAMIC = "R34"
    #: Larger, or more deeply nested, than a description may be.
    TOO_LARGE = "R35"
    #: Passes a module of the user's around as a value.
    MODULE_AS_VALUE = "R36"
    #: Imports something that cannot be imported.
    IMPORT = "R37"
    #: Served before, and not the same when computed again.
    UNREPRODUCED = "R38"
    #: A value that would not come back exactly as it was.
    VALUE = "R39"
    #: Reading it back would take longer than making it.
    TOO_CHEAP = "R40"
    #: Larger than an element may be.
    TOO_BIG = "R41"
    #: Disk or memory is full.
    NO_ROOM = "R42"


def printable(text: str) -> str:
    """A text that can be sent and printed: names of files need not be of characters."""
    return text.encode("utf-8", "backslashreplace").decode()


class Refused(Exception):
    """Prebake cannot tell what something is, so it will not cache it.

    A job meets this only for arguments that cannot be meant (`wrap`, `cached`) and from `fingerprint`; all
    else that is not cached is computed, and a `PrebakeWarning` says why.

    Parameters
    ----------
    code
        Why; see the reference of codes.
    reason
        In words what was met, where, and what to do about it.

    Examples
    --------
    >>> import prebake
    >>> try:
    ...     prebake.wrap(3)
    ... except prebake.Refused as refused:
    ...     print(refused.code, refused.reason)
    R30 wrap cannot see into a int: give it a list of file paths with the transforms, or an object with \
__getitem__ and __len__
    """

    def __init__(self, code: Code, reason: str) -> None:
        self.code, self.reason = code, printable(reason)
        super().__init__(self.reason)

    def __reduce__(self) -> tuple[type[Refused], tuple[Code, str]]:
        return (Refused, (self.code, self.reason))


class PrebakeWarning(UserWarning):
    """Something runs without the cache, and why. The results are the same.

    Examples
    --------
    >>> import random
    >>> import warnings
    >>> import prebake
    >>> @prebake.cached
    ... def drawn() -> float:
    ...     return random.random()
    >>> with warnings.catch_warnings(record=True) as said:
    ...     value = drawn()
    >>> said[0].category.__name__, str(said[0].message)[:15]
    ('PrebakeWarning', 'not cached: R20')
    """


def where(error: BaseException) -> str:
    """The innermost line of the user's that an error came through: `train.py:41`."""
    found = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((HERE, "<")):
            found = f"{os.path.basename(file)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


_said: set[str] = set()


def warn_once(topic: str, message: str) -> None:
    """Warns in one line, at most once per process for each topic; never raises.

    Forked children inherit what was said, so that a loader's workers do not repeat it.
    """
    if topic in _said:
        return
    _said.add(topic)
    line = message.replace("\n", " ")
    try:
        # A file name in angle brackets has no source line, so that the warning stays one line.
        warnings.warn_explicit(line, PrebakeWarning, "<prebake>", 1)
    except PrebakeWarning:
        # Under `-W error` a warning is raised; what is no error of the job's must not end it.
        print(f"<prebake>: {line}", file=sys.stderr)
