"""The symbols of a code object, by one pass over its instructions.

A stack of symbols in place of values. It is no interpreter: where control flow meets, or an instruction is
unknown, a symbol is `UNKNOWN`, and what it stood for counts as passed around. Nothing here raises on odd
bytecode; a symbol that is lost is only less precise.
"""

from __future__ import annotations

import dis
import functools
import types
from collections import Counter

from prebake.bytecode.instructions import CODES_MAX, instructions_of, references
from prebake.bytecode.symbols import (
    SET_OPERATORS,
    UNKNOWN,
    Attribute,
    Call,
    Code,
    Const,
    Item,
    Made,
    Name,
    Parameter,
    Symbol,
    Symbols,
    sources,
)

#: Symbols of one code object; what is beyond counts as unknown.
INSTRUCTIONS_MAX = 100_000
_NULL = Symbol()
#: Symbols on top of the stack that an unknown instruction may look at.
_TAKEN_MAX = 3
_ENDS = frozenset(
    {
        "RETURN_VALUE",
        "RETURN_CONST",
        "RAISE_VARARGS",
        "RERAISE",
        "JUMP_FORWARD",
        "JUMP_BACKWARD",
        "JUMP_ABSOLUTE",
    }
    | {"JUMP_BACKWARD_NO_INTERRUPT"}
)
#: What is made of operands that matter: sets and paths.
_FOLLOWED = SET_OPERATORS | {"/", "+", "BUILD_STRING", "FORMAT_VALUE", "FORMAT_SIMPLE"}
_MAKES_ONE = ("BUILD_", "BINARY_", "COMPARE_", "UNARY_", "FORMAT_", "IS_OP")


def of(code: types.CodeType) -> Symbols:
    """The symbols of a code object, with those of the code objects nested in it."""
    # Two functions that are equal as code may be of two classes.
    return _of(code, code.co_qualname)


@functools.lru_cache(maxsize=CODES_MAX)
def _of(code: types.CodeType, name: str) -> Symbols:
    found = Symbols()
    _Pass(code, found, {}, whole=True).run()
    return found


class _Pass:
    def __init__(
        self, code: types.CodeType, found: Symbols, outer: dict[str, Symbol], whole: bool = False
    ) -> None:
        self.code = code
        #: Whether it is nested in no other.
        self.whole = whole
        self.found = found
        self.stack: list[Symbol] = []
        #: Stacks at the targets of jumps, and positions where nothing arrives from above.
        self.arrivals: dict[int, list[Symbol]] = {}
        self.bound: dict[str, Symbol] = {}
        #: Of variables that are bound more than once: to what, until flows meet.
        self.current: dict[str, Symbol] = {}
        self.outer = outer
        self.keywords: tuple[str, ...] = ()
        self.nested: list[types.CodeType] = []
        parameters = (
            code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        )
        self.parameters = set(code.co_varnames[:parameters])
        instructions = [
            each for each in instructions_of(code) if each.opname not in ("EXTENDED_ARG", "CACHE")
        ]
        self.instructions = instructions[:INSTRUCTIONS_MAX]
        self.stores = Counter(name for each in instructions for name in _stored(each))
        self.stores.update(self.parameters)
        # What a function in it binds is bound more than once.
        inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
        self.stores.update(name for each in inner for name in references(each).writes_cells)
        #: Variables that were loaded before anything was stored in them, as in a loop.
        self.early: set[str] = set()

    def run(self) -> None:
        live = True
        for each in self.instructions:
            if each.is_jump_target or each.offset in self.arrivals:
                self._arrive(each.offset, live)
                self.current.clear()
                live = True
            self._step(each)
            if each.opname in _ENDS:
                self._drop()
                live = False
        self._drop()
        for code in self.nested:
            _Pass(code, self.found, self.outer | self.bound).run()
        scanned = set(self.nested)
        for constant in self.code.co_consts:
            if isinstance(constant, types.CodeType) and constant not in scanned:
                _Pass(constant, self.found, self.outer | self.bound).run()

    def _arrive(self, offset: int, live: bool) -> None:
        arrived = self.arrivals.pop(offset, None)
        if arrived is None:
            return
        if not live or len(arrived) != len(self.stack):
            for lost in self.stack if live else ():
                self._use(lost)
            if not live:
                self.stack = arrived
            return
        for place, (a, b) in enumerate(zip(arrived, self.stack, strict=True)):
            if a is not b and a != b:
                self._use(a)
                self._use(b)
                self.stack[place] = UNKNOWN

    def _drop(self) -> None:
        for symbol in self.stack:
            self._use(symbol)
        self.stack = []

    def _pop(self) -> Symbol:
        return self.stack.pop() if self.stack else UNKNOWN

    def _use(self, symbol: Symbol) -> None:
        """A symbol leaves the pass: what it names is passed around, or only thrown away."""
        self._pass_on(symbol)
        for source in sources(symbol):
            source.escapes = True

    def _pass_on(self, symbol: Symbol) -> None:
        """The same of one whose sources are followed on."""
        if isinstance(symbol, Name):
            self.found.loaded.append(symbol)
        elif isinstance(symbol, Call):
            symbol.kept = True
        elif isinstance(symbol, Attribute):
            self._pass_on(symbol.of)

    def _step(self, each: dis.Instruction) -> None:
        handler = getattr(self, each.opname.lower(), None) if each.opname.isupper() else None
        if handler is not None:
            handler(each)
        else:
            self._other(each)
        if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs:
            self._leave(each)

    def _leave(self, each: dis.Instruction) -> None:
        stack = list(self.stack)
        # What the instruction pushes or pops only where it jumps.
        apart = _effect(each, True) - _effect(each, False)
        stack = stack[:apart] if apart < 0 else stack + [UNKNOWN] * apart
        self.arrivals.setdefault(each.argval, stack)

    def _other(self, each: dis.Instruction) -> None:
        name, effect = each.opname, _effect(each, False)
        if name.startswith("LOAD_") and effect > 0:
            self.stack += [UNKNOWN] * effect
        elif name.startswith(_MAKES_ONE) or name.startswith("UNPACK_"):
            made = max(effect + 1, 1) if name.startswith("UNPACK_") else 1
            members = [self._pop() for _ in range(made - effect)]
            constant = bool(members) and all(isinstance(member, Const) for member in members)
            if constant and name in ("BUILD_TUPLE", "BUILD_LIST"):
                self.stack.append(Const(tuple(member.value for member in reversed(members))))  # type: ignore[attr-defined]
                return
            follows = made == 1 and _only_works_out(name, members)
            for member in members:
                (self._pass_on if follows else self._use)(member)
            operator = each.argrepr.removesuffix("=") if name == "BINARY_OP" else ""
            display = operator or name
            # Text that is formatted as itself, not in a form that is asked for.
            plain = name != "FORMAT_VALUE" or not each.arg
            kept = tuple(reversed(members)) if display in _FOLLOWED and plain else ()
            went_in = tuple(source for member in members for source in sources(member))
            if name.startswith("BINARY_OP"):
                for source in went_in:
                    source.beside += went_in
            self.stack += [Made(display, kept, went_in) if made == 1 else UNKNOWN] * made
        elif effect < 0:
            for _ in range(-effect):
                self._use(self._pop())
        else:
            if effect > 0 or name.startswith("MATCH_"):
                # It may take apart what lies on top.
                for symbol in self.stack[-_TAKEN_MAX:]:
                    for source in sources(symbol):
                        source.escapes = True
            self.stack += [UNKNOWN] * effect

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

    # One method for each instruction whose operands matter, by the instruction's name.

    def resume(self, each: dis.Instruction) -> None:
        pass

    nop = precall = copy_free_vars = make_cell = not_taken = return_generator = resume

    def push_null(self, each: dis.Instruction) -> None:
        self.stack.append(_NULL)

    def load_const(self, each: dis.Instruction) -> None:
        self.stack.append(Const(each.argval))

    load_small_int = load_const

    def load_global(self, each: dis.Instruction) -> None:
        extra = _effect(each, False) > 1
        if extra:
            self.stack.append(_NULL)
        self.stack.append(Name("global", (str(each.argval),)))

    load_name = load_global

    def load_fast(self, each: dis.Instruction) -> None:
        name = str(each.argval)
        self.stack.append(self._variable(name))

    load_fast_check = load_fast_borrow = load_fast_and_clear = load_fast

    def load_fast_load_fast(self, each: dis.Instruction) -> None:
        for name in each.argval:
            self.stack.append(self._variable(name))

    load_fast_borrow_load_fast_borrow = load_fast_load_fast

    def load_deref(self, each: dis.Instruction) -> None:
        name = str(each.argval)
        known = self.bound.get(name) or self.outer.get(name)
        if known is None:
            known = Name("free", (name,)) if name in self.code.co_freevars else self._parameter(name)
        self.stack.append(known)

    load_classderef = load_deref

    def load_closure(self, each: dis.Instruction) -> None:
        self.stack.append(UNKNOWN)

    def store_fast(self, each: dis.Instruction) -> None:
        self._store(str(each.argval), each.opname == "STORE_FAST")

    store_deref = store_name = store_fast

    def store_fast_load_fast(self, each: dis.Instruction) -> None:
        stored, loaded = each.argval
        self._store(stored, True)
        self.stack.append(self._variable(loaded))

    def store_fast_store_fast(self, each: dis.Instruction) -> None:
        for name in each.argval:
            self._store(name, True)

    def _store(self, name: str, is_fast: bool) -> None:
        value = self._pop()
        if not is_fast or name in self.early:
            # Other code sees it, or the same in the next turn of a loop.
            for source in sources(value):
                source.escapes = True
        if self.stores[name] == 1 and value is not _NULL:
            self.bound[name] = value
        else:
            self.found.bindings.setdefault(self._parameter(name), []).append(value)
            self._use(value)
            if is_fast and value is not _NULL:
                self.current[name] = value

    def _variable(self, name: str) -> Symbol:
        known = self.bound.get(name) or self.current.get(name)
        if known is None:
            self.early.add(name)
        return known or self._parameter(name)

    def _parameter(self, name: str) -> Parameter:
        return Parameter(name, self.code.co_qualname)

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
        if _effect(each, False) > 0:
            self.stack.append(_NULL)
        self.stack.append(self._attribute(of, str(each.argval)))

    def load_method(self, each: dis.Instruction) -> None:
        of = self._pop()
        self.stack += [_NULL, self._attribute(of, str(each.argval))]

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
        callee = lower if upper is _NULL else upper
        if lower is not _NULL and upper is not _NULL:
            # A decorator's function or a comprehension's iterable: the callable lies below its one argument.
            callee, members = lower, [upper, *members]
        split = len(members) - len(names)
        made = Call(callee, tuple(members[:split]), dict(zip(names, members[split:], strict=False)))
        self._made(made)

    def call_function_ex(self, each: dis.Instruction) -> None:
        for _ in range(1 + ((each.arg or 0) & 1)):
            self._use(self._pop())
        upper, lower = self._pop(), self._pop()
        self._made(Call(lower if upper is _NULL else upper, None, {}))

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

    def binary_subscr(self, each: dis.Instruction) -> None:
        key, container = self._pop(), self._pop()
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
        key, container, value = self._pop(), self._pop(), self._pop()
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
        self.stack += [UNKNOWN] * (_effect(each, False) + 1)

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

    def make_function(self, each: dis.Instruction) -> None:
        code = self._pop()
        for _ in range(-_effect(each, False)):
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

    def pop_top(self, each: dis.Instruction) -> None:
        self._pop()

    def copy(self, each: dis.Instruction) -> None:
        place = each.arg or 1
        self.stack.append(self.stack[-place] if place <= len(self.stack) else UNKNOWN)

    def swap(self, each: dis.Instruction) -> None:
        place = each.arg or 1
        if place <= len(self.stack):
            self.stack[-1], self.stack[-place] = self.stack[-place], self.stack[-1]


def _only_works_out(name: str, members: list[Symbol]) -> bool:
    """Whether an instruction hands its operands to no code of the user's: an operator of an object may."""
    if name.startswith("FORMAT_"):
        # In a form that is worked out, it is told to what is formatted.
        return len(members) == 1 or isinstance(members[0], Const)
    if not name.startswith("BINARY_OP"):
        return name.startswith("BUILD_")
    return all(isinstance(member, Const) or sources(member) for member in members)


def _stored(each: dis.Instruction) -> tuple[str, ...]:
    """The variables that an instruction binds."""
    if each.opname in ("STORE_FAST", "STORE_DEREF", "STORE_NAME"):
        return (str(each.argval),)
    if each.opname == "STORE_FAST_LOAD_FAST":
        return (each.argval[0],)
    return tuple(each.argval) if each.opname == "STORE_FAST_STORE_FAST" else ()


def _effect(each: dis.Instruction, jump: bool) -> int:
    arg = each.arg if each.opcode >= dis.HAVE_ARGUMENT else None
    try:
        return dis.stack_effect(each.opcode, arg, jump=jump)
    except ValueError:
        return 0
