"""Files that are read by the number of their descriptor, of which no value tells which file it stands for."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat

#: What reads at a place of such a file.
NAMES = frozenset({"pread", "preadv", "readv", "lseek", "fdopen"})
#: What lies there is of memory, or of the process itself.
_OF_NO_CONTENT = ("/memfd:", "/proc/", "/sys/", "/dev/")
#: Our own (`reuse.py`), by another name in each process.
_OURS = "prebake-uses-"


def files() -> list[tuple[int, str, tuple[int, ...]]]:
    """Files that this process has open to be read, by descriptor, path, size, inode and times: code that
    reads by number may read any of them."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        with contextlib.suppress(OSError):
            info = os.fstat(number)
            path = os.readlink(f"/proc/self/fd/{number}")
            written = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
            if (
                stat.S_ISREG(info.st_mode)
                and not path.startswith(_OF_NO_CONTENT)
                and not os.path.basename(path).startswith(_OURS)
                and not written
            ):
                found.append((number, path, (info.st_size, info.st_ino, info.st_mtime_ns, info.st_ctime_ns)))
    return sorted(found)
