"""A pipeline as a graph of operators: what the daemon identifies and explains it by.

The result is the protobuf JSON of `prebake.v1.Graph`: a source, then one operator for each transform.
"""

from __future__ import annotations

import base64
import functools
import inspect
import json
import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from prebake.bytecode import instructions
from prebake.encoding.digests import digest
from prebake.identity.code import Identity
from prebake.known.marks import Pure
from prebake.runtime import packages

CONTEXT = "prebake 2026 operator v1"

#: The version of the graph message that this module writes.
GRAPH_VERSION = 1
#: Parameters are for people to read; the digest covers everything. Longer ones are left to it.
TEXT_MAX = 200
LIST_MAX = 16
#: Lists in lists, which may share parts or hold themselves.
DEPTH_MAX = 3

Json = dict[str, Any]


def step_name(i: int, transform: Any) -> str:
    """What a refusal calls the i-th step of a pipeline, counted from 1."""
    return f"transform {i} ({_name(transform)})"


def files(path_ignored: bool) -> Json:
    """The source of graphs whose items are files, or read files."""
    return _source("files", {"files": {"pathIgnored": path_ignored}})


def arguments() -> Json:
    """The source of graphs whose items are arguments of a call."""
    return _source("arguments", {"arguments": True})


def step(transform: Any, identity: Identity) -> Json:
    """One operator of a chain."""
    return _operator("", transform, identity)


def named_step(name: str) -> Json:
    """An operator of Prebake's own."""
    return {"name": name, "version": "1", "determinism": {"deterministic": True}}


def made_of(operator: Json, more: Sequence[tuple[str, str, str]]) -> Json:
    """An operator whose elements are made of more than its description tells: kind, name and value of
    each."""
    known = base64.b64decode(operator.get("codeDigest", ""))
    manifest = digest(CONTEXT, repr(more).encode("utf-8", "surrogatepass"))
    leaves = [
        {
            "path": name.encode("utf-8", "replace").decode(),
            "kind": kind,
            "digest": base64.b64encode(digest(CONTEXT, held.encode("utf-8", "surrogatepass"))[:16]).decode(),
            "shown": "",
            "location": "",
        }
        for kind, name, held in more
    ]
    return {
        **operator,
        "codeDigest": base64.b64encode(digest(CONTEXT, known + manifest)).decode(),
        "leaves": [*leaves, *operator.get("leaves", [])],
    }


def in_folder(operator: Json, folder: str) -> Json:
    """The step that is given paths of files in a folder, of which it may tell; an empty one says nothing."""
    return made_of(operator, [("environment", "folder of the files", folder)]) if folder else operator


def chain(operators: Sequence[Json]) -> str:
    """The graph of operators that each take what the one before yields. Their ids are their places."""
    return _graph([{**operator, "id": str(place)} for place, operator in enumerate(operators)])


def of_call(function: Callable[..., Any], identity: Identity, here: bool = False) -> str:
    """The graph of one function over its arguments; `here` if it depends on the working folder."""
    folder = {**named_step("prebake.folder"), "params": {"folder": {"text": os.getcwd()}}}
    return chain([arguments(), *([folder] if here else []), step(function, identity)])


class OfCalls:
    """The graph of one function, written anew only once its identity is another."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._written: dict[bool, tuple[Any, str]] = {}

    def of(self, identity: Identity, here: bool) -> str:
        known_by = (identity.digest, identity.packages, os.getcwd() if here else None)
        written = self._written.get(here)
        if written is None or written[0] != known_by:
            written = self._written[here] = known_by, of_call(self._function, identity, here)
        return written[1]


def called(function: Any) -> str:
    """What a refusal calls a function."""
    return _name(function)


def _graph(operators: list[Json]) -> str:
    for before, operator in zip(operators, operators[1:], strict=False):
        operator["inputs"] = [{"operator": before["id"]}]
    return json.dumps({"version": GRAPH_VERSION, "operators": operators, "output": operators[-1]["id"]})


def _source(name: str, source: Json) -> Json:
    return {"id": "0", "name": name, "source": source, "determinism": {"deterministic": True}}


def _operator(identifier: str, transform: Callable[..., Any], identity: Identity) -> Json:
    params = {
        name: value for name, member in _params(transform).items() if (value := _value(member)) is not None
    }
    params["packages"] = {"map": {"entries": {k: {"text": v} for k, v in identity.packages.items()}}}
    return {
        "id": identifier,
        "name": _name(transform),
        "version": _version(transform),
        "params": params,
        "codeDigest": base64.b64encode(identity.digest).decode(),
        "determinism": {"deterministic": True},
        "location": _location(transform),
        **_leaves(identity),
    }


def _leaves(identity: Identity) -> Json:
    """The named parts of an operator, for explanations; no part of a digest."""
    named = [
        {
            "path": leaf.path.encode("utf-8", "replace").decode(),
            "kind": leaf.kind,
            "digest": base64.b64encode(leaf.digest).decode(),
            "shown": leaf.shown.encode("utf-8", "replace").decode(),
            "location": leaf.location,
        }
        for leaf in identity.leaves
    ]
    return {"leaves": named}


def _bare(transform: Any) -> Any:
    """The function or class behind a partial, a method or an instance."""
    while isinstance(transform, (functools.partial, Pure)):
        transform = transform.function if isinstance(transform, Pure) else transform.func
    if isinstance(transform, types.MethodType):
        return transform.__func__
    return transform if hasattr(transform, "__qualname__") else type(transform)


def _module(bare: Any) -> str:
    module = getattr(bare, "__module__", None) or ""
    # A spawned child knows its parent's script under another name.
    return "__main__" if module in packages.SCRIPTS else module


def _name(transform: Any) -> str:
    bare = _bare(transform)
    return f"{_module(bare)}.{bare.__qualname__}".lstrip(".")


def _version(transform: Any) -> str:
    owner = packages.owner(_module(_bare(transform)))
    interpreter = sys.implementation.cache_tag or ""
    return f"{owner.name} {owner.version}, {interpreter}" if owner is not None else interpreter


def _location(transform: Any) -> str:
    bare = _bare(transform)
    bare = vars(bare).get("__call__") if isinstance(bare, type) else inspect.unwrap(bare)
    code = getattr(bare, "__code__", None)
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code is not None else ""


def _params(transform: Any) -> dict[str, Any]:
    """What a person would call its parameters: bound arguments, fields, defaults, constants it names."""
    if isinstance(transform, functools.partial):
        bound = {f"[{i}]": value for i, value in enumerate(transform.args)}
        return _params(transform.func) | bound | dict(transform.keywords)
    if isinstance(transform, types.MethodType):
        return _params(transform.__self__) | _params(transform.__func__)
    if isinstance(transform, types.FunctionType):
        return _function_params(transform)
    fields = getattr(transform, "__dict__", {})
    return {name: value for name, value in fields.items() if not isinstance(transform, type)}


def _function_params(function: types.FunctionType) -> dict[str, Any]:
    code = function.__code__
    named = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    params = dict(zip(named[len(named) - len(defaults) :], defaults, strict=True))
    params |= function.__kwdefaults__ or {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            params[name] = cell.cell_contents
        except ValueError:
            continue
    used = instructions.references(code).globals
    return params | {name: function.__globals__[name] for name in used if name in function.__globals__}


def _value(value: Any, deep: int = DEPTH_MAX) -> Json | None:
    """A simple value as `prebake.v1.Value`; None for what is not one."""
    kind = type(value)
    if value is None:
        return {"null": True}
    if kind is bool:
        return {"boolean": value}
    if kind is int and -(1 << 63) <= value < 1 << 63:
        return {"integer": str(value)}
    if kind is float:
        return {"real": value if value - value == 0 else _unreal(value)}
    if kind is str and len(value) <= TEXT_MAX and value.isprintable():
        return {"text": value}
    if kind in (list, tuple) and len(value) <= LIST_MAX and deep:
        members = [_value(member, deep - 1) for member in value]
        return None if None in members else {"list": {"values": members}}
    return None


def _unreal(value: float) -> str:
    """Infinities and NaN as protobuf JSON writes them."""
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
