"""The scopes that elements are made in now, and what runs in their threads: each is told of it."""

from __future__ import annotations

import os
import sys
import threading
import types
from collections.abc import Iterator, Mapping
from typing import Any

from prebake.execution.ran_names import IN_WORKER, WORKER, is_name
from prebake.execution.scope import Scope
from prebake.runtime import packages, worker_rank
from prebake.runtime.here import HERE
from prebake.world import user_modules

#: Code objects that are known to be installed.
INSTALLED_MAX = 1 << 16
#: Functions that one which is looked up by its name may go on to.
NAMED_MAX = 1000

#: `os.environ[name]`, through which `get`, `getenv` and `in` go too.
READ_VARIABLE = type(os.environ).__getitem__.__code__
#: Where the functions are that this goes through.
_MAPPINGS = frozenset({READ_VARIABLE.co_filename, Mapping.get.__code__.co_filename})

#: Scopes by thread: of the element that it makes. None where what it does is of no element.
_active: dict[int, Scope | None] = {}
#: Code objects that are installed, by id, kept alive.
_installed: dict[int, types.CodeType] = {}
#: A thread that makes no element.
_NONE = object()


def enter(scope: Scope | None) -> tuple[int, Any]:
    """What the calling thread runs belongs to a scope from now on; to none, if there is none. Returns what
    `leave` takes."""
    thread = threading.get_ident()
    outer = _active.get(thread, _NONE)
    _active[thread] = scope
    return thread, outer


def leave(entered: tuple[int, Any]) -> Scope | None:
    """Ends it; the scope around, if there is one."""
    thread, outer = entered
    if outer is _NONE:
        del _active[thread]
        return None
    _active[thread] = outer
    found: Scope | None = outer
    return found


def are_any() -> bool:
    """Whether any thread makes an element."""
    return bool(_active)


def opened(path: str, frame: types.FrameType | None) -> None:
    """A file is opened in a frame."""
    scopes = _scopes()
    while scopes and frame is not None:
        if _file_of(frame.f_code, frame):
            for scope in scopes:
                scope.opened(path, frame.f_code)
            return
        frame = frame.f_back


def imported(file: str) -> None:
    """A module is imported from a file in this thread."""
    if file.startswith(HERE) or user_modules.is_installed(file):
        return
    for scope in _scopes():
        scope.imported(file)


def passed_on(name: str) -> bool:
    """Takes what a value that is taken from the cache was made of beside its inputs for what this thread's
    element is made of, if that is a variable or a file of code."""
    if not is_name(name):
        return False
    for scope in _scopes():
        scope.depends(name)
    return True


def found_class(module: str, name: str) -> None:
    """A class or function is looked up by name, as unpickling does."""
    scopes = [each for each in _scopes() if (module, name) not in each.found]
    loaded = sys.modules.get(module)
    if not scopes or loaded is None:
        # It is about to be imported, of which is heard; what it goes on to is seen at the next element.
        return
    for scope in scopes:
        scope.found.add((module, name))
    file = getattr(loaded, "__file__", None)
    found = packages.resolve(module, name)
    if type(file) is not str or user_modules.is_installed(file) or packages.owner(module) is not None:
        return
    for code, space in _goes_on_to(found, vars(loaded)):
        file = space.get("__file__")
        if type(file) is str and not user_modules.is_installed(file):
            for scope in scopes:
                scope.ran(code, os.path.abspath(file), space)


def _goes_on_to(found: Any, space: dict[str, Any]) -> Iterator[tuple[types.CodeType, dict[str, Any]]]:
    """The code of what was looked up, and what it names of the user's, with their modules' names: what starts
    is not seen at each element."""
    pending = [(code, space) for code in _codes_of(found)]
    seen = {id(code) for code, _ in pending}
    for code, names in pending:
        yield code, names
        values = [names[name] for name in code.co_names if name in names]
        modules = [vars(each) for each in values if type(each) is types.ModuleType]
        values += [each[name] for each in modules for name in code.co_names if name in each]
        nested = [(each, names) for each in code.co_consts if isinstance(each, types.CodeType)]
        for value in values:
            if issubclass(type(value), (types.FunctionType, type)):
                module = sys.modules.get(value.__module__ or "")
                if module is not None and packages.owner(value.__module__) is None:
                    nested += [(each, vars(module)) for each in _codes_of(value)]
        fresh = [each for each in nested if id(each[0]) not in seen]
        seen.update(id(each) for each, _ in fresh)
        pending += fresh[: max(0, NAMED_MAX - len(pending))]


def _codes_of(found: Any) -> Iterator[types.CodeType]:
    members = vars(found).values() if isinstance(found, type) else [found]
    for member in members:
        code = getattr(getattr(member, "__func__", member), "__code__", None)
        if isinstance(code, types.CodeType):
            yield code


def _scopes() -> list[Scope]:
    """The scopes that what runs in this thread belongs to: its own, or all if it works for nobody known."""
    thread = threading.get_ident()
    if thread in _active:
        own = _active[thread]
        return [] if own is None else [own]
    return [scope for scope in list(_active.values()) if scope is not None]


def see(code: types.CodeType, frame: types.FrameType) -> bool:
    """Takes note of a code object that starts in a frame; whether that was of use."""
    if id(code) in _installed:
        return True
    scopes = _scopes()
    if code.co_name == worker_rank.ASKING[0] and code.co_filename.endswith(worker_rank.ASKING[1]):
        _depend(IN_WORKER)
        return bool(scopes)
    if scopes and all(scope.has_seen(code) for scope in scopes):
        return True
    file = _file_of(code, frame)
    if not file:
        if len(_installed) < INSTALLED_MAX:
            _installed[id(code)] = code
        return True
    for scope in scopes:
        scope.ran(code, file, frame.f_globals)
    return bool(scopes)


def failed(error: Exception) -> None:
    for scope in filter(None, list(_active.values())):
        scope.unseen = scope.unseen or f"it could not be watched: {type(error).__name__}: {error}"


def read_variable(asking: types.FrameType) -> None:
    """Takes note of the variable that a call of `READ_VARIABLE` is asked for."""
    name = asking.f_locals.get("key")
    frame: types.FrameType | None = asking
    while frame is not None and frame.f_code.co_filename in _MAPPINGS:
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith(HERE):
        # A description that is made meanwhile.
        return
    if type(name) is str and not name.startswith("PREBAKE"):
        _depend(name)


def _depend(variable: str) -> None:
    for scope in _scopes():
        scope.reads(variable)


def worker_asked(field: str) -> None:
    """Takes note of a field that was asked for of this process's place among a loader's workers."""
    if field in worker_rank.FIELDS:
        _depend(WORKER)
    elif field in worker_rank.SEEDS:
        for scope in _scopes():
            scope.asks_for_seed()


def _file_of(code: types.CodeType, frame: types.FrameType) -> str:
    """The user's own file that a code object is from; empty for installed code. What was made of a text
    belongs to the module in whose names it runs."""
    file = code.co_filename
    if not os.path.isabs(file):
        if not file.startswith("<") and os.path.isfile(file):
            file = os.path.abspath(file)
        else:
            module = frame.f_globals.get("__name__")
            file = getattr(sys.modules.get(module or ""), "__file__", None) or ""
    if (
        not file
        or file.startswith(HERE)
        or user_modules.is_installed(file)
        or user_modules.is_generated(file)
    ):
        return ""
    return os.path.abspath(file)
