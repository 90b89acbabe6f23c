"""The globals and modules that a function names, by value."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from typing import Any

from prebake.bytecode import instructions
from prebake.encoding import namespaces
from prebake.encoding.encoder import Encoder
from prebake.identity import monkeypatches
from prebake.known import lookup
from prebake.purity import scan
from prebake.runtime import packages
from prebake.runtime.errors import Code
from prebake.world.frame_names import mentioned

#: What importing a module leaves in it, which says no more than its name and what else it holds.
_OF_IMPORT = frozenset({"__builtins__", "__cached__", "__loader__", "__path__", "__spec__"})
#: What `dataclasses` writes for a class asks for all of its fields, once the object is handed on.
_OF_DATACLASSES = "__create_fn__.<locals>."


def write_globals(encoder: Encoder, function: types.FunctionType) -> None:
    """The globals that a function refers to, by value."""
    used = instructions.references(function.__code__)
    encoder.names |= used.names
    if not function.__code__.co_qualname.startswith(_OF_DATACLASSES):
        encoder.asked.add(function.__code__)
    scanned = scan.Scan(encoder, function)
    if encoder.trusted:
        encoder.attempt(scanned.run)
        _named_globals(encoder, function, used)
        _installed(encoder, scanned)
        return
    written = used.writes_globals or used.writes_cells & set(function.__code__.co_freevars)
    # Code that only ran may fill a table of its own: whether that shows, evidence tells.
    if written and not encoder.has_run:
        raise encoder.refuse(
            Code.CARRIES_STATE,
            f"writes {sorted(written)[0]}, so that an item's result can depend on earlier items",
        )
    scanned.run()
    _named_globals(encoder, function, used)
    for name in scanned.imports:
        _imported(encoder, function.__globals__, (name, 0, ()), used, whole=True)
    _installed(encoder, scanned)


def _named_globals(encoder: Encoder, function: types.FunctionType, used: instructions.References) -> None:
    namespace, builtins = function.__globals__, vars(sys.modules["builtins"])
    in_texts = mentioned(function) - used.globals
    # Those are not compared before every batch.
    encoder.watch.is_loose |= bool(in_texts)
    for name in sorted(used.globals | in_texts):
        encoder.text("global", name)
        if name in namespace:
            start, known, outer = len(encoder.out), len(encoder.leaves), encoder.kind
            encoder.path.append(f" -> {name}")
            encoder.kind = "global"
            is_setting = name not in in_texts and not encoder.by_itself and namespaces.is_one(namespace[name])
            if is_setting:
                encoder.setting(namespace[name], frozenset({name}))
            else:
                write_reached(encoder, namespace[name], name, used)
            is_named = is_setting or isinstance(namespace[name], types.ModuleType)
            if known == len(encoder.leaves) and not is_named:
                encoder.leaf(start, namespace[name])
            encoder.kind = outer
            encoder.path.pop()
        elif name in builtins:
            encoder.watch.looked_up(builtins, name)
            encoder.text("builtin", name)
            if not lookup.covers(builtins[name]):
                encoder.value(builtins[name])
        else:
            encoder.watch.is_loose = True
            encoder.emit("unbound")
    for name, level, names in sorted(used.imports):
        _imported(encoder, namespace, (name, level, names), used)


def write_reached(
    encoder: Encoder, value: Any, name: str, used: instructions.References, is_attribute: bool = False
) -> None:
    """A value that code names. Of a user's module, only the attributes that the code can take count."""
    if isinstance(value, type):
        encoder.constructed.update(map(id, value.__mro__))
    if lookup.covers(value):
        # What the code does with it was judged by itself.
        encoder.text("judged", name)
    elif not isinstance(value, types.ModuleType):
        encoder.value(value)
    elif (owner := packages.owner(value.__name__)) is not None:
        encoder.named(owner, value.__name__, "")
    elif name in (used.bare_attributes if is_attribute else used.bare):
        encoder.value(value)
    elif (id(value), id(used)) in encoder.open:
        # Reached again by the same code; other code may take other attributes.
        encoder.emit("inside", value.__name__.encode())
    else:
        # Names that it does not have yet are not compared.
        encoder.watch.is_loose = True
        encoder.open[id(value), id(used)] = len(encoder.open)
        encoder.emit("module")
        for attribute in sorted((used.names | {"__getattr__"}) & vars(value).keys()):
            encoder.text("attribute", attribute)
            start, known = len(encoder.out), len(encoder.leaves)
            encoder.path.append(f".{attribute}")
            inner = vars(value)[attribute]
            write_reached(encoder, inner, attribute, used, is_attribute=True)
            if known == len(encoder.leaves) and not isinstance(inner, types.ModuleType):
                encoder.leaf(start, inner)
            encoder.path.pop()
        del encoder.open[id(value), id(used)]


def write_whole(encoder: Encoder, module: types.ModuleType) -> None:
    """A module of the user's that is handed on: whoever has it may take anything of it."""
    # Names that it does not have yet are not compared.
    encoder.watch.is_loose = True
    encoder.number(module)
    encoder.text("whole module", module.__name__)
    for name, value in sorted(vars(module).items()):
        if name in _OF_IMPORT:
            continue
        encoder.text("attribute", name)
        owner = packages.owner(value.__name__) if isinstance(value, types.ModuleType) else None
        if isinstance(value, type):
            encoder.constructed.update(map(id, value.__mro__))
        if lookup.covers(value):
            # What the module's code does with it is judged by itself.
            encoder.text("judged", name)
        elif owner is not None:
            encoder.named(owner, value.__name__, "")
        else:
            encoder.member(f".{name}", value, "global")


def _installed(encoder: Encoder, scanned: scan.Scan) -> None:
    """What code takes from installed modules and the version does not tell, as it can be set."""
    for name, value in sorted(scanned.taken.items()):
        encoder.watch.taken(value)
        if isinstance(value, type) and not monkeypatches.is_own(value):
            monkeypatches.write(encoder, value)
            _home(encoder, name, value)
        elif monkeypatches.counts(value):
            encoder.text("set", name)
            encoder.member(f" -> {name}", value, "global")
        elif type(value) in (list, tuple, set, frozenset, dict):
            # It may come to hold nothing but what counts.
            encoder.watch.is_loose = True
        elif callable(value):
            _home(encoder, name, value)


def _home(encoder: Encoder, name: str, value: Any) -> None:
    """Where something taken from an installed module is from, if not from there: another may have been put in
    its place."""
    if isinstance(value, types.FunctionType):
        encoder.watch.relied_on(value)
    said = (getattr(value, each, None) for each in ("__module__", "__qualname__", "__name__"))
    home = [each for each in said if isinstance(each, str)]
    if name not in [f"{home[0]}.{each}" for each in home[1:]]:
        encoder.text("taken", name, *home)


def _imported(
    encoder: Encoder,
    namespace: dict[str, Any],
    statement: tuple[str, int, tuple[str, ...]],
    used: instructions.References,
    whole: bool = False,
) -> None:
    """An import statement inside a function: the user's modules are imported now, as the function would.
    `whole` if a dotted name stands for its last module, and not for the first."""
    encoder.watch.is_loose = True
    name, level, names = statement
    package = namespace.get("__package__") or ""
    full = importlib.util.resolve_name("." * level + name, package) if level else name
    encoder.text("import", full, *names)
    owner = packages.owner(full)
    if owner is not None:
        encoder.named(owner, full, "")
        return
    module = _module_named(encoder, full)
    if module is None:
        # Code says itself what it does then; once the module is there, the import is another one.
        encoder.emit("absent")
        return
    if whole:
        write_reached(encoder, module, "", used)
    elif not names:
        module = sys.modules[full.partition(".")[0]]
        if used.imported_as & used.bare:
            encoder.value(module)
        else:
            write_reached(encoder, module, "", used)
    for each in names:
        encoder.text("from", each)
        if each not in vars(module):
            # A module of the package that nothing has imported yet, or nothing.
            _module_named(encoder, f"{full}.{each}")
        if each in vars(module):
            write_reached(encoder, vars(module)[each], each, used)
        else:
            encoder.emit("absent")


def _module_named(encoder: Encoder, name: str) -> types.ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None
    except Exception as error:
        raise encoder.refuse(Code.IMPORT, f"imports {name}, which fails: {error}") from None
