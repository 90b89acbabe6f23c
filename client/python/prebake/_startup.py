"""Files that an interpreter, its loader and its C library open on their own; no step reads them."""

from __future__ import annotations

import re

_STARTUP = re.compile(
    r"/(etc/(ld\.so\.\w+|localtime|nsswitch\.conf|passwd|group)"
    r"|usr/(lib|share)/(locale|zoneinfo)/.*"
    r"|.*/(pyvenv\.cfg|python\d+\.zip|gconv-modules\.cache|openssl\.cnf)"
    r"|.*\.(py|pyc|pth|so)"
    r"|.*\.so(\.\d+)+)",
    re.DOTALL,
)


def is_startup(path: str) -> bool:
    """Whether a file is of that kind: code, libraries, and a short list of what the C library looks at."""
    return _STARTUP.fullmatch(path) is not None
