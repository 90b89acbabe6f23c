"""Files that a function's code names: their content counts. Those that nothing names are found as items are
computed.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import os
import types
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from prebake import calls
from prebake.symbols import Attribute, Call, Const, Made, Name, Parameter, Symbol

if TYPE_CHECKING:
    from prebake.encoder import Encoder
    from prebake.scan import Scan

#: Bytes of a file that a field names, which is read again for each identity: a tenth of a second. Of larger
#: ones each item tells that it read them, and the daemon keeps their digests.
FIELD_FILE_BYTES_MAX = 64 << 20
#: What has run when an object is fingerprinted: its fields hold what it read.
_RUN = frozenset({"__init__", "__post_init__", "__new__", "__setstate__"})
_CONCATENATING = frozenset({"+", "BUILD_STRING"})


class NamedFiles:
    """The files named in one function's code."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        #: An object whose fields are asked for, once it is known.
        self.holder: Any = None

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
        given = call.args[place] if place is not None and call.args and len(call.args) > place else None
        mode = given or (call.keywords.get("mode") if place is not None else None)
        if isinstance(mode, Const) and isinstance(mode.value, str):
            letters = set(mode.value)
            if letters & set("wx") or "a" in letters and "+" not in letters:
                return False
        path = self._path(named)
        if path is not None:
            encoder.look(path)
        elif self.scan.name not in _RUN and _asks_fields(named):
            encoder.opened.append(functools.partial(self._of_field, named))
        return path is not None

    def _of_field(self, symbol: Symbol, holder: Any) -> str | None:
        """The path that a symbol is if the fields it asks for are an object's."""
        self.holder = holder
        try:
            return self._path(symbol)
        finally:
            self.holder = None

    def _path(self, symbol: Symbol) -> str | None:
        """The path that a symbol certainly is: written in the code, held by what a global names, or put
        together from such."""
        if isinstance(symbol, Made) and symbol.display == "/":
            return self._joined(symbol.operands)
        if isinstance(symbol, Made) and symbol.display in _CONCATENATING:
            parts = [self._path(each) for each in symbol.operands]
            return None if not parts or None in parts else "".join(parts)  # type: ignore[arg-type]
        if isinstance(symbol, Made) and len(symbol.operands) == 1:
            return self._path(symbol.operands[0])
        if isinstance(symbol, Call):
            return self._made(symbol)
        value = self._field(symbol) if _asks_fields(symbol) else self.scan.orders.value(symbol)
        return os.fspath(value) if isinstance(value, (str, PurePath)) else None

    def _field(self, symbol: Symbol) -> Any:
        assert isinstance(symbol, Attribute)
        found = inspect.getattr_static(self.holder, symbol.name, None)
        return found.__get__(self.holder) if isinstance(found, types.MemberDescriptorType) else found

    def _made(self, call: Call) -> str | None:
        callee, args = call.callee, call.args or ()
        if isinstance(callee, Attribute) and callee.name in ("resolve", "absolute"):
            # Where a path leads does not change what it names.
            return self._path(callee.of)
        if isinstance(callee, Attribute) and callee.name == "joinpath":
            return self._joined((callee.of, *args))
        if not isinstance(callee, Name) or not args:
            return None
        dotted = self.scan.canonical(callee)
        if dotted in ("pkgutil.get_data", "importlib.resources.files"):
            folder = _folder(self.scan.orders.value(args[0]))
            return self._joined((Const(folder), *args[1:])) if folder is not None else None
        return self._joined(args) if dotted in calls.JOINING else None

    def _joined(self, parts: tuple[Symbol, ...]) -> str | None:
        paths = [self._path(each) for each in parts]
        return None if None in paths else os.path.join(*paths)  # type: ignore[arg-type]


def _asks_fields(symbol: Symbol) -> bool:
    """Whether a path is put together from fields of what a function is given, as of `self`."""
    if isinstance(symbol, Attribute):
        return isinstance(symbol.of, Parameter)
    if isinstance(symbol, Call):
        parts = (*(symbol.args or ()), *([symbol.callee.of] if isinstance(symbol.callee, Attribute) else ()))
        return any(map(_asks_fields, parts))
    return isinstance(symbol, Made) and any(map(_asks_fields, symbol.operands))


def _folder(package: Any) -> str | None:
    """Where a package lies that is given itself or by name."""
    try:
        name = package.__name__ if isinstance(package, types.ModuleType) else package
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, TypeError, AttributeError):
        return None
    return os.path.dirname(spec.origin) if spec is not None and spec.origin else None


def settle(encoder: Encoder) -> None:
    """Has the files count that fields name which code opens, once all objects were met."""
    for path_of in encoder.opened:
        for each in encoder.numbered():
            path = path_of(each)
            if path is not None and _is_small(path):
                encoder.file(path)


def _is_small(path: str) -> bool:
    try:
        return os.path.isfile(path) and os.path.getsize(path) <= FIELD_FILE_BYTES_MAX
    except (OSError, ValueError):
        return False
