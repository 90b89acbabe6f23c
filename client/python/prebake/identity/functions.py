"""Fingerprints of code: functions and what they refer to.

A function is its bytecode, defaults, closure and the globals it names, each by value and recursively.
Installed code is its distribution's name and version.
"""

from __future__ import annotations

import functools
import re
import struct
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

from prebake.bytecode import instructions
from prebake.encoding import namespaces
from prebake.encoding.encoder import Encoder, Handler
from prebake.encoding.scalars import FIXED
from prebake.encoding.watch import Watch
from prebake.identity.global_names import write_globals, write_reached, write_whole
from prebake.known import lookup
from prebake.known.marks import PURE, is_pure
from prebake.runtime import packages
from prebake.runtime.errors import Code

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
        write_globals(encoder, function)
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
        write_reached(encoder, module, name, used)
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
    encoder.reached.memos.append(function)
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
        write_whole(encoder, module)
        return
    if lookup.is_listed(module.__name__) and not encoder.trusted:
        raise lookup.as_value(encoder, module.__name__)
    encoder.named(owner, module.__name__, "")


def _proxy(encoder: Encoder, value: Any) -> None:
    encoder.emit("mapping proxy")
    encoder.value(dict(value))


CODE_HANDLERS: dict[Any, Handler] = {
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
