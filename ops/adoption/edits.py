"""One-line edits of a script that change what it means.

Mutation testing calls them mutants (DeMillo, Lipton and Sayward, "Hints on Test Data Selection", 1978).
The operators are those of Offutt et al. (1996), as far as Python has them.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass

#: Operators and what stands in their place.
OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
}
#: Strings that name a choice, and another choice. Any other string would end the script in most places.
CHOICES = {"RGB": "L", "text": "label", "float32": "float64", "jpg": "cls", "0": "1"}
#: Lines with these words are the harness' own, say where the data lie, or train: no element depends on those.
HARNESS = ("prebake", "record", "import", "# was", "sys.argv", "seed")
TRAINING = ("model", "optimizer", "loss", "Conv2d", "Linear(", "_epoch", "criterion", "trainer")


@dataclass(frozen=True)
class Edit:
    """A line and what stands there instead."""

    line: int
    kind: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.kind}: {self.before.strip()} -> {self.after.strip()}"

    def of(self, text: str) -> str:
        """The script with the line changed."""
        lines = text.splitlines(keepends=True)
        lines[self.line - 1] = self.after
        return "".join(lines)


def edits(text: str, count: int, seed: int) -> list[Edit]:
    """So many edits in random places, no two the same; fewer if the script has no more. Each parses."""
    found = sorted(set(_all(text)), key=lambda edit: (edit.line, edit.kind, edit.after))
    good = [edit for edit in found if _parses(edit.of(text))]
    return random.Random(seed).sample(good, min(count, len(good)))


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _all(text: str) -> Iterator[Edit]:
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        for begin, end, kind, new in _replacements(node, lines):
            number = begin[0]
            line = lines[number - 1]
            if number != end[0] or any(word in line for word in HARNESS + TRAINING):
                continue
            # Columns are of UTF-8.
            raw = line.encode()
            after = (raw[: begin[1]] + new.encode() + raw[end[1] :]).decode()
            if after != line:
                yield Edit(number, kind, line, after)


def _replacements(
    node: ast.AST, lines: list[str]
) -> Iterator[tuple[tuple[int, int], tuple[int, int], str, str]]:
    """From where to where of the source, the kind of the edit, and what stands there then."""
    if isinstance(node, ast.Constant):
        for new in _constants(node.value):
            yield *_span(node), "constant", new
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, right = _span(node.left)[1], _span(node.right)[0]
        yield left, right, "operator", f" {OPERATORS[type(node.op)]} "
    elif isinstance(node, ast.keyword) and node.arg is not None:
        begin, end = _span(node)
        rest = lines[end[0] - 1].encode()[end[1] :].lstrip()
        if rest.startswith(b","):
            end = (end[0], lines[end[0] - 1].encode().index(b",", end[1]) + 1)
        yield begin, end, "argument left out", ""
    elif isinstance(node, (ast.List, ast.Tuple)) and isinstance(getattr(node, "ctx", None), ast.Load):
        for element in node.elts:
            begin, end = _span(element)
            comma = lines[end[0] - 1].encode().find(b",", end[1])
            if comma >= 0:
                yield begin, (end[0], comma + 1), "element left out", ""
        for first, second in zip(node.elts, node.elts[1:], strict=False):
            if first.end_lineno == second.lineno == first.lineno == second.end_lineno:
                line = lines[first.lineno - 1].encode()
                (b1, e1), (b2, e2) = _span(first), _span(second)
                new = line[b2[1] : e2[1]] + line[e1[1] : b2[1]] + line[b1[1] : e1[1]]
                yield b1, e2, "elements swapped", new.decode()
    elif isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr)) and _is_dispensable(node):
        yield *_span(node), "statement left out", "pass"


def _is_dispensable(node: ast.Assign | ast.AugAssign | ast.Expr) -> bool:
    """Whether what a statement binds was bound before it: else what follows would end at once."""
    if not isinstance(node, ast.Assign):
        return True
    bound = {ast.unparse(target) for target in node.targets}
    return bound <= {ast.unparse(each) for each in ast.walk(node.value) if isinstance(each, ast.expr)}


def _constants(value: object) -> Iterator[str]:
    if isinstance(value, bool):
        yield repr(not value)
    elif isinstance(value, int):
        yield from (repr(value + 1), repr(2 * value), repr(max(value - 1, 0)))
    elif isinstance(value, float):
        yield from (repr(value * 1.5 + 0.01), repr(value / 2))
    elif isinstance(value, str) and value in CHOICES:
        yield repr(CHOICES[value])


def _span(node: ast.expr | ast.stmt | ast.keyword) -> tuple[tuple[int, int], tuple[int, int]]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
