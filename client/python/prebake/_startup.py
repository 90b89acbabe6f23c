"""Files that an interpreter, its loader and its C library open on their own; no step reads them."""

from __future__ import annotations

import re

from prebake.reads import CODE_SUFFIXES, roots

#: Folders whose content is known by the versions of packages, or is the machine's.
_SYSTEM = (*roots(), "/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/")
_STARTUP = re.compile(
    r"/(etc/(ld\.so\.\w+|locale\.alias|localtime|nsswitch\.conf|passwd|group)"
    r"|usr/(lib|share)/(locale|zoneinfo)/.*"
    r"|.*/(pyvenv\.cfg|python\d+\.zip|gconv-modules\.cache|openssl\.cnf)"
    r"|.*\.(py|pyc|pth|so)"
    r"|.*\.so(\.\d+)+)",
    re.DOTALL,
)


def is_startup(path: str) -> bool:
    """Whether a file is of that kind: code, libraries, and a short list of what the C library looks at."""
    return _STARTUP.fullmatch(path) is not None


def is_users(path: str) -> bool:
    """Whether a file that was read while modules were imported is data of the user's: no code, which has an
    identity of its own, and nothing of the system or of packages."""
    return not path.startswith(_SYSTEM) and not path.endswith(CODE_SUFFIXES)
