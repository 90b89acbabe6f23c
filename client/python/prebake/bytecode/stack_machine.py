"""A stack of symbols in place of values, and how instructions move them.

It is no interpreter: where control flow meets, or an instruction has no method here, a symbol is `UNKNOWN`,
and what it stood for counts as passed around. Nothing here raises on odd bytecode; a symbol that is lost is
only less precise.
"""

from __future__ import annotations

import dis
import types
from collections import Counter

from prebake.bytecode.instructions import instructions_of, references
from prebake.bytecode.symbols import (
    SET_OPERATORS,
    UNKNOWN,
    Attribute,
    Call,
    Const,
    Made,
    Name,
    Symbol,
    Symbols,
    sources,
)

#: Symbols of one code object; what is beyond counts as unknown.
INSTRUCTIONS_MAX = 100_000
#: What is below or above a callable that is no method.
NULL = Symbol()
#: Symbols on top of the stack that an instruction without a method may look at.
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
_MAKES_ONE = ("BUILD_", "BINARY_", "COMPARE_", "UNARY_", "FORMAT_", "CONVERT_", "IS_OP")
#: Of what `CALL_INTRINSIC_1` does: `+x`.
_POSITIVE = 5


class StackMachine:
    """One pass over the instructions of a code object. Those whose operands matter have a method in its
    subclasses, by the instruction's name."""

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
            type(self)(code, self.found, self.outer | self.bound).run()
        scanned = set(self.nested)
        for constant in self.code.co_consts:
            if isinstance(constant, types.CodeType) and constant not in scanned:
                type(self)(constant, self.found, self.outer | self.bound).run()

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
        apart = stack_effect(each, True) - stack_effect(each, False)
        stack = stack[:apart] if apart < 0 else stack + [UNKNOWN] * apart
        self.arrivals.setdefault(each.argval, stack)

    def _other(self, each: dis.Instruction) -> None:
        name, effect = _as_of_311(each), stack_effect(each, False)
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


def _only_works_out(name: str, members: list[Symbol]) -> bool:
    """Whether an instruction hands its operands to no code of the user's: an operator of an object may."""
    if name.startswith(("FORMAT_", "CONVERT_")):
        # In a form that is worked out, it is told to what is formatted.
        return len(members) == 1 or isinstance(members[0], Const)
    if not name.startswith("BINARY_OP"):
        return name.startswith("BUILD_")
    return all(isinstance(member, Const) or sources(member) for member in members)


def _as_of_311(each: dis.Instruction) -> str:
    """An instruction's name; of an operator's that has none any more, the one that it had."""
    is_positive = each.opname == "CALL_INTRINSIC_1" and each.arg == _POSITIVE
    return "UNARY_POSITIVE" if is_positive else each.opname


def _stored(each: dis.Instruction) -> tuple[str, ...]:
    """The variables that an instruction binds."""
    return (str(each.argval),) if each.opname in ("STORE_FAST", "STORE_DEREF", "STORE_NAME") else ()


def stack_effect(each: dis.Instruction, jump: bool) -> int:
    arg = each.arg if each.opcode >= dis.HAVE_ARGUMENT else None
    try:
        return dis.stack_effect(each.opcode, arg, jump=jump)
    except ValueError:
        return 0
