"""Finds what makes an object's identity another in each process.

    python -m prebake.doctor module:object

fingerprints the object in two fresh processes under different hash seeds, and names the part that differs.
Exits with 0 if nothing does, 1 if something does, 2 if it cannot be told.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
from typing import Any

from prebake.doctor.recording import described

#: Two hash seeds that order sets of strings differently in nearly every case.
SEEDS = ("1", "2718281828")

#: The option by which the fresh processes are told what they are.
ONE = "--one"


def differences(target: str) -> list[str]:
    """The parts of `module:object` that differ between two processes, in words.

    Raises `RuntimeError` if they cannot be known.
    """
    first, second = (_fresh(target, seed) for seed in SEEDS)
    if first["digest"] == second["digest"]:
        return []
    known = {(leaf["kind"], leaf["path"]): leaf for leaf in second["leaves"]}
    found = []
    for leaf in first["leaves"]:
        other = known.pop((leaf["kind"], leaf["path"]), None)
        if other is None or other["digest"] != leaf["digest"]:
            shown = other["shown"] if other is not None else "(none)"
            values = (
                f": {leaf['shown']} in one process, {shown} in the other" if leaf["shown"] or shown else ""
            )
            found.append(f"{leaf['kind']} {leaf['path']} differs{values}")
    found += [f"{kind} {path} is only there sometimes" for kind, path in known]
    return found or [f"{target}: its identity differs"]


def _fresh(target: str, seed: str) -> Any:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-m", "prebake.doctor", ONE, target]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it ended early")
    return json.loads(done.stdout.splitlines()[-1])


def _one(target: str) -> None:
    from prebake.identity.code import identify

    sys.path.insert(0, os.getcwd())
    module, _, path = target.partition(":")
    value = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    print(json.dumps(described(path, identify(value, path))))


def main() -> int:
    """The exit code."""
    arguments = sys.argv[1:]
    if len(arguments) == 2 and arguments[0] == ONE:
        _one(arguments[1])
        return 0
    if len(arguments) != 1 or ":" not in arguments[0]:
        print("usage: python -m prebake.doctor module:object", file=sys.stderr)
        return 2
    try:
        found = differences(arguments[0])
    except RuntimeError as error:
        print(f"prebake.doctor: {error}", file=sys.stderr)
        return 2
    print("\n".join(found) if found else f"{arguments[0]} has the same identity in both processes")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
