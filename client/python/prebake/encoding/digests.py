"""Digests of bytes and of files."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Any

from prebake.runtime.daemon import native

#: Asks for the native module. A probe's child, in which all else of that is off, digests as its parent does:
#: it puts another in this one's place.
native_module = native


def digest(context: str, data: Any) -> bytes:
    """BLAKE3-256 under a context. Without the native module nothing is stored, and any digest will do."""
    module = native_module()
    if module is not None:
        return module.digest(context, data)
    return hashlib.blake2b(data, digest_size=32, key=context.encode()).digest()


def content(path: str) -> bytes | None:
    """Digest of a file's content; None if it cannot be read. Devices and pipes may have no end."""
    module = native_module()
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        if module is not None:
            return module.hash_file(path)
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "blake2b").digest()[:32]
    except (OSError, ValueError):
        return None
    except Exception as error:
        if type(error).__name__ != "Error":
            raise
        return None
