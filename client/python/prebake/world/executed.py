"""Code that ran and variables that were read while an element was made, beside what its description reached.

A description follows names. Code that is reached by a name in data (a class in a pickle, a plug-in in a
registry, a hook that installed code calls) has none. But it starts, and each code object that starts is
seen: from Python 3.12 on by `sys.monitoring`, once each; before that by `sys.setprofile`, in the first
elements of a pipeline or function and in some later ones. The file that it is from then counts like a file
that was opened.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prebake.runtime import packages, store_clients, worker_rank
from prebake.runtime.describe import described
from prebake.runtime.errors import Code, Refused
from prebake.runtime.here import HERE
from prebake.world import world

#: Elements of a scope in which everything is seen anew; then those whose number is a power of two, and all
#: while that costs little.
FIRST_ELEMENTS = 8
#: What is little: so many seconds, of which most is for what Prebake itself calls around a function, or this
#: share of the element.
CHEAP_SECONDS, CHEAP_SHARE = 30e-6, 0.02
#: What a profile costs for each call that it hears of, and for each other event (returns, calls of builtins).
CALL_SECONDS, EVENT_SECONDS = 0.5e-6, 0.1e-6
#: Calls that one element's profile hears of: a loop calls the same functions again, and each costs 0.5 us.
CALLS_MAX = 100_000
#: Code objects that are known to be installed.
INSTALLED_MAX = 1 << 16
#: How a variable and a file of code stand among the names of what an element was made of.
VARIABLE, CODE = "variable:", "code:"

#: Stand among variables, though none of a process can have such a name: whether it is a worker of a loader,
#: and which. No part of a world: most elements are the same in all workers.
IN_WORKER, WORKER = "=in a worker", "=worker"

#: Functions that one which is looked up by its name may go on to.
NAMED_MAX = 1000

#: `os.environ[name]`, through which `get`, `getenv` and `in` go too.
_READ_VARIABLE = type(os.environ).__getitem__.__code__
#: Where the functions are that this goes through.
_MAPPINGS = frozenset({_READ_VARIABLE.co_filename, Mapping.get.__code__.co_filename})

Started = Callable[[types.CodeType, int], Any]


class Reached:
    """Code objects and variables that a description is made of. Two descriptions are equal whatever objects
    hold their code, so that this takes no part in comparisons."""

    __slots__ = ("_codes", "variables")

    def __init__(self) -> None:
        #: By id; each is kept alive so that its id stays its own.
        self._codes: dict[int, types.CodeType] = {}
        self.variables: frozenset[str] = frozenset()

    def add(self, code: types.CodeType) -> None:
        """Takes a code object and those nested in it."""
        self._codes[id(code)] = code
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self.add(constant)

    def mark(self) -> int:
        """For `forget_since`."""
        return len(self._codes)

    def forget_since(self, mark: int) -> None:
        """Forgets what was added since."""
        while len(self._codes) > mark:
            self._codes.popitem()

    def update(self, other: Reached) -> None:
        """Takes what another description is made of."""
        self._codes.update(other._codes)
        self.variables |= other.variables

    def __contains__(self, code: types.CodeType) -> bool:
        return id(code) in self._codes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reached)

    def __hash__(self) -> int:
        return 0


class Scope:
    """What is watched together: the elements of one pipeline, the calls of one function. Code is not seen
    each time it starts, so that what one element ran counts for all after it."""

    def __init__(self, is_placed: bool = False) -> None:
        """`is_placed` if each worker of a loader has elements of its own anyway."""
        self._is_placed = is_placed
        #: Whether what is another one in each epoch of a loader's worker was asked for.
        self.worker_seed = False
        self.elements = 0
        #: Whether the last one that was seen in full took little longer for it.
        self._is_cheap = False
        #: Why not all is seen.
        self.unseen = ""
        #: Names of variables that were read.
        self.variables: dict[str, None] = {}
        #: The user's code that opened each file of an element; and files that later elements may be made of.
        self._openers: dict[str, types.CodeType] = {}
        self._kept: dict[str, Any] = {}
        #: Files of modules that were imported.
        self._imported: dict[str, None] = {}
        self._codes: dict[int, tuple[types.CodeType, str, dict[str, Any]]] = {}
        self._judged: set[int] = set()
        #: What was looked up by module and name.
        self.found: set[tuple[str, str]] = set()
        self._known: tuple[int, Reached | None] = 0, None
        self._files: list[str] = []

    def merge(self, other: Scope) -> None:
        """Takes what ran in a scope inside this one."""
        self._codes.update(other._codes)
        self._imported.update(other._imported)
        # As a list: other threads add to it meanwhile.
        for name in list(other.variables):
            self.reads(name)
        self.worker_seed = self.worker_seed or other.worker_seed
        self.unseen = self.unseen or other.unseen

    def is_due(self) -> bool:
        """Whether the next element is one in which everything is seen anew."""
        count = self.elements
        return self._is_cheap or count < FIRST_ELEMENTS or count & (count - 1) == 0

    def cost(self, watching: float, element: float) -> None:
        """Takes note of the seconds that one element took, and of what watching added to them."""
        self._is_cheap = watching <= max(CHEAP_SECONDS, CHEAP_SHARE * (element - watching))

    def imported(self, file: str) -> None:
        self._imported[file] = None
        world.leave_out(file)

    def depends(self, name: str) -> None:
        if name.startswith(VARIABLE):
            self.reads(name.removeprefix(VARIABLE))
        else:
            self._imported[name.removeprefix(CODE)] = None

    def reads(self, variable: str) -> None:
        if not self._is_placed or variable not in (IN_WORKER, WORKER):
            self.variables[variable] = None

    def asks_for_seed(self) -> None:
        self.worker_seed = True
        if not self._is_placed:
            self.unseen = self.unseen or "its loader's worker has another seed in each epoch"

    def ran(self, code: types.CodeType, file: str, space: dict[str, Any]) -> None:
        self._codes.setdefault(id(code), (code, file, space))

    def names(self, reached: Reached) -> list[str]:
        """Names of code that ran and of variables that were read, and that a description did not reach."""
        variables = (VARIABLE + name for name in self.variables if name not in reached.variables)
        return [*(CODE + file for file in self.files(reached)), *variables]

    def names_beside_world(self, reached: Reached) -> list[str]:
        """The same without variables that are a part of the world: for what has a list for each element, in
        which names cost an entry more. Where such a variable is another one, elements are compared."""

        def counts(name: str) -> bool:
            variable = name.removeprefix(VARIABLE)
            is_of_world = not variable.startswith("=") and world.counts_variable(os.fsencode(variable))
            return variable == name or not is_of_world

        return list(filter(counts, self.names(reached)))

    def kept(self, stats: Mapping[str, Any], reached: Reached) -> dict[str, Any]:
        """Files that were opened by code which a description did not reach, as they were then: what is made
        of them may be kept for later elements. `stats` are of those that the last one opened."""
        for path, code in self._openers.items():
            if path in stats and code not in reached:
                self._kept.setdefault(path, stats[path])
        self._openers.clear()
        return self._kept

    def opened(self, path: str, code: types.CodeType) -> None:
        self._openers[path] = code

    def files(self, reached: Reached) -> list[str]:
        """The files of code that ran and that a description did not reach."""
        count = len(self._codes) + len(self._imported)
        if self._known[0] != count or self._known[1] is not reached:
            beyond = [ran for ran in list(self._codes.values()) if ran[0] not in reached]
            new = dict.fromkeys(file for _, file, _ in beyond)
            self._known, self._files = (count, reached), list({**self._imported, **new})
            for code, file, space in beyond:
                self._judge(code, file, space)
        return self._files

    def _judge(self, code: types.CodeType, file: str, space: dict[str, Any]) -> None:
        """What is known of code when a description reaches it, is known of it too when it only ran."""
        if self.unseen:
            return
        if not _is_as_loaded(code, file):
            self.unseen = "code that ran is no longer what its file says"
        elif id(code) not in self._judged:
            self._judged.add(id(code))
            self.unseen = _varies(code, space)


def shown(name: str) -> str:
    """What a variable, or a file of code, holds."""
    if name.startswith(CODE):
        with store_clients.own():
            return world.source(name.removeprefix(CODE))
    variable = name.removeprefix(VARIABLE)
    if variable in (IN_WORKER, WORKER):
        worker = worker_rank.place()[: len(worker_rank.FIELDS)]
        return str(worker if variable == WORKER else worker[0] >= 0)
    value = os.environ.get(variable)
    return "absent" if value is None else f"={value}"


def is_name(name: Any) -> bool:
    """Whether a name among those of what an element was made of is that of code or of a variable."""
    return type(name) is str and name.startswith((VARIABLE, CODE))


#: Scopes by thread: of the element that it makes. None where what it does is of no element.
_active: dict[int, Scope | None] = {}
#: Code objects that are installed, by id, kept alive.
_installed: dict[int, types.CodeType] = {}


def begin(scope: Scope) -> Any:
    """Watches the calling thread's element, until `end` of what this returns."""
    thread = threading.get_ident()
    outer = _active.get(thread)
    _active[thread] = scope
    return thread, outer, _watcher.begin(scope)


def end(scope: Scope, begun: Any) -> None:
    thread, outer, watched = begun
    _watcher.end(scope, watched)
    if outer is None:
        del _active[thread]
    else:
        outer.merge(scope)
        _active[thread] = outer
    scope.elements += 1


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    """What runs inside in the calling thread belongs to no element."""
    thread = threading.get_ident()
    outer = _active.get(thread)
    _active[thread] = None
    try:
        yield
    finally:
        if outer is None:
            del _active[thread]
        else:
            _active[thread] = outer


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """What runs inside is no code of an element: it need not be heard, which costs."""
    before = sys.getprofile()
    if not isinstance(getattr(before, "__self__", None), _Calls):
        yield
        return
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(before)


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
    if file.startswith(HERE) or world.is_installed(file):
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
    if type(file) is not str or world.is_installed(file) or packages.owner(module) is not None:
        return
    for code, space in _goes_on_to(found, vars(loaded)):
        file = space.get("__file__")
        if type(file) is str and not world.is_installed(file):
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


def _see(code: types.CodeType, frame: types.FrameType) -> bool:
    """Takes note of a code object that starts in a frame; whether that was of use."""
    if id(code) in _installed:
        return True
    scopes = _scopes()
    if code.co_name == worker_rank.ASKING[0] and code.co_filename.endswith(worker_rank.ASKING[1]):
        _depend(IN_WORKER)
        return bool(scopes)
    file = _file_of(code, frame)
    if not file:
        if len(_installed) < INSTALLED_MAX:
            _installed[id(code)] = code
        return True
    for scope in scopes:
        scope.ran(code, file, frame.f_globals)
    return bool(scopes)


def _failed(error: Exception) -> None:
    for scope in filter(None, list(_active.values())):
        scope.unseen = scope.unseen or f"it could not be watched: {type(error).__name__}: {error}"


def _read_variable(asking: types.FrameType) -> None:
    """Takes note of the variable that a call of `_READ_VARIABLE` is asked for."""
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
    if not file or file.startswith(HERE) or world.is_installed(file) or world.is_generated(file):
        return ""
    return os.path.abspath(file)


def _varies(code: types.CodeType, space: dict[str, Any]) -> str:
    """Why code that ran may yield another value each time, as far as the code tells; empty if it may not. It
    was given what it asks for: a seed, if it asks for one."""
    if not code.co_flags & inspect.CO_NEWLOCALS:
        # The body of a module or a class.
        return ""
    closure = tuple(types.CellType() for _ in code.co_freevars)
    function = types.FunctionType(code, space, closure=closure)
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    try:
        with store_clients.own():
            described(function, code.co_qualname, arguments=dict.fromkeys(named, 0), has_run=True)
    except Refused as refused:
        if refused.code in _VARYING:
            return f"{refused.reason}, in code that nothing names"
    return ""


_VARYING = (Code.RANDOM, Code.CLOCK, Code.NETWORK, Code.CARRIES_STATE)


def _is_as_loaded(code: types.CodeType, file: str) -> bool:
    """Whether a file still is what a code object was made of: older than this process, or with the same code
    in it."""
    try:
        if world.is_settled(file):
            return True
        with store_clients.own(), open(file, "rb") as source:
            compiled = compile(source.read(), file, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        return False
    reached = Reached()
    reached.add(compiled)
    return not code.co_filename.endswith(os.path.basename(file)) or code in set(reached._codes.values())


class _Profile:
    """Until Python 3.11: a profile function of the thread that makes an element, and of those it starts."""

    def begin(self, scope: Scope) -> Any:
        before = sys.getprofile()
        if before is not None and not isinstance(getattr(before, "__self__", None), _Calls):
            scope.unseen = scope.unseen or "another profiler is at work"
            return None
        if not scope.is_due():
            return None
        threads, calls = threading.getprofile(), _Calls()
        threading.setprofile(calls.heard)
        sys.setprofile(calls.heard)
        return before, threads, calls, time.perf_counter()

    def end(self, scope: Scope, begun: Any) -> None:
        if begun is None:
            return
        before, threads, calls, since = begun
        scope.cost(calls.seconds(), time.perf_counter() - since)
        if not calls.is_over and sys.getprofile() != calls.heard:
            # Whoever took its place keeps it.
            scope.unseen = scope.unseen or "another profiler is at work"
        else:
            sys.setprofile(before)
        threading.setprofile(threads)  # type: ignore[arg-type]


class _Calls:
    """The calls of one element."""

    def __init__(self) -> None:
        self.left = CALLS_MAX
        self.others = 0
        self.is_over = False

    def seconds(self) -> float:
        """About what it took to hear of them."""
        return (CALLS_MAX - self.left) * CALL_SECONDS + self.others * EVENT_SECONDS

    def heard(self, frame: types.FrameType, event: str, _: Any) -> None:
        if event != "call":
            self.others += 1
            return
        try:
            if frame.f_code is _READ_VARIABLE:
                _read_variable(frame)
            else:
                _see(frame.f_code, frame)
        except Exception as error:
            # It would be raised in the code that starts.
            _failed(error)
        self.left -= 1
        if self.left < 0:
            self.is_over = True
            sys.setprofile(None)


class _Monitoring:
    """From Python 3.12 on: each code object tells once that it starts, and is quiet from then on."""

    NAME = "prebake"

    def __init__(self) -> None:
        self._tool: int | None = None
        self._disable: Any = None
        #: The scope that code was last made to tell for, and whether some told to nobody since.
        self._last: Scope | None = None
        self._lost = False

    def begin(self, scope: Scope) -> Any:
        if not self._is_on() and not self._turn_on():
            scope.unseen = scope.unseen or "others watch the interpreter"
            return None
        if (self._last is not scope or self._lost) and scope.is_due():
            self._last, self._lost = scope, False
            sys.monitoring.restart_events()  # type: ignore[attr-defined]
        return None

    def end(self, scope: Scope, begun: Any) -> None:
        if not self._is_on():
            scope.unseen = scope.unseen or "others watch the interpreter"

    def _is_on(self) -> bool:
        tool, monitoring = self._tool, sys.monitoring  # type: ignore[attr-defined]
        return (
            tool is not None
            and monitoring.get_tool(tool) == self.NAME
            and monitoring.get_events(tool) & monitoring.events.PY_START != 0
        )

    def _turn_on(self) -> bool:
        monitoring = sys.monitoring  # type: ignore[attr-defined]
        # Those that have no name of a purpose come first.
        for tool in (4, 3, 5, 2, 1, 0):
            if monitoring.get_tool(tool) in (None, self.NAME):
                try:
                    if monitoring.get_tool(tool) is None:
                        monitoring.use_tool_id(tool, self.NAME)
                except ValueError:
                    continue
                self._tool, self._lost = tool, True
                # An interpreter that ends has no `sys` here any more.
                self._disable = monitoring.DISABLE
                monitoring.register_callback(tool, monitoring.events.PY_START, self._started)
                monitoring.set_events(tool, monitoring.events.PY_START)
                return True
        return False

    def _started(self, code: types.CodeType, _: int) -> Any:
        try:
            if code is _READ_VARIABLE:
                if _active:
                    _read_variable(sys._getframe(1))
                return None
            if not _see(code, sys._getframe(1)):
                self._lost = True
        except Exception as error:
            # It would be raised in the code that starts. An interpreter that ends has lost much already.
            if _failed is not None:
                _failed(error)
        return self._disable


_watcher: _Monitoring | _Profile = _Monitoring() if sys.version_info >= (3, 12) else _Profile()
