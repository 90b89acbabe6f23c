"""Edits between runs: any line of any file, a variable, an argument, a file that comes or goes, or nothing.

An edit is a list of words that JSON holds, so that a program which once failed can be kept with its edits:

    ["sub", file, old, new]   some lines are others   ["put", file, text]     a file is there, or is another
    ["remove", file]          a file is gone          ["env", name, value]    a variable; null removes it
    ["argv", arguments]       the whole command line  ["touch", file]         the same bytes, written anew
    ["back"]                  everything is as it was at first
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from builder import Program

Edit = list[object]
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_STRING = re.compile(r"'([^'\\{}%]*)'")
#: Operators that are exchanged for others; as they are written, with spaces around.
_OPERATORS = {" + ": " - ", " - ": " + ", " * ": " + ", " / ": " // ", " > ": " >= ", " % ": " // "}


def apply(first: Program, now: Program, edit: Edit) -> Program | None:
    """The program after an edit; None if it says nothing of this program (some of it was dropped)."""
    kind, *rest = edit
    made = now.copy()
    if kind == "back":
        return first.copy()
    if kind == "argv":
        made.argv = list(rest[0])  # type: ignore[call-overload]
    elif kind == "env":
        name, value = rest
        made.env.pop(str(name), None)
        if value is not None:
            made.env[str(name)] = str(value)
    elif kind == "put":
        made.files[str(rest[0])] = str(rest[1])
    elif rest[0] not in made.files:
        return None
    elif kind == "remove":
        del made.files[str(rest[0])]
    elif kind == "sub":
        file, old, new = map(str, rest)
        if f"\n{old}\n" not in f"\n{made.files[file]}\n":
            return None
        made.files[file] = f"\n{made.files[file]}\n".replace(f"\n{old}\n", f"\n{new}\n", 1)[1:-1]
        if file.endswith(".py") and not _compiles(made.files[file]):
            return None
    return made


def draw(rng: random.Random, now: Program) -> tuple[str, Edit] | None:
    """An edit and its kind; None if this one does not come about."""
    kind = rng.choices(list(KINDS), [weight for _, weight in KINDS.values()])[0]
    edit = KINDS[kind][0](rng, now)
    return None if edit is None else (kind, edit)


def _compiles(text: str) -> bool:
    try:
        compile(text, "edited", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _line(rng: random.Random, now: Program, code: bool) -> tuple[str, str] | None:
    """A file and one of its lines."""
    files = [name for name, text in now.files.items() if name.endswith(".py") == code and text.strip()]
    if not files:
        return None
    # By lines, so that all are as likely.
    lines = [(name, line) for name in files for line in now.files[name].splitlines() if line.strip()]
    return rng.choice(lines)


def _changed(rng: random.Random, line: str) -> str | None:
    """The line with one number, string or operator exchanged."""
    places = [(found.start(), found.end(), _other_number(rng, found[0])) for found in _NUMBER.finditer(line)]
    places += [(f.start(1), f.end(1), _other_text(rng, f[1])) for f in _STRING.finditer(line) if f[1]]
    places += [
        (at.start(), at.end(), new)
        for old, new in _OPERATORS.items()
        for at in re.finditer(re.escape(old), line)
    ]
    if not places:
        return None
    start, end, new = rng.choice(places)
    return line[:start] + new + line[end:]


def _other_number(rng: random.Random, number: str) -> str:
    return str(rng.choice([int(number) + 1, int(number) + 2, max(0, int(number) - 1), int(number) * 2 + 1]))


def _other_text(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return text[:at] + rng.choice("abcxyz,;") + text[at + 1 :]


def _change(rng: random.Random, now: Program) -> Edit | None:
    picked = _line(rng, now, True)
    changed = picked and _changed(rng, picked[1])
    return ["sub", picked[0], picked[1], changed] if picked and changed not in (None, picked[1]) else None


def _change_data(rng: random.Random, now: Program) -> Edit | None:
    picked = _line(rng, now, False)
    if picked is None:
        return None
    name, line = picked
    changed = _changed(rng, line) or line + "x"
    return ["sub", name, line, changed] if changed != line else None


def _delete(rng: random.Random, now: Program) -> Edit | None:
    picked = _line(rng, now, True)
    if picked is None or picked[1].startswith(("import ", "rows", "    print")):
        return None
    indent = picked[1][: len(picked[1]) - len(picked[1].lstrip())]
    return ["sub", *picked, f"{indent}pass"]


def _swap(rng: random.Random, now: Program) -> Edit | None:
    picked = _line(rng, now, True)
    if picked is None:
        return None
    lines = now.files[picked[0]].splitlines()
    at = lines.index(picked[1])
    if at + 1 >= len(lines) or lines[at] == lines[at + 1]:
        return None
    return ["sub", picked[0], f"{lines[at]}\n{lines[at + 1]}", f"{lines[at + 1]}\n{lines[at]}"]


def _insert(rng: random.Random, now: Program) -> Edit | None:
    """What changes nothing, except to what asks for lines and sources."""
    picked = _line(rng, now, True)
    added = rng.choice(["# a comment", "", "unused = 1"])
    return picked and ["sub", *picked, f"{added}\n{picked[1]}"]


def _duplicate(rng: random.Random, now: Program) -> Edit | None:
    picked = _line(rng, now, True)
    return picked and ["sub", *picked, f"{picked[1]}\n{picked[1]}"]


def _variable(rng: random.Random, now: Program) -> Edit | None:
    if not now.env:
        return None
    name = rng.choice(list(now.env))
    if name.startswith("FZ_COUNT"):
        return ["env", name + "_MORE", "1"]
    number = now.env[name]
    return ["env", name, _other_number(rng, number) if number.isdigit() else number + "x"]


def _variable_gone(rng: random.Random, now: Program) -> Edit | None:
    return ["env", rng.choice(list(now.env)), None] if now.env else None


def _unrelated_variable(rng: random.Random, now: Program) -> Edit | None:
    return ["env", rng.choice(["FZ_UNRELATED", "TERM_FZ", "SSH_FZ"]), str(rng.randrange(9))]


def _argument(rng: random.Random, now: Program) -> Edit | None:
    if not now.argv:
        return ["argv", [f"unrelated={rng.randrange(9)}"]]
    at = rng.randrange(len(now.argv))
    name, _, value = now.argv[at].partition("=")
    return ["argv", [*now.argv[:at], f"{name}={_other_number(rng, value)}", *now.argv[at + 1 :]]]


def _argument_gone(rng: random.Random, now: Program) -> Edit | None:
    if not now.argv:
        return None
    at = rng.randrange(len(now.argv))
    return ["argv", now.argv[:at] + now.argv[at + 1 :]]


def _file_gone(rng: random.Random, now: Program) -> Edit | None:
    files = [name for name in now.files if not name.endswith((".py", ".dat"))]
    return ["remove", rng.choice(files)] if files else None


def _file_added(rng: random.Random, now: Program) -> Edit | None:
    """Beside another, under a name that the same pattern finds."""
    files = [name for name in now.files if name not in ("main.py", "work.py")]
    if not files:
        return ["put", "unrelated.txt", "1\n"]
    stem, dot, end = rng.choice(files).rpartition(".")
    at = stem.rpartition(".")[0] if end == "item" and "/" not in stem else stem
    return ["put", f"{at}.b.{end}" if end != "py" else f"{stem}b.py", now.files[f"{stem}{dot}{end}"]]


def _touch(rng: random.Random, now: Program) -> Edit | None:
    return ["touch", rng.choice(list(now.files))]


#: Each with how often it is drawn.
KINDS: dict[str, tuple[Callable[[random.Random, Program], Edit | None], int]] = {
    "line changed": (_change, 40),
    "data changed": (_change_data, 14),
    "line deleted": (_delete, 8),
    "lines swapped": (_swap, 5),
    "line inserted": (_insert, 8),
    "line repeated": (_duplicate, 4),
    "variable changed": (_variable, 10),
    "variable gone": (_variable_gone, 5),
    "unrelated variable": (_unrelated_variable, 3),
    "argument changed": (_argument, 8),
    "argument gone": (_argument_gone, 4),
    "file gone": (_file_gone, 6),
    "file added": (_file_added, 6),
    "file touched": (_touch, 4),
}
