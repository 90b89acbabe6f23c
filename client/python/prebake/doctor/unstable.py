"""Which part of an object's identity is another in each process: what `prebake doctor --unstable` runs.

    python -m prebake.doctor.unstable REPORT script.py [arguments]

runs the script (or `-m module`) as Python would, and writes what was identified meanwhile, in order, as JSON.
"""

from __future__ import annotations

import functools
import json
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Identities kept: a training script has tens, one that calls a cached function in a loop any number.
SEEN_MAX = 10_000

Json = dict[str, Any]


def described(name: str, identity: Any) -> Json:
    """An identity as JSON; leaves by path, kind, digest and shown value."""
    leaves = [
        {"path": leaf.path, "kind": leaf.kind, "digest": leaf.digest.hex(), "shown": leaf.shown}
        for leaf in getattr(identity, "leaves", ())
    ]
    return {"name": name, "digest": identity.digest.hex(), "leaves": leaves}


def recording(identify: Callable[..., Any], seen: list[Json]) -> Callable[..., Any]:
    """`identify`, which also notes what it found."""

    @functools.wraps(identify)
    def noted(value: Any, name: str = "it", *rest: Any, **how: Any) -> Any:
        identity = identify(value, name, *rest, **how)
        # What nobody gave a name is a value that was made.
        if name != "it" and len(seen) < SEEN_MAX:
            seen.append(described(name, identity))
        return identity

    return noted


def main() -> None:
    """Runs the script with every identity noted."""
    report, *command = sys.argv[1:]
    if not command:
        sys.exit("usage: python -m prebake.doctor.unstable REPORT script.py [arguments]")
    import prebake
    from prebake.identity import code

    seen: list[Json] = []
    known, noted = code.identify, recording(code.identify, seen)
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{prebake.__name__}.") and getattr(module, "identify", None) is known:
            vars(module)["identify"] = noted
    writer = os.getpid()
    try:
        _run(command)
    finally:
        # A forked worker that ends by an exception comes here too.
        if os.getpid() == writer:
            Path(report).write_text(json.dumps(seen))


def _run(command: list[str]) -> None:
    if command[0] == "-m":
        sys.argv = command[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        sys.path.insert(0, os.path.dirname(os.path.abspath(command[0])))
        runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main()
