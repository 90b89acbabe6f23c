"""What one function calls, judged by the table of calls."""

from __future__ import annotations

import importlib
import os
import sys
import types
from collections import deque
from typing import TYPE_CHECKING, Any

from prebake.bytecode import instructions
from prebake.bytecode.symbols import Attribute, Call, Const, Name, Parameter, Symbol
from prebake.bytecode.unordered_iteration import Orders
from prebake.known import calls
from prebake.known.lookup import covers, is_listed, verdict_of
from prebake.purity import clocks, seeds
from prebake.purity.code_names import ABSENT, CodeNames
from prebake.purity.files_in_code import NamedFiles
from prebake.runtime import packages
from prebake.runtime.errors import Code

if TYPE_CHECKING:
    from prebake.encoding.encoder import Encoder

#: What tells how many processors there are: that counts.
_PROCESSORS = ("os.cpu_count", "os.process_cpu_count", "os.sched_getaffinity", "multiprocessing.cpu_count")
_MUTABLE = (list, dict, set, bytearray, deque)
_CONVERSIONS = frozenset({"localtime", "gmtime", "ctime", "asctime", "strftime", "formatdate"})


class CallScan(CodeNames):
    """The calls of one function."""

    def __init__(self, encoder: Encoder, function: types.FunctionType) -> None:
        super().__init__(encoder, function)
        code = function.__code__
        # A method's own object; what it is asked is in the class.
        holder = function.__qualname__.rpartition(".")[0]
        self.own = code.co_varnames[:1] if holder and not holder.endswith("<locals>") else ()
        self.defaults = seeds.defaults(function)
        self.given = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        self.orders = Orders(self)
        self.seeds = seeds.Seeds(self)
        self.files = NamedFiles(self)
        #: Modules that it imports by calling what does so.
        self.imports: list[str] = []

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
        if value is not ABSENT:
            self._carries(target)

    def _carries(self, name: Name) -> None:
        if self.encoder.has_run:
            return
        raise self.encoder.refuse(
            Code.CARRIES_STATE,
            f"writes into {'.'.join(name.path)}, so that an item's result can depend on earlier items",
        )

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


def _is_constant(args: tuple[Symbol, ...] | None, place: int) -> bool:
    return args is not None and len(args) > place and isinstance(args[place], Const)


def _is_number(symbol: Symbol) -> bool:
    return isinstance(symbol, Const) and type(symbol.value) in (int, float)
