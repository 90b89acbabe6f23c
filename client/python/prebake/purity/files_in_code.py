"""Files that a function's code names: their content counts. Those that nothing names are found as items are
computed.
"""

from __future__ import annotations

import os
import re
from importlib.machinery import PathFinder
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from prebake.bytecode.symbols import Attribute, Call, Const, Made, Name, Parameter, Symbol
from prebake.known import calls

if TYPE_CHECKING:
    from prebake.purity.call_scan import CallScan

#: Operators and calls followed one into the other: paths are put together in few steps.
STEPS_MAX = 8
#: Operators by which paths and texts are put together, and formatting of one.
_JOINED = frozenset({"/", "+", "BUILD_STRING", "FORMAT_VALUE", "FORMAT_SIMPLE"})
#: What names a file by its package.
_PACKAGED = ("pkgutil.get_data", "importlib.resources.files")
_WRITING = re.compile(r"[wx][bt+]*")


class NamedFiles:
    """The files named in one function's code."""

    def __init__(self, scan: CallScan) -> None:
        self.scan = scan

    def look(self, call: Call) -> bool:
        """Has the file's content count that a call opens by its name; whether that is certain."""
        callee, dotted = call.callee, ""
        if isinstance(callee, Name):
            value, rest = self.scan.walk(callee)
            if isinstance(value, PurePath) and len(rest) == 1 and rest[0] in calls.PATH_METHODS:
                return self._read(Const(value), call, 0 if rest[0] == "open" else None)
            dotted = self.scan.canonical(callee)
        elif isinstance(callee, Attribute) and callee.name in calls.PATH_METHODS:
            self._read(callee.of, call, 0 if callee.name == "open" else None)
        name = callee.path[-1] if isinstance(callee, Name) else getattr(callee, "name", "")
        # A package may come to be found.
        self.scan.encoder.watch.is_loose |= dotted in _PACKAGED
        if dotted == "pkgutil.get_data" and len(call.args or ()) > 1:
            return self._read(call, call, None)
        if not calls.READING.fullmatch(name) and dotted not in calls.NAMING:
            return False
        named = [value for key, value in call.keywords.items() if key in calls.FILE_KEYWORDS]
        place = 1 if dotted in calls.OPENERS else None
        return any([self._read(each, call, place) for each in (*(call.args or ())[:1], *named)])

    def _read(self, named: Symbol, call: Call, place: int | None) -> bool:
        """The same of the file that a symbol names. If it is opened in a mode, that is the argument at a
        place."""
        encoder = self.scan.encoder
        if isinstance(named, Parameter):
            default = self.scan.defaults.get(named.name)
            if isinstance(default, (str, PurePath)):
                # Another may be given.
                encoder.look(os.fspath(default))
        path = self._path(named, STEPS_MAX)
        if path is None or _writes(call, place):
            return False
        encoder.look(path)
        return True

    def _path(self, symbol: Symbol, steps: int) -> str | None:
        """The path that a symbol certainly is: written in the code, held by what a global names, or put
        together from such."""
        if not steps:
            return None
        if isinstance(symbol, Made):
            parts = [self._path(each, steps - 1) for each in symbol.operands]
            if not parts or None in parts:
                return None
            join = os.path.join if symbol.display == "/" else _concatenate
            return join(*parts) if symbol.display in _JOINED else None  # type: ignore[arg-type]
        if isinstance(symbol, Call):
            return self._made(symbol, steps - 1)
        value = self.scan.orders.value(symbol)
        return os.fspath(value) if isinstance(value, (str, PurePath)) else None

    def _made(self, call: Call, steps: int) -> str | None:
        callee, args = call.callee, call.args or ()
        if isinstance(callee, Attribute) and callee.name in ("resolve", "absolute"):
            # Where a path leads does not change what it names.
            return self._path(callee.of, steps)
        if isinstance(callee, Attribute) and callee.name == "joinpath":
            return self._joined((callee.of, *args), steps)
        if not isinstance(callee, Name) or not args:
            return None
        dotted = self.scan.canonical(callee)
        if dotted in _PACKAGED:
            self.scan.encoder.watch.is_loose = True
            folder = _folder(self.scan.orders.value(args[0]))
            return self._joined((Const(folder), *args[1:]), steps) if folder is not None else None
        return self._joined(args, steps) if dotted in calls.JOINING else None

    def _joined(self, parts: tuple[Symbol, ...], steps: int) -> str | None:
        paths = [self._path(each, steps) for each in parts]
        return None if None in paths else os.path.join(*paths)  # type: ignore[arg-type]


def _concatenate(*texts: str) -> str:
    return "".join(texts)


def _writes(call: Call, place: int | None) -> bool:
    """Whether a call opens its file only to write it: what it holds does not matter."""
    given = call.args[place] if place is not None and call.args and len(call.args) > place else None
    mode = given or call.keywords.get("mode")
    if not isinstance(mode, Const) or not isinstance(mode.value, str):
        return False
    if place is None:
        # Not all that is called a mode is one, and "a" may be for reading too, as in h5py.
        return _WRITING.fullmatch(mode.value) is not None
    letters = set(mode.value)
    return bool(letters & set("wx")) or "a" in letters and "+" not in letters


def _folder(package: Any) -> str | None:
    """Where a package lies that is given itself or by name. Nothing is imported, which might run anything."""
    file = getattr(package, "__file__", None)
    if isinstance(package, str):
        top, *rest = package.split(".")
        spec = PathFinder.find_spec(top)
        file = os.path.join(os.path.dirname(spec.origin), *rest, "") if spec and spec.origin else None
    return os.path.dirname(file) if file else None
