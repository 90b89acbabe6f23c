"""Where the standard library and installed packages lie."""

from __future__ import annotations

import os
import site
import sys
import sysconfig


def roots() -> tuple[str, ...]:
    """Folders of the standard library and of installed packages, each with a separator at its end. Not the
    prefix as a whole: with a prefix of /usr a user's data may lie in it."""
    found = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {entry for entry in sys.path if os.path.basename(entry) in ("site-packages", "dist-packages")}
    found.add(site.USER_SITE or "")
    return tuple(sorted(os.path.join(each, "") for each in found if each))


#: Where Python looks for all of its library in one file, which hardly any installation has.
_ZIPPED = os.path.join(
    sys.base_prefix, sys.platlibdir, f"python{sys.version_info.major}{sys.version_info.minor}.zip"
)
ROOTS = (*roots(), _ZIPPED)
#: Files that hold code. Code has an identity of its own.
CODE_SUFFIXES = (".py", ".pyc", ".so")
