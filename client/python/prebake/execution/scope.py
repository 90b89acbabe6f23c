"""What is watched together while elements are made: code that ran, variables that were read."""

from __future__ import annotations

import math
import os
import sys
import types
from collections.abc import Mapping
from typing import Any

from prebake.execution.ran_code import is_as_loaded, varies
from prebake.execution.ran_names import CODE, IN_WORKER, VARIABLE, WORKER
from prebake.execution.reached import Reached
from prebake.world import user_modules, world

#: Elements of a scope in which everything is seen anew; then those whose number is a power of two, and as
#: many of the others as keep what it costs little.
FIRST_ELEMENTS = 8
#: What is little: so many seconds for each element, of which most is for what Prebake itself calls around a
#: function, or this share of it. A function's call takes some milliseconds anyway where it is computed.
CHEAP_SECONDS, CHEAP_CALL_SECONDS, CHEAP_SHARE = 20e-6, 100e-6, 0.01


class Scope:
    """What is watched together: the elements of one pipeline, the calls of one function. Code is not seen
    each time it starts, so that what one element ran counts for all after it."""

    def __init__(self, is_placed: bool = False, cheap_seconds: float = CHEAP_SECONDS) -> None:
        """`is_placed` if each worker of a loader has elements of its own anyway."""
        self._is_placed = is_placed
        self._cheap_seconds = cheap_seconds
        #: Whether what is another one in each epoch of a loader's worker was asked for.
        self.worker_seed = False
        self.elements = 0
        #: The number of an element that may be seen in full without costing the scope more than is little.
        self._affords = sys.maxsize
        #: Whether each may be the first to come upon code that draws.
        self._may_draw = False
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
        return self._may_draw or count < FIRST_ELEMENTS or count >= self._affords or count & (count - 1) == 0

    def is_weighed(self) -> bool:
        """Whether it counts what it takes to see everything in the next element: it tells how many of those
        to come may be seen."""
        return self.elements >= FIRST_ELEMENTS - 1

    def cost(self, watching: float, element: float) -> None:
        """Takes note of the seconds that one element took, and of those among them that watching added: as
        many elements as it takes to make up for it are not seen."""
        little = max(self._cheap_seconds, CHEAP_SHARE * (element - watching))
        self._affords = self.elements + math.ceil(watching / little)

    def imported(self, file: str) -> None:
        self._imported[file] = None
        user_modules.leave_out(file)

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

    def has_seen(self, code: types.CodeType) -> bool:
        return id(code) in self._codes

    def names(self, reached: Reached) -> list[str]:
        """Names of code that ran and of variables that were read, and that a description did not reach."""
        self._may_draw = reached.may_draw
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
        if not is_as_loaded(code, file):
            self.unseen = "code that ran is no longer what its file says"
        elif id(code) not in self._judged:
            self._judged.add(id(code))
            self.unseen = varies(code, space)
