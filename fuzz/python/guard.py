"""What reading a stored value may not do: import, open, start or call anything, take long or much memory.

The interpreter tells of what is done by its audit events. Memory is asked of the kernel, which knows of all
that was touched, beyond what was at any time before, and of `tracemalloc`, which knows what was asked for.
"""

from __future__ import annotations

import os
import resource
import sys
import time
import tracemalloc
import types
import zoneinfo
from collections.abc import Sequence
from pickletools import genops
from typing import Any

from prebake.codec import named, tables
from prebake.runtime.errors import Code, Refused

SECONDS_MAX = 1.0
BYTES_MAX = 64 << 20
#: Opcodes with greater numbers make the interpreter's own reader take memory by themselves, and time, and no
#: more. To look through each stream for one would cost more than to read it, and so it is known and left out.
PUT_MAX = 1 << 16
#: Of what the interpreter tells, what does something. `compile` is told of literals too, which run nothing.
_DEEDS = [
    "import",
    "open",
    "exec",
    "os.",
    "subprocess.",
    "socket.",
    "ctypes.",
    "shutil.",
    "glob.",
    "marshal.",
    "tempfile.",
    "webbrowser.",
    "pty.",
    "code.__new__",
    "function.__new__",
    "builtins.input",
    "sqlite3.",
    "urllib.",
    "http.",
    "ftplib.",
    "smtplib.",
    "fcntl.",
    "mmap.",
    "resource.",
]
#: Time zones are read from their files.
_ZONES = (os.path.dirname(zoneinfo.__file__), "<frozen zoneinfo")
#: What the reader itself imports, where it is there at all.
_IMPORTED = frozenset(
    ["numpy", "torch", "torchvision", "monai", "PIL", "pandas", "polars", "pyarrow", "tzdata"]
)
#: Packages whose objects a stream of tables may name.
_NAMED = frozenset(
    ["pandas", "numpy", "pyarrow", "polars", "datetime", "decimal", "zoneinfo", "prebake", "builtins"]
)


class Broken(AssertionError):
    """The reader did what it may not."""


class Guard:
    """Watches one thread for as long as the context lasts. Leaving it raises `Broken` if there is something
    to tell."""

    def __init__(self) -> None:
        self.deeds: list[str] = []

    def __enter__(self) -> Guard:
        self._held = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        self._resident = _peak_bytes()
        self._begun = time.process_time()
        _watching.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _watching.pop()
        seconds = time.process_time() - self._begun
        asked = tracemalloc.get_traced_memory()[1] - self._held
        touched = _peak_bytes() - self._resident
        if kind is not None:
            # What came out says more.
            return
        if self.deeds:
            raise Broken(f"it did {', '.join(self.deeds[:4])}")
        if seconds > SECONDS_MAX:
            raise Broken(f"it took {seconds:.1f} s")
        if max(asked, touched) > BYTES_MAX:
            raise Broken(f"it took {max(asked, touched) >> 20} MiB")


_watching: list[Guard] = []
#: Set while what is read was written by the writer.
honest: list[bool] = []


def _heard(event: str, arguments: Sequence[Any]) -> None:
    if not _watching or not event.startswith(tuple(_DEEDS)):
        return
    if event == "import" and arguments[0].partition(".")[0] in _IMPORTED:
        return
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith(_ZONES):
            return
        frame = frame.f_back
    _watching[-1].deeds.append(f"{event}{arguments!r:.120}")


def _peak_bytes() -> int:
    """The most memory that was resident so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _not_imported(module: str) -> None:
    """A class's module is imported for the sake of a value of it, whatever it is: this is known, and not done
    here."""
    raise ImportError(f"{module} was not imported before")


def _is_left_out(stream: bytes) -> bool:
    """Whether a stream has what NumPy, Polars and Arrow do not check: they put state into objects that are
    made, and believe what they are told of their memory. They then crash, or take memory."""
    if b"polars" in stream or b"pyarrow" in stream:
        return True
    try:
        for code, number, _ in genops(stream):
            if code.name == "BUILD" or code.name.endswith("PUT") and (number or 0) > PUT_MAX:
                return True
    except Exception:
        return False
    return False


def begin() -> None:
    """Once in a process: what the interpreter tells is heard from here on, and what streams are given."""
    tracemalloc.start()
    sys.addaudithook(_heard)
    named.importlib = types.SimpleNamespace(import_module=_not_imported)  # type: ignore[attr-defined]
    find = tables._Unpickler.find_class

    def watched(unpickler: Any, module: str, name: str) -> Any:
        found = find(unpickler, module, name)
        whose = getattr(found, "__module__", None) or module
        if _watching and whose.partition(".")[0] not in _NAMED and not whose.startswith("_cython"):
            _watching[-1].deeds.append(f"a stream was given {module}.{name} of {whose}")
        return found

    tables._Unpickler.find_class = watched  # type: ignore[method-assign]
    unpickled = tables.unpickled

    def near(stream: Any, buffers: list[Any], versions: dict[str, str]) -> Any:
        if not honest and _is_left_out(bytes(stream)):
            raise Refused(Code.VALUE, "left out here")
        return unpickled(stream, buffers, versions)

    tables.unpickled = near
