"""Finds circles among the modules of crates: `circles.py FOLDER...`, each the `src` of one. 1 if there are.

A module is a file or folder, with all that lies in it. Those in one folder are compared with each other, from
the top of `src` down. One imports another where it names it by `crate::` or `super::`, in a `use` or
elsewhere; what tests import does not count, nor that a folder's own file imports what lies in the folder.
"""

from __future__ import annotations

import graphlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_TESTS = re.compile(r"#\[cfg\(test\)\]\s*(#\[[^\n]*\]\s*)*mod \w+ \{.*", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*")
_PATH = re.compile(r"\b(crate|(?:super::)*super)::(\{|\w+)")
_NAME = re.compile(r"\w+")
#: They name modules, and are none.
_FRONTS = frozenset({"lib", "main", "mod"})


def modules(source: Path) -> dict[str, dict[str, set[str]]]:
    """By folder, each module in it, and those beside it that it imports."""
    found: dict[str, dict[str, set[str]]] = {}
    for file in sorted(source.rglob("*.rs")):
        *folders, name = file.relative_to(source).with_suffix("").parts
        if name == "tests":
            continue
        own = folders if name in _FRONTS else [*folders, name]
        for depth, module in enumerate(own):
            found.setdefault("/".join(own[:depth]), {}).setdefault(module, set())
        for path in imported(file.read_text(encoding="utf-8"), own):
            shared = next((i for i, (a, b) in enumerate(zip(own, path, strict=False)) if a != b), None)
            if shared is not None:
                found["/".join(own[:shared])][own[shared]].add(path[shared])
    return {
        folder: {name: {each for each in names if each in beside} for name, names in beside.items()}
        for folder, beside in found.items()
    }


def imported(text: str, own: list[str]) -> Iterator[list[str]]:
    """Paths of what is named in a module whose own path that is."""
    text = _COMMENT.sub("", _TESTS.sub("", text))
    for match in _PATH.finditer(text):
        ups = match[1].count("super")
        base = own[: len(own) - ups] if ups else []
        for path in _listed(text, match.start(2))[0]:
            yield base + path


def _listed(text: str, at: int) -> tuple[list[list[str]], int]:
    """The paths that begin there, all of a list in braces, and where they end."""
    if text[at] != "{":
        path = []
        while (name := _NAME.match(text, at)) is not None:
            path.append(name[0])
            at = name.end()
            if not text.startswith("::", at):
                return [path], at
            at += 2
            if text[at] == "{":
                below, at = _listed(text, at)
                return [path + each for each in below], at
        return [path], at
    paths: list[list[str]] = []
    at += 1
    while text[at] != "}":
        if text[at].isidentifier():
            below, at = _listed(text, at)
            paths += below
        else:
            at += 1
    return paths, at + 1


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
    circles = {
        f"{source}/{folder}": circle(beside)
        for source in sys.argv[1:]
        for folder, beside in modules(Path(source)).items()
    }
    for folder, found in circles.items():
        if found:
            print(f"{folder}: modules import each other in a circle: {' -> '.join(found)}")
    return int(any(circles.values()))


if __name__ == "__main__":
    sys.exit(main())
