"""Instructions that load and store: constants, variables, modules, attributes."""

from __future__ import annotations

import dis

from prebake.bytecode.stack_machine import NULL, StackMachine, stack_effect
from prebake.bytecode.symbols import UNKNOWN, Attribute, Const, Name, Parameter, Symbol, sources


class Variables(StackMachine):
    """What names stand for."""

    def resume(self, each: dis.Instruction) -> None:
        pass

    nop = precall = copy_free_vars = make_cell = return_generator = resume

    def push_null(self, each: dis.Instruction) -> None:
        self.stack.append(NULL)

    def load_const(self, each: dis.Instruction) -> None:
        self.stack.append(Const(each.argval))

    def load_global(self, each: dis.Instruction) -> None:
        extra = stack_effect(each, False) > 1
        if extra:
            self.stack.append(NULL)
        self.stack.append(Name("global", (str(each.argval),)))

    load_name = load_global

    def load_fast(self, each: dis.Instruction) -> None:
        name = str(each.argval)
        self.stack.append(self._variable(name))

    load_fast_check = load_fast_and_clear = load_fast

    def load_deref(self, each: dis.Instruction) -> None:
        name = str(each.argval)
        known = self.bound.get(name) or self.outer.get(name)
        if known is None:
            known = Name("free", (name,)) if name in self.code.co_freevars else self._parameter(name)
        self.stack.append(known)

    load_classderef = load_deref

    def load_from_dict_or_deref(self, each: dis.Instruction) -> None:
        self._pop()
        self.load_deref(each)

    def load_from_dict_or_globals(self, each: dis.Instruction) -> None:
        self._pop()
        self.stack.append(Name("global", (str(each.argval),)))

    def load_closure(self, each: dis.Instruction) -> None:
        self.stack.append(UNKNOWN)

    def store_fast(self, each: dis.Instruction) -> None:
        self._store(str(each.argval), each.opname == "STORE_FAST")

    store_deref = store_name = store_fast

    def _store(self, name: str, is_fast: bool) -> None:
        value = self._pop()
        if not is_fast or name in self.early:
            # Other code sees it, or the same in the next turn of a loop.
            for source in sources(value):
                source.escapes = True
        if self.stores[name] == 1 and value is not NULL:
            self.bound[name] = value
        else:
            self.found.bindings.setdefault(self._parameter(name), []).append(value)
            self._use(value)
            if is_fast and value is not NULL:
                self.current[name] = value

    def _variable(self, name: str) -> Symbol:
        known = self.bound.get(name) or self.current.get(name)
        if known is None:
            self.early.add(name)
        return known or self._parameter(name)

    def _parameter(self, name: str) -> Parameter:
        return Parameter(name, self.code.co_qualname)

    def store_global(self, each: dis.Instruction) -> None:
        self._use(self._pop())

    def import_name(self, each: dis.Instruction) -> None:
        names, level = self._pop(), self._pop()
        dots = "." * level.value if isinstance(level, Const) and isinstance(level.value, int) else ""
        full = dots + str(each.argval)
        # Without names the statement binds the first part; `import a.b as c` asks for the rest after.
        path = (full,) if isinstance(names, Const) and names.value else (full.partition(".")[0] or full,)
        self.stack.append(Name("import", path))

    def import_from(self, each: dis.Instruction) -> None:
        module = self.stack[-1] if self.stack else UNKNOWN
        self.stack.append(self._attribute(module, str(each.argval)))

    def _attribute(self, of: Symbol, name: str) -> Symbol:
        if isinstance(of, Name):
            return Name(of.kind, (*of.path, name))
        return Attribute(of, name)

    def load_attr(self, each: dis.Instruction) -> None:
        of = self._pop()
        if stack_effect(each, False) > 0:
            self.stack.append(NULL)
        self.stack.append(self._attribute(of, str(each.argval)))

    def load_method(self, each: dis.Instruction) -> None:
        of = self._pop()
        self.stack += [NULL, self._attribute(of, str(each.argval))]

    def pop_top(self, each: dis.Instruction) -> None:
        self._pop()

    def copy(self, each: dis.Instruction) -> None:
        place = each.arg or 1
        self.stack.append(self.stack[-place] if place <= len(self.stack) else UNKNOWN)

    def swap(self, each: dis.Instruction) -> None:
        place = each.arg or 1
        if place <= len(self.stack):
            self.stack[-1], self.stack[-place] = self.stack[-place], self.stack[-1]
