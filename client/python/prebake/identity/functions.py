"""Fingerprints of code: functions and what they refer to.

A function is its bytecode, defaults, closure and the globals it names, each by value and recursively.
Installed code is its distribution's name and version.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
import struct
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

from prebake.bytecode import instructions
from prebake.encoding import namespaces
from prebake.encoding.encoder import FIXED, Encoder, Handler
from prebake.encoding.watch import Watch
from prebake.identity import monkeypatches
from prebake.known import lookup
from prebake.known.marks import PURE, is_pure
from prebake.purity import scan
from prebake.runtime import packages
from prebake.runtime.errors import Code
from prebake.world.frame_names import mentioned

#: What `dataclasses` writes for a class asks for all of its fields, once the object is handed on.
_OF_DATACLASSES = "__create_fn__.<locals>."
#: Closure variables and attributes of installed functions that only remember what was worked out before.
CACHES: dict[tuple[str, str], tuple[str, ...]] = {
    ("functools", f"singledispatch.<locals>.{name}"): ("dispatch_cache", "cache_token", "_clear_cache")
    for name in ("dispatch", "register", "wrapper")
}


def _function(encoder: Encoder, function: types.FunctionType) -> None:
    encoder.watch.looked_into(vars(function))
    vouched = is_pure(function)
    encoder.trusted += vouched
    _described(encoder, function)
    encoder.trusted -= vouched


def _described(encoder: Encoder, function: types.FunctionType) -> None:
    code = function.__code__
    module = function.__globals__.get("__name__", "")
    encoder.watch.is_loose |= type(function.__globals__) is not dict
    encoder.watch.looked_up(function.__globals__, "__name__")
    if packages.owner(module) is not None:
        encoder.watch.resolved(function, module, code.co_qualname)
    owner = packages.owner(module) if _is_of(code, module) else None
    if owner is not None and packages.resolve(module, code.co_qualname) is function:
        encoder.named(owner, module, code.co_qualname)
        return
    encoder.number(function)
    encoder.reached.add(code)
    encoder.watch.followed(function)
    if owner is None:
        start = len(encoder.out)
        encoder.emit("function")
        write_code(encoder, code)
        encoder.leaf(start, kind="code", location=encoder.place(code))
        _globals(encoder, function)
    else:
        # Made while installed code ran: the code is known by version, what it holds is not.
        encoder.named(owner, module, code.co_qualname)
        write_code(encoder, code)
    caches = CACHES.get((module, code.co_qualname), ())
    _attributes(encoder, function, PURE, *caches)
    defaults = function.__defaults__ or ()
    encoder.emit("defaults", str(len(defaults)).encode())
    named = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    for name, value in zip(named, defaults, strict=False):
        encoder.member(f".{name}", value, "default")
    # Their names are not compared.
    encoder.watch.is_loose |= bool(function.__kwdefaults__)
    for name, value in sorted((function.__kwdefaults__ or {}).items()):
        encoder.text("keyword default", name)
        encoder.member(f".{name}", value, "default")
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if name not in caches:
            _closed_over(encoder, name, cell, instructions.references(code), owner is None)


def _closed_over(
    encoder: Encoder, name: str, cell: types.CellType, used: instructions.References, is_own: bool
) -> None:
    try:
        module = cell.cell_contents
    except ValueError:
        module = None
    if isinstance(module, types.ModuleType):
        # Imported in the outer function: as a global, it is what is taken of it.
        encoder.watch.followed(cell)
        encoder.path.append(f".{name}")
        encoder.text("module", name)
        _reached(encoder, module, name, used)
        encoder.path.pop()
    elif is_own and not encoder.by_itself and namespaces.is_one(module):
        encoder.watch.followed(cell)
        encoder.path.append(f".{name}")
        encoder.setting(module, frozenset({name}))
        encoder.path.pop()
    else:
        encoder.member(f".{name}", cell, "closure")


def _attributes(encoder: Encoder, function: Any, *skipped: str) -> None:
    """What is kept on a function: `__wrapped__` too, which code may call."""
    for name, value in sorted(vars(function).items()):
        if name not in skipped:
            encoder.watch.is_loose = True
            encoder.text("attribute", name)
            encoder.member(f".{name}", value)


def _is_of(code: types.CodeType, module: str) -> bool:
    """Whether a code object was compiled from its module's file, rather than executed into its namespace."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return code.co_filename == file or code.co_filename.startswith("<frozen ")


def write_code(encoder: Encoder, code: types.CodeType) -> None:
    body, watch = instructions.body(code), encoder.watch
    encoder.emit("code", struct.pack(f">{len(body.instructions)}q", *body.instructions))
    try:
        # None of it ever changes, unless somebody put objects there.
        watch.is_loose |= not all(map(_is_fixed, body.constants))
        encoder.watch = Watch()
        encoder.value(body.header)
        constants = body.constants
        if code.co_name == "__hash__" and code.co_filename.startswith("<attrs generated "):
            # Of the class's name: the hash of a text, which is another in each process.
            constants = [each for each in constants if type(each) is not int]
        encoder.value(tuple(constants))
    finally:
        encoder.watch = watch


def _is_fixed(constant: Any) -> bool:
    kind = type(constant)
    if kind in (tuple, frozenset):
        return all(map(_is_fixed, constant))
    return kind in FIXED or kind is types.CodeType


def _cell(encoder: Encoder, cell: types.CellType) -> None:
    encoder.watch.followed(cell)
    try:
        content = cell.cell_contents
    except ValueError:
        encoder.emit("empty cell")
        return
    encoder.value(content)


def _globals(encoder: Encoder, function: types.FunctionType) -> None:
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
                _reached(encoder, namespace[name], name, used)
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


def _reached(
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
        raise encoder.refuse(
            Code.MODULE_AS_VALUE, f"uses the module {value.__name__} as a value; name the attributes instead"
        )
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
            _reached(encoder, inner, attribute, used, is_attribute=True)
            if known == len(encoder.leaves) and not isinstance(inner, types.ModuleType):
                encoder.leaf(start, inner)
            encoder.path.pop()
        del encoder.open[id(value), id(used)]


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
        _reached(encoder, module, "", used)
    elif not names:
        module = sys.modules[full.partition(".")[0]]
        if used.imported_as & used.bare:
            raise encoder.refuse(
                Code.MODULE_AS_VALUE, f"uses the module {full} as a value; name the attributes instead"
            )
        _reached(encoder, module, "", used)
    for each in names:
        encoder.text("from", each)
        if each not in vars(module):
            # A module of the package that nothing has imported yet, or nothing.
            _module_named(encoder, f"{full}.{each}")
        if each in vars(module):
            _reached(encoder, vars(module)[each], each, used)
        else:
            encoder.emit("absent")


def _module_named(encoder: Encoder, name: str) -> types.ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None
    except Exception as error:
        raise encoder.refuse(Code.IMPORT, f"imports {name}, which fails: {error}") from None


def _method(encoder: Encoder, method: types.MethodType) -> None:
    encoder.names.add(method.__func__.__name__)
    encoder.callers.hands_on(method.__func__)
    encoder.emit("method")
    encoder.member(".__func__", method.__func__)
    encoder.member(".__self__", method.__self__)


def _builtin(encoder: Encoder, function: types.BuiltinFunctionType) -> None:
    bound = function.__self__
    if lookup.covers(function) and not encoder.trusted:
        raise encoder.refuse(
            Code.RANDOM, f"is {function.__name__}, which is no function of its arguments alone"
        )
    if bound is not None and not isinstance(bound, types.ModuleType):
        encoder.text("bound builtin", function.__name__)
        encoder.member(".__self__", bound)
        return
    module = function.__module__ or (bound.__name__ if bound is not None else "")
    owner = packages.owner(module)
    if owner is None:
        raise encoder.refuse(
            Code.OPAQUE, f"is compiled code ({module}.{function.__name__}) that no installed package owns"
        )
    encoder.named(owner, module, function.__qualname__)


def _descriptor(encoder: Encoder, value: Any) -> None:
    encoder.text("descriptor", value.__name__)
    encoder.member(".__objclass__", value.__objclass__)


def _lru(encoder: Encoder, function: Any) -> None:
    encoder.memos.append(function)
    encoder.emit("lru_cache", str(function.cache_parameters()["typed"]).encode())
    _attributes(encoder, function, "cache_parameters", *functools.WRAPPER_ASSIGNMENTS)


def _partial(encoder: Encoder, value: functools.partial[Any]) -> None:
    encoder.emit("partial")
    encoder.member(".func", value.func)
    encoder.member(".args", value.args)
    encoder.member(".keywords", value.keywords)
    _attributes(encoder, value)


def _parts(tag: str, *names: str) -> Callable[[Encoder, Any], None]:
    def encode(encoder: Encoder, value: Any) -> None:
        encoder.emit(tag)
        for name in names:
            encoder.member(f".{name}", getattr(value, name))

    return encode


def _module(encoder: Encoder, module: types.ModuleType) -> None:
    owner = packages.owner(module.__name__)
    if owner is None:
        raise encoder.refuse(
            Code.MODULE_AS_VALUE, f"is the module {module.__name__}: what is used of it is unseen"
        )
    if lookup.is_listed(module.__name__) and not encoder.trusted:
        raise lookup.as_value(encoder, module.__name__)
    encoder.named(owner, module.__name__, "")


def _proxy(encoder: Encoder, value: Any) -> None:
    encoder.emit("mapping proxy")
    encoder.value(dict(value))


CODE_HANDLERS: dict[type, Handler] = {
    range: _parts("range", "start", "stop", "step"),
    slice: _parts("slice", "start", "stop", "step"),
    types.FunctionType: _function,
    types.CodeType: write_code,
    types.CellType: _cell,
    types.MethodType: _method,
    types.BuiltinFunctionType: _builtin,
    types.MethodDescriptorType: _descriptor,
    types.WrapperDescriptorType: _descriptor,
    types.ClassMethodDescriptorType: _descriptor,
    types.GetSetDescriptorType: _descriptor,
    types.MemberDescriptorType: _descriptor,
    types.MethodWrapperType: _parts("method wrapper", "__name__", "__self__"),
    types.MappingProxyType: _proxy,
    functools.partial: _partial,
    functools.partialmethod: _partial,
    types.UnionType: _parts("union", "__args__"),
    property: _parts("property", "fget", "fset", "fdel"),
    functools.cached_property: _parts("cached property", "func", "attrname"),
    # Beside these it remembers, from Python 3.13 on, what it gave for which object.
    functools.singledispatchmethod: _parts("method by type", "dispatcher", "func"),
    classmethod: _parts("classmethod", "__func__"),
    staticmethod: _parts("staticmethod", "__func__"),
    type(functools.lru_cache(abs)): _lru,
    typing.NewType: _parts("new type", "__name__", "__supertype__"),
    struct.Struct: _parts("struct", "format"),
    re.Pattern: _parts("pattern", "pattern", "flags"),
}
CODE_FAMILIES: dict[type, Handler] = {types.ModuleType: _module}
