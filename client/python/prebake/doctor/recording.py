"""What the processes of a script identified, as lines of a file to which all of them append.

A loader's workers are where most is identified. Forked ones have the file already; those that are spawned are
told of it with what `multiprocessing` sends them first. Workers are ended by signals: each line is written at
once.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable
from multiprocessing import spawn
from pathlib import Path
from typing import Any

#: Identities kept of a process: a training script has tens, one that calls a cached function in a loop any
#: number.
SEEN_MAX = 10_000
#: In what a spawned process is sent.
_SENT = "prebake_identities"

Json = dict[str, Any]


def described(name: str, identity: Any) -> Json:
    """An identity as JSON; leaves by path, kind, digest and shown value."""
    leaves = [
        {"path": leaf.path, "kind": leaf.kind, "digest": leaf.digest.hex(), "shown": leaf.shown}
        for leaf in getattr(identity, "leaves", ())
    ]
    return {"name": name, "digest": identity.digest.hex(), "leaves": leaves}


class Recording:
    """Of every identity that this process and its children take from now on."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._is = os.fstat(self._file)
        self._count = 0
        _identify_by(self)
        _send(self)

    def __reduce__(self) -> Any:
        return Recording, (self._path,)

    def note(self, name: str, identity: Any) -> None:
        """Writes one down."""
        self._count += 1
        if self._count > SEEN_MAX:
            return
        line = json.dumps({"process": os.getpid(), **described(name, identity)})
        # A child that closes all that it inherited may have another file by the same number.
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(self._file), self._is):
                os.write(self._file, f"{line}\n".encode())

    def found(self) -> list[Json]:
        """What was written: this process's in its order, then what others found that is not there yet."""
        by_process: dict[int, list[Json]] = {os.getpid(): []}
        for line in Path(self._path).read_text().splitlines():
            # A disk may be full.
            with contextlib.suppress(ValueError):
                each = json.loads(line)
                by_process.setdefault(each.pop("process"), []).append(each)
        found = by_process.pop(os.getpid())
        known = {(each["name"], each["digest"]) for each in found}
        for process in sorted(by_process):
            for each in by_process[process]:
                if (each["name"], each["digest"]) not in known:
                    known.add((each["name"], each["digest"]))
                    found.append(each)
        return found


def _identify_by(recording: Recording) -> None:
    """Has all modules of the package note what they identify."""
    import prebake
    from prebake.identity import code

    known = code.identify

    @functools.wraps(known)
    def noted(value: Any, name: str = "it", *rest: Any, **how: Any) -> Any:
        identity = known(value, name, *rest, **how)
        # What nobody gave a name is a value that was made.
        if name != "it":
            recording.note(name, identity)
        return identity

    for name, module in list(sys.modules.items()):
        if name.startswith(f"{prebake.__name__}.") and getattr(module, "identify", None) is known:
            vars(module)["identify"] = noted


def _send(recording: Recording) -> None:
    """Has spawned processes record too: they load what they are sent before anything of the script."""
    prepare: Callable[..., Json] = spawn.get_preparation_data

    @functools.wraps(prepare)
    def prepared(name: str) -> Json:
        return {**prepare(name), _SENT: recording}

    spawn.get_preparation_data = prepared  # type: ignore[assignment]
