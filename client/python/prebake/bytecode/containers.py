"""Instructions on containers: sets, items, iterators."""

from __future__ import annotations

import dis

from prebake.bytecode.stack_machine import StackMachine, stack_effect
from prebake.bytecode.symbols import UNKNOWN, Attribute, Call, Const, Item, Made, Name, Symbol, sources


class Containers(StackMachine):
    """What is taken out of what, and put into it."""

    def build_set(self, each: dis.Instruction) -> None:
        members = [self._pop() for _ in range(each.arg or 0)]
        for member in members:
            self._use(member)
        made = tuple(each.value for each in members if isinstance(each, Const))
        known = len(made) == len(members)
        self.stack.append(Call(Name("global", ("set",)), (Const(frozenset(made)) if known else UNKNOWN,), {}))

    def set_update(self, each: dis.Instruction) -> None:
        members, place = self._pop(), each.arg or 1
        made = self.stack[-place] if place <= len(self.stack) else UNKNOWN
        if isinstance(made, Call) and made.args == (Const(frozenset()),):
            # A display of constants: an empty set, and all of them at once.
            self.stack[-place] = Call(made.callee, (members,), {})
        self._use(members)

    def set_add(self, each: dis.Instruction) -> None:
        self._use(self._pop())
        place = each.arg or 1
        made = self.stack[-place] if place <= len(self.stack) else UNKNOWN
        if isinstance(made, Call):
            # A comprehension, in the code around it from Python 3.12 on. It is on other stacks already.
            made.args = (UNKNOWN,)

    def binary_subscr(self, each: dis.Instruction) -> None:
        self._taken(self._pop())

    def binary_slice(self, each: dis.Instruction) -> None:
        self._taken(self._slice())

    def _slice(self) -> Symbol:
        """As `BUILD_SLICE` makes one of its ends."""
        ends = self._pop(), self._pop()
        for end in ends:
            self._pass_on(end)
        return Made("BUILD_SLICE", (), tuple(source for end in ends for source in sources(end)))

    def _taken(self, key: Symbol) -> None:
        container = self._pop()
        self.found.keyed.append((container, key))
        self._use(key)
        if not isinstance(container, Name):
            self._use(container)
        named = isinstance(container, Name)
        self.stack.append(Item(container, key) if named else Attribute(container, "[]"))

    def contains_op(self, each: dis.Instruction) -> None:
        container, key = self._pop(), self._pop()
        self.found.keyed.append((container, key))
        self._use(key)
        if not isinstance(container, Name):
            self._use(container)
        self.stack.append(UNKNOWN)

    def store_subscr(self, each: dis.Instruction) -> None:
        self._put(self._pop())

    def store_slice(self, each: dis.Instruction) -> None:
        self._put(self._slice())

    def _put(self, key: Symbol) -> None:
        container, value = self._pop(), self._pop()
        self.found.written.append(container)
        self._use(key)
        self._use(value)
        if not isinstance(container, Name):
            self._use(container)

    def delete_subscr(self, each: dis.Instruction) -> None:
        self._use(self._pop())
        self.found.written.append(self._pop())

    def store_attr(self, each: dis.Instruction) -> None:
        self.found.written.append(self._pop())
        value = self._pop()
        self.found.attributes.append((str(each.argval), value))
        self._use(value)

    def get_iter(self, each: dis.Instruction) -> None:
        self.stack.append(self._iterator(self._pop()))

    get_yield_from_iter = get_iter

    def list_extend(self, each: dis.Instruction) -> None:
        self._iterator(self._pop()).kept = True

    def unpack_sequence(self, each: dis.Instruction) -> None:
        self._iterator(self._pop()).kept = True
        self.stack += [UNKNOWN] * (stack_effect(each, False) + 1)

    unpack_ex = unpack_sequence

    def _iterator(self, of: Symbol) -> Call:
        iterator = Call(Name("global", ("iter",)), (of,), {})
        self.found.iterators.append(iterator)
        for source in sources(of):
            source.escapes = True
        if isinstance(of, Call):
            of.consumers.append(iterator)
        elif not isinstance(of, Name):
            self._use(of)
        return iterator
