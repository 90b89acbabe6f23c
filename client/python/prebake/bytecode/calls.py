"""Instructions that call, return and make functions."""

from __future__ import annotations

import dis
import types

from prebake.bytecode.stack_machine import NULL, StackMachine, stack_effect
from prebake.bytecode.symbols import UNKNOWN, Attribute, Call, Code, Const, Name, Parameter, Symbol, sources


class Calls(StackMachine):
    """What is called with what."""

    def return_value(self, each: dis.Instruction) -> None:
        value = self._pop()
        if self.whole:
            self.found.returned.append(value)
        self._use(value)

    def yield_value(self, each: dis.Instruction) -> None:
        self._use(self._pop())
        self.stack.append(UNKNOWN)

    def return_const(self, each: dis.Instruction) -> None:
        if self.whole:
            self.found.returned.append(Const(each.argval))

    def kw_names(self, each: dis.Instruction) -> None:
        named = each.argval
        self.keywords = named if isinstance(named, tuple) else self.code.co_consts[each.arg or 0]

    def call(self, each: dis.Instruction) -> None:
        members = [self._pop() for _ in range(each.arg or 0)][::-1]
        names, self.keywords = self.keywords, ()
        self._call(members, names)

    def call_kw(self, each: dis.Instruction) -> None:
        names = self._pop()
        members = [self._pop() for _ in range(each.arg or 0)][::-1]
        self._call(members, names.value if isinstance(names, Const) else ())

    def _call(self, members: list[Symbol], names: tuple[str, ...]) -> None:
        upper, lower = self._pop(), self._pop()
        callee = lower if upper is NULL else upper
        if lower is not NULL and upper is not NULL:
            # A decorator's function or a comprehension's iterable: the callable lies below its one argument.
            callee, members = lower, [upper, *members]
        split = len(members) - len(names)
        made = Call(callee, tuple(members[:split]), dict(zip(names, members[split:], strict=False)))
        self._made(made)

    def call_function_ex(self, each: dis.Instruction) -> None:
        for _ in range(1 + ((each.arg or 0) & 1)):
            self._use(self._pop())
        upper, lower = self._pop(), self._pop()
        self._made(Call(lower if upper is NULL else upper, None, {}))

    def load_super_attr(self, each: dis.Instruction) -> None:
        given, callee = (self._pop(), self._pop())[::-1], self._pop()
        arg = each.arg or 0
        # Without arguments, of the class and the object that it is written in.
        self._made(Call(callee, given if arg & 2 else (), {}))
        found = Attribute(self._pop(), str(each.argval))
        self.stack += [NULL, found] if arg & 1 else [found]

    def _made(self, call: Call) -> None:
        self.found.calls.append(call)
        for member in (*(call.args or ()), *call.keywords.values()):
            for source in sources(member):
                source.told_to.append(call)
            if isinstance(member, Call):
                member.consumers.append(call)
            else:
                self._pass_on(member)
        for source in sources(call.callee):
            source.told_to.append(call)
        if isinstance(call.callee, Attribute) and isinstance(call.callee.of, Call):
            if call.callee.name == "sort":
                call.callee.of.sorted = True
            else:
                call.callee.of.consumers.append(call)
        elif not isinstance(call.callee, Name):
            self._sorts(call.callee)
            self._pass_on(call.callee)
        self.stack.append(call)

    def _sorts(self, callee: Symbol) -> None:
        """If a variable is sorted in place, so is what it was bound to before."""
        if isinstance(callee, Attribute) and callee.name == "sort" and isinstance(callee.of, Parameter):
            for each in self.found.bindings.get(callee.of, ()):
                if isinstance(each, Call):
                    each.sorted = True

    def make_function(self, each: dis.Instruction) -> None:
        code = self._pop()
        for _ in range(-stack_effect(each, False)):
            self._use(self._pop())
        if isinstance(code, Const) and isinstance(code.value, types.CodeType):
            self.nested.append(code.value)
            self.stack.append(Code(code.value))
        else:
            self.stack.append(UNKNOWN)

    def set_function_attribute(self, each: dis.Instruction) -> None:
        function = self._pop()
        self._use(self._pop())
        self.stack.append(function)
