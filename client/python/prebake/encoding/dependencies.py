"""What code and values were found to depend on while they were written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from prebake.bytecode.callers import Callers
from prebake.encoding.digests import content
from prebake.encoding.namespaces import Asked, Held
from prebake.encoding.output import Output
from prebake.encoding.watch import Watch
from prebake.execution.reached import Reached
from prebake.known.lookup import public, verdict_of
from prebake.runtime import packages
from prebake.runtime.errors import Code, Refused

#: What the system draws random numbers from.
SYSTEM_RANDOM = frozenset({"/dev/random", "/dev/urandom"})


class Pending(NamedTuple):
    """A method that would be refused if anything called it."""

    cls: type
    name: str
    refused: Refused


class Dependencies(Output):
    """Packages, variables, files, and what the code that was written asks for and does."""

    def __init__(
        self,
        name: str,
        watch: Watch | None = None,
        called: Any = None,
        arguments: Mapping[str, Any] | None = None,
        by_itself: bool = False,
        has_run: bool = False,
    ) -> None:
        super().__init__(name)
        #: Whether nothing is computed after it.
        self.by_itself = by_itself
        #: Whether it is looked at because it ran.
        self.has_run = has_run
        #: The function that is called, and its arguments by parameter, where both are known.
        self.called = called
        self.arguments = arguments or {}
        #: What else it reads.
        self.watch = watch or Watch()
        self.packages: dict[str, str] = {}
        #: Packages of the standard library that it takes something from.
        self.standard: set[str] = set()
        #: Names in the code written so far, and of attributes from which that code takes an order.
        self.names: set[str] = set()
        self.ordered: set[str] = set()
        #: What code asks of configurations, and what the code that makes objects of a class (by its id) does.
        self.asked = Asked()
        self.making: dict[int, Asked] = {}
        #: Configurations that it met, whose fields are written once all code is.
        self.namespaces: list[Held] = []
        #: Who calls whom, of what needs a seed.
        self.callers = Callers()
        #: Methods that would be refused if anything called them.
        self.pending: list[Pending] = []
        #: Classes that code itself may make instances of, by id.
        self.constructed: set[int] = set()
        #: Whether code asks its own objects for attributes by computed names.
        self.computed = False
        #: Environment variables and files whose content counts.
        self.variables: dict[str, str | None] = {}
        self.files: dict[str, bytes | None] = {}
        #: What code calls that opens files in compiled code, and whether it opens any whose names are not
        #: written in it.
        self.unheard: set[str] = set()
        self.opens = False
        #: Code that is a part of it.
        self.reached = Reached()
        #: Above 0 within what installed code made.
        self.made_installed = 0
        #: Above 0 within what its user vouches for: its code is not judged.
        self.trusted = 0

    def variable(self, name: str) -> None:
        """An environment variable that code reads by its name: its value counts."""
        if not self.variables:
            self.watch.variables()
        if name not in self.variables:
            self.variables[name] = os.environ.get(name)

    def file(self, path: str) -> None:
        """A file that code reads by a name written in it: its content counts."""
        self.watch.is_loose = True
        if path not in self.files:
            if os.path.exists(path) and not os.path.isfile(path):
                code = Code.RANDOM if path in SYSTEM_RANDOM else Code.UNDECLARED
                raise self.refuse(code, f"reads {path}, which is no file")
            self.files[path] = content(path)

    def look(self, path: str) -> None:
        """The same of what may be no file, as far as that can be known."""
        self.watch.is_loose = True
        if os.path.isdir(path):
            self.files.setdefault(path, b"folder")
        else:
            self.file(path)

    def named(self, owner: packages.Owner, module: str, qualname: str) -> None:
        """Installed code: fully known by its name and its distribution's version."""
        if qualname:
            verdict = verdict_of(f"{public(module)}.{qualname}")
            if isinstance(verdict, Code) and not self.trusted:
                raise self.refuse(
                    verdict, f"uses {module}.{qualname}, which is no function of its arguments alone"
                )
        self.packages[owner.name] = owner.version
        if owner is packages.PYTHON:
            self.standard.add(module.partition(".")[0])
        self.text("installed", owner.name, owner.version, module, qualname)
