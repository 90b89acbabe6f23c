"""Stores, for a function of the job's, a stream that makes a file if it is read without care:
`python -c 'import poison; poison.main()' FOLDER FILE`."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import owner_job

from prebake.codec import values
from prebake.probe import probe

_encode = values.encode


class Planted:
    """Makes a file where it is read."""

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return open, (sys.argv[2], "w")


def encode(value: Any) -> values.Encoded:
    """What is stored in place of a value."""
    encoded = _encode(value)
    if sum(map(len, encoded.parts)) < owner_job.BYTES // 2:
        return encoded
    stream = pickle.dumps([Planted()], 5)
    text = '{"kind":"with tables","of":{"at":0,"kind":"table"},"sizes":[%d],"versions":{}}'
    return values.Encoded(text % len(stream), [stream])


def main() -> None:
    """The command line."""
    values.encode = encode
    # A trial would find that the function yields something else, and have the other's stream left unread.
    probe.values = SimpleNamespace(encode=_encode)  # type: ignore[assignment]
    for path in sorted(map(str, Path(sys.argv[1]).glob("*.txt"))):
        owner_job.streamed(path)


if __name__ == "__main__":
    main()
