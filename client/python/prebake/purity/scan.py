"""What a function yields beside what its arguments say: random numbers, clocks, variables, folders, files.

A static look at the calls in its bytecode (`symbols`), by the table of `calls`. It refuses what the table
names and adds to the identity what can be known: values of environment variables, content of files named
in the code.
"""

from __future__ import annotations

import types

from prebake.bytecode import instructions
from prebake.bytecode.symbols import Name
from prebake.known import calls
from prebake.known.lookup import as_value, is_listed, verdict_of
from prebake.purity import seeds
from prebake.purity.call_scan import CallScan
from prebake.runtime.errors import Code


class Scan(CallScan):
    """One function's code: what it calls, and what else it does with names."""

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
