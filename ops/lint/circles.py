"""Finds circles among the modules of crates: `circles.py FOLDER...`, each the `src` of one. 1 if there are.

A module is a file or folder at the top of `src`, with all that lies in it. It imports another where it says
`crate::other`, in a `use` or elsewhere; what tests import does not count.
"""

from __future__ import annotations

import graphlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_TESTS = re.compile(r"#\[cfg\(test\)\]\s*(#\[[^\n]*\]\s*)*mod \w+ \{.*", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*")
_CRATE = re.compile(r"\bcrate::(\{|\w+)")
#: They name modules, and are none.
_FRONTS = frozenset({"lib", "main"})


def modules(source: Path) -> dict[str, set[str]]:
    """Each module, and those that it imports."""
    found: dict[str, set[str]] = {}
    for file in sorted(source.rglob("*.rs")):
        name = file.relative_to(source).with_suffix("").parts[0]
        if name not in _FRONTS and file.name != "tests.rs":
            found.setdefault(name, set()).update(imported(file.read_text(encoding="utf-8")))
    return {name: {each for each in found[name] if each in found and each != name} for name in found}


def imported(text: str) -> Iterator[str]:
    """First names behind `crate::`."""
    text = _COMMENT.sub("", _TESTS.sub("", text))
    for match in _CRATE.finditer(text):
        yield from _listed(text, match.end()) if match[1] == "{" else [match[1]]


def _listed(text: str, at: int) -> Iterator[str]:
    """Those of a list in braces, whatever braces each has of its own."""
    depth, names = 1, ""
    while depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        names += text[at] if depth == 1 else ""
        at += 1
    yield from (name.strip(" \n}").partition("::")[0] for name in names.split(","))


def circle(imports: dict[str, set[str]]) -> list[str]:
    """The modules of one circle in order, the first again at the end; none if there is no circle."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        found: list[str] = error.args[1]
        # Each is imported by the one after it.
        return found[::-1]
    return []


def main() -> int:
    """The command line."""
    circles = {folder: circle(modules(Path(folder))) for folder in sys.argv[1:]}
    for folder, found in circles.items():
        if found:
            print(f"{folder}: modules import each other in a circle: {' -> '.join(found)}")
    return int(any(circles.values()))


if __name__ == "__main__":
    sys.exit(main())
