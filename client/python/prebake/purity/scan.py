"""What a function yields beside what its arguments say: random numbers, clocks, variables, folders, files.

A static look at the calls in its bytecode (`symbols`), by the table of `calls`. It refuses what the table
names and adds to the identity what can be known: values of environment variables, content of files named
in the code.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
import types
from collections import deque
from typing import TYPE_CHECKING, Any

from prebake.bytecode import abstract_interpreter, instructions
from prebake.bytecode.symbols import Attribute, Call, Const, Name, Parameter, Symbol
from prebake.bytecode.unordered_iteration import Orders
from prebake.known import calls
from prebake.known.lookup import as_value, covers, dotted_of, is_listed, public, verdict_of
from prebake.purity import clocks, seeds
from prebake.purity.files_in_code import NamedFiles
from prebake.runtime import packages
from prebake.runtime.errors import Code, Refused

if TYPE_CHECKING:
    from prebake.encoding.encoder import Encoder

_ABSENT = object()
#: What tells how many processors there are: that counts.
_PROCESSORS = ("os.cpu_count", "os.process_cpu_count", "os.sched_getaffinity", "multiprocessing.cpu_count")
_MUTABLE = (list, dict, set, bytearray, deque)
_WORDS = {
    Code.RANDOM: "draws random numbers",
    Code.CLOCK: "reads the clock, or names something anew each time",
    Code.NETWORK: "talks to the network",
    Code.UNDECLARED: "reads what nothing tells of",
    Code.ENVIRONMENT: "reads the surroundings of the job; pass the value as a parameter",
    Code.DYNAMIC: "reaches names that cannot be seen in its code",
    Code.EFFECT: "sets something for the whole process, as a hit would not",
    Code.UNSTABLE: "depends on the hash seed of the process",
}


def _imported(name: str) -> Any:
    """A module that code imports, or `_ABSENT`; an installed one is imported now, as the code would."""
    if name not in sys.modules and not name.startswith(".") and packages.owner(name) is not None:
        try:
            importlib.import_module(name)
        except Exception:
            return _ABSENT
    return sys.modules.get(name, _ABSENT)


def _attribute(module: types.ModuleType, name: str, installed: bool) -> Any:
    """What a module holds, or `_ABSENT`. What an installed one loads when it is first asked for is loaded, as
    the code would: its identity must not be another one before and after the code's first call.
    """
    after = vars(module).get(name, _ABSENT)
    if after is not _ABSENT or not installed:
        return after
    try:
        return getattr(module, name)
    except Exception:
        return _ABSENT


class Scan:
    """One function's code, with the names that it sees."""

    def __init__(self, encoder: Encoder, function: types.FunctionType) -> None:
        self.encoder = encoder
        self.function = function
        self.name = function.__code__.co_name
        self.symbols = abstract_interpreter.of(function.__code__)
        self.free = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
        # A method's own object; what it is asked is in the class.
        holder = function.__qualname__.rpartition(".")[0]
        self.defaults = seeds.defaults(function)
        self.given = set(
            function.__code__.co_varnames[
                : function.__code__.co_argcount + function.__code__.co_kwonlyargcount
            ]
        )
        self.orders = Orders(self)
        self.seeds = seeds.Seeds(self)
        self.files = NamedFiles(self)
        #: Modules that it imports by calling what does so.
        self.imports: list[str] = []
        #: What it takes from installed modules, by dotted name.
        self.taken: dict[str, Any] = {}
        self.own = function.__code__.co_varnames[:1] if holder and not holder.endswith("<locals>") else ()

    def run(self) -> None:
        """Raises `Refused`, or writes what was found into the identity."""
        found = self.symbols
        names = instructions.references(self.function.__code__).names
        for code, attributes in calls.ATTRIBUTES.items():
            if hidden := attributes & names:
                raise self.refuse(code, min(hidden))
        for container, key in found.keyed:
            if not isinstance(container, Name):
                continue
            dotted = self.canonical(container)
            if dotted == "os.environ":
                self._variable(key, container)
            elif isinstance(verdict := verdict_of(dotted), Code):
                raise self.refuse(verdict, dotted)
        self.seeds.look_at_attributes()
        for call in found.calls:
            self.seeds.look(call)
            self._call(call)
        iterated = [call.args[0] for call in found.iterators if call.args]
        for name in (*found.loaded, *(each for each in iterated if isinstance(each, Name))):
            self._loaded(name)
        for target in found.written:
            self._written(target)
        self.orders.judge()

    def refuse(self, code: Code, what: str, remedy: str = "") -> Refused:
        place = self.encoder.place(self.function.__code__)
        text = f"uses {what}, which {_WORDS[code]}" + (f" ({place})" if place else "")
        return self.encoder.refuse(code, text + (f"; {remedy}" if remedy else ""))

    # -- names

    def _value(self, name: Name) -> Any:
        """What the first part of a name stands for; `_ABSENT` if nothing."""
        root = name.path[0]
        if name.kind == "global":
            namespace = self.function.__globals__
            if root not in namespace:
                self.encoder.watch.looked_up(vars(builtins), root)
            return namespace.get(root, getattr(builtins, root, _ABSENT))
        if name.kind == "free":
            try:
                return self.free[root].cell_contents
            except (KeyError, ValueError):
                return _ABSENT
        self.encoder.watch.is_loose = True
        return _imported(root)

    def walk(self, name: Name) -> tuple[Any, tuple[str, ...]]:
        """The last module, or what is found in one, on the way; and the attributes that are left."""
        value, rest, _ = self._way(name)
        return value, rest

    def _way(self, name: Name) -> tuple[Any, tuple[str, ...], str]:
        """The same, and under which name an installed module holds it."""
        value, rest, known = self._value(name), name.path[1:], ""
        while rest and isinstance(value, types.ModuleType):
            installed = packages.owner(value.__name__) is not None
            if installed:
                self.encoder.watch.looked_up(vars(value), rest[0])
            else:
                self.encoder.watch.is_loose = True
            after = _attribute(value, rest[0], installed)
            if after is _ABSENT and name.kind == "import" and hasattr(value, "__path__"):
                after = _imported(f"{value.__name__}.{rest[0]}")
            if rest[0] == "__dict__":
                raise self.refuse(Code.DYNAMIC, f"{value.__name__}.__dict__")
            if installed and rest[0] not in vars(value):
                # It is made when it is asked for, if it is there.
                self.encoder.watch.is_loose = True
            if after is _ABSENT:
                break
            if installed and not covers(after):
                self.taken[f"{value.__name__}.{rest[0]}"] = after
            known = f"{public(value.__name__)}.{rest[0]}" if installed else ""
            value, rest = after, rest[1:]
        return value, rest, known

    def canonical(self, name: Name) -> str:
        """The name in the table; empty for the user's own."""
        value, rest, known = self._way(name)
        if value is _ABSENT:
            return ".".join(name.path) if name.kind == "import" else ""
        own = dotted_of(value) if isinstance(value, types.ModuleType) or not known else known
        return ".".join((own, *rest)) if own else ""

    # -- calls

    def _call(self, call: Call) -> None:
        callee = call.callee
        if isinstance(callee, Attribute):
            self._method(call, callee)
            return
        if not isinstance(callee, Name):
            return
        dotted = self.canonical(callee)
        if dotted in ("os.environ.get", "os.getenv") and call.args:
            self._variable(call.args[0], callee)
            return
        if dotted == "os.path.expanduser" or dotted == "pathlib.Path.home":
            self.encoder.variable("HOME")
            return
        if dotted == "importlib.metadata.version" and self._version(call):
            return
        if dotted in _PROCESSORS and not self.encoder.by_itself:
            self.encoder.watch.is_loose = True
            self.encoder.text("processors", str(os.cpu_count()), str(sorted(os.sched_getaffinity(0))))
            return
        if dotted in ("builtins.vars", "builtins.dir"):
            if call.args == ():
                raise self.refuse(Code.DYNAMIC, dotted)
            return
        if dotted in calls.NOW and any(
            isinstance(each, Const) and each.value in calls.NOWS for each in call.args or ()
        ):
            raise self.refuse(Code.CLOCK, f"{dotted}('now')")
        if dotted == "builtins.getattr":
            if _is_constant(call.args, 1):
                self.encoder.names.add(str(call.args[1].value))  # type: ignore[index, attr-defined]
            else:
                self.encoder.computed = True
        self._mutates(callee, call)
        if dotted in calls.CHANGING and call.args:
            self._written(call.args[0])
        out = call.keywords.get("out")
        if isinstance(out, Name) and dotted and hasattr(type(self.orders.value(out)), "__setitem__"):
            self._written(out)
        self._judge(dotted, call)
        named = self.files.look(call)
        self.encoder.opens |= dotted in calls.READERS and not named
        if dotted in calls.COMPILED_READERS and not named:
            self.encoder.unheard.add(dotted)
        value, rest = self.walk(callee)
        if callee.path[-1] in calls.LOCAL_TIME:
            self._time_zone()
        if len(rest) == 1 and packages.owner(type(value).__module__) is not None:
            # A method of an installed object; the user's own classes are judged by their code.
            self._method_named(rest[0], call, seeded=False)

    def _judge(self, dotted: str, call: Call) -> None:
        verdict = verdict_of(dotted)
        if verdict is None or verdict == calls.STEADY:
            return
        if dotted == "builtins.hash":
            if self.name == "__hash__" or call.args and _is_number(call.args[0]):
                return
            raise self.refuse(Code.UNSTABLE, "hash()")
        if verdict == calls.SEEDED and self.seeds.are_given(call):
            return
        if verdict == calls.SEEDED:
            raise self.refuse(Code.RANDOM, f"{dotted} without a seed in the code", seeds.MARK)
        if verdict == calls.LISTING:
            if not self.orders.is_sorted(call):
                raise self.refuse(Code.UNDECLARED, f"{dotted}() in no fixed order", "sort what it lists")
            return
        training = call.keywords.get("training")
        if (
            dotted.startswith("torch.nn.functional.")
            and isinstance(training, Const)
            and training.value is False
        ):
            return
        if dotted.startswith(("torch.", "sklearn.")) and self.seeds.is_named(call):
            return
        if dotted == "gzip.compress" and call.keywords.get("mtime", Const(None)) != Const(None):
            return
        if (
            dotted.startswith(("time.", "email.utils."))
            and dotted.rpartition(".")[2] in _CONVERSIONS
            and len(call.args or ()) > (dotted == "time.strftime")
        ):
            return
        assert isinstance(verdict, Code)
        if not self.encoder.by_itself and self._is_let_through(dotted, call):
            return
        raise self.refuse(verdict, dotted, seeds.MARK if verdict is Code.RANDOM else "")

    def _is_let_through(self, dotted: str, call: Call) -> bool:
        """Whether what the table refuses does no harm here, or what it does is looked at once it is done."""
        if dotted == "importlib.import_module":
            return self._imports(call)
        if dotted in calls.MAKING_TEMPORARY:
            return True
        if dotted.startswith(calls.WATCHED) and dotted != "random.SystemRandom" and self._was_seen():
            return True
        return dotted in clocks.READINGS and clocks.is_only_told(self, call)

    def _was_seen(self) -> bool:
        """Whether draws from the process's generators were: it ran, and no device has one of its own."""
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        return self.encoder.has_run and not (cuda is not None and cuda.is_initialized())

    def _method(self, call: Call, callee: Attribute) -> None:
        name, of = callee.name, callee.of
        if name == "__hash__" and self.name != "__hash__":
            raise self.refuse(Code.UNSTABLE, "__hash__()")
        own = isinstance(of, Parameter) and (of.name,) == self.own
        if name == "pop" and self.orders.is_set(of):
            raise self.refuse(Code.UNSTABLE, "the order of a set", "sort it")
        if name == "glob" and not self.orders.is_sorted(call):
            raise self.refuse(Code.UNDECLARED, "glob()", "sort what it lists")
        self._method_named(name, call, seeded=own or self.seeds.made(of))
        self.files.look(call)
        if name == "expanduser":
            self.encoder.variable("HOME")
        if name in calls.LOCAL_TIME:
            self._time_zone()

    def _method_named(self, name: str, call: Call, seeded: bool) -> None:
        """A method by its name: what it is asked of is not known, or `seeded`."""
        given = [value for key, value in call.keywords.items() if key in calls.SEEDS]
        if name in calls.DRAWING_METHODS and not self._was_seen() and not self.seeds.is_named(call):
            raise self.refuse(Code.RANDOM, f"{name}()", seeds.MARK)
        if name in calls.SEEDABLE_METHODS and not seeded and not any(map(self.seeds.is_known, given)):
            raise self.refuse(Code.RANDOM, f"{name}() without a seed in the code", seeds.MARK)
        nothing = [*(call.args or ()), *call.keywords.values()] in ([], [Const(None)])
        if (
            name in ("seed", "__init__")
            and call.args is not None
            and nothing
            and (name == "seed" or call.args)
        ):
            raise self.refuse(Code.RANDOM, "seed()", seeds.MARK)
        if name == "manual_seed" and not self.seeds.sets(call):
            raise self.refuse(Code.RANDOM, "manual_seed() without a seed", seeds.MARK)
        if name in calls.LISTING_METHODS and not self.orders.is_sorted(call):
            raise self.refuse(Code.UNDECLARED, f"{name}()", "sort what it lists")

    # -- what else is done with names

    def _loaded(self, name: Name) -> None:
        dotted = self.canonical(name)
        verdict = verdict_of(dotted)
        value, rest = self.walk(name)
        self.encoder.callers.hands_on(value)
        if isinstance(value, types.ModuleType) and not rest and is_listed(value.__name__):
            raise as_value(self.encoder, value.__name__)
        if isinstance(verdict, Code):
            if isinstance(value, type) and not rest:
                # A class to compare with: nothing is called.
                return
            raise self.refuse(verdict, dotted, seeds.MARK if verdict is Code.RANDOM else "")

    def _mutates(self, callee: Name, call: Call) -> None:
        # A function of the user's own may have the name of a method.
        if len(callee.path) < 2 or callee.path[-1] not in calls.MUTATORS or callee.kind == "import":
            return
        value, rest = self.walk(Name(callee.kind, callee.path[:-1]))
        if not rest and isinstance(value, _MUTABLE):
            self._carries(callee)

    def _written(self, target: Symbol) -> None:
        if not isinstance(target, Name) or target.kind == "import":
            return
        if self.canonical(target) == "os.environ":
            raise self.refuse(Code.ENVIRONMENT, "os.environ")
        value, _ = self.walk(target)
        if value is not _ABSENT:
            self._carries(target)

    def _carries(self, name: Name) -> None:
        if self.encoder.has_run:
            return
        raise self.encoder.refuse(
            Code.CARRIES_STATE,
            f"writes into {'.'.join(name.path)}, so that an item's result can depend on earlier items",
        )

    # -- what is added to the identity

    def _variable(self, key: Symbol, container: Name) -> None:
        name: Any = key.value if isinstance(key, Const) else None
        if isinstance(key, Name):
            value, rest = self.walk(key)
            name = value if not rest else None
        if not isinstance(name, str):
            raise self.refuse(Code.ENVIRONMENT, ".".join(container.path))
        self.encoder.variable(name)

    def _version(self, call: Call) -> bool:
        """Has the version count that code asks of a distribution; whether it names one."""
        self.encoder.watch.is_loose = True
        name = self.orders.value(call.args[0]) if call.args else None
        if not isinstance(name, str):
            return False
        # Slow to load, and rarely asked for.
        from importlib import metadata

        try:
            version = metadata.version(name)
        except (metadata.PackageNotFoundError, ValueError):
            version = ""
        self.encoder.packages.setdefault(packages.canonical(name), version)
        return True

    def _imports(self, call: Call) -> bool:
        """Notes a module that code imports by a name written in it, to call what is in it."""
        name = call.args[0] if call.args is not None and len(call.args) == 1 else None
        if not isinstance(name, Const) or not isinstance(name.value, str) or name.value.startswith("."):
            return False
        try:
            module = importlib.import_module(name.value)
        except Exception:
            return False
        names = instructions.references(self.function.__code__).names
        taken = [value for each, value in getattr(module, "__dict__", {}).items() if each in names]
        if is_listed(name.value) or any(map(covers, taken)):
            # What is called of it would not be judged.
            return False
        called = [each.callee for each in call.consumers]
        if call.kept or not all(isinstance(each, Attribute) and each.of is call for each in called):
            return False
        self.imports.append(name.value)
        return True

    def _time_zone(self) -> None:
        """What local time is."""
        self.encoder.variable("TZ")
        self.encoder.file("/etc/localtime")


_CONVERSIONS = frozenset({"localtime", "gmtime", "ctime", "asctime", "strftime", "formatdate"})


def _is_constant(args: tuple[Symbol, ...] | None, place: int) -> bool:
    return args is not None and len(args) > place and isinstance(args[place], Const)


def _is_number(symbol: Symbol) -> bool:
    return isinstance(symbol, Const) and type(symbol.value) in (int, float)
