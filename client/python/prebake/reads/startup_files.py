"""Files that an interpreter, its loader and its C library open on their own; no step reads them."""

from __future__ import annotations

import os
import re

from prebake.reads.library_roots import roots
from prebake.runtime.here import HERE

#: Prebake's own, which need not be installed, and those of packages.
_PACKAGES = (os.path.join(os.path.realpath(HERE), ""), *roots())
#: Folders whose content is known by the versions of packages, or is the machine's.
_SYSTEM = (
    *_PACKAGES,
    *("/proc/", "/sys/", "/dev/", "/etc/", "/lib/", "/lib64/", "/bin/", "/sbin/"),
    *("/usr/lib/", "/usr/share/", "/usr/bin/", "/usr/sbin/"),
)
#: What Python's own start opens in those, and Prebake to know which build of a package it is.
_PACKAGED = (".py", ".pyc", ".pth", ".dist-info/RECORD")
_LIBRARY = re.compile(
    r"/(etc/(ld\.so\.\w+|locale\.alias|localtime|nsswitch\.conf|passwd|group)"
    r"|usr/(lib|share)/(locale|zoneinfo)/.*"
    r"|.*/(pyvenv\.cfg|python\d+\.zip|gconv-modules\.cache|openssl\.cnf)"
    # What `ctypes.util.find_library` asks: the table of libraries, as programs.
    r"|(usr/)?sbin/ldconfig(\.real)?"
    # How many processors there are, which packages ask once in a process.
    r"|proc/cpuinfo|sys/devices/system/(cpu|node)/.*|sys/fs/cgroup/.*|(usr/)?bin/lscpu"
    r"|.*\.so(\.\d+)*)",
    re.DOTALL,
)


def is_startup(path: str) -> bool:
    """Whether a file is of that kind: installed code, libraries, and a short list of what the C library looks
    at. Code of the user's is opened by Python; where it is not, it may be data."""
    return path.startswith(_PACKAGES) and path.endswith(_PACKAGED) or _LIBRARY.fullmatch(path) is not None


def is_installed(path: str) -> bool:
    """Whether what a file holds is known without it, by the version of a package or of the system. It is read
    once in a process, whoever asks first."""
    return path.startswith(_PACKAGES) or is_startup(path)


def is_known(path: str) -> bool:
    """The same, or it is the machine's."""
    return path.startswith(("/proc/", "/sys/")) or is_installed(path)


def is_users(path: str) -> bool:
    """Whether a file that was read while modules were imported is data of the user's."""
    return not path.startswith(_SYSTEM) and not path.endswith((".pyc", ".so"))
