"""A process that has imported what is slow to import, and forks a child for each program it is told to run.

`python zygote.py`: reads requests as lines of JSON from stdin and answers in lines of JSON. A child is what a
new process would be: no connection, no user's module, no record of anything is there before it starts, and it
ends as the interpreter ends, with its exit handlers. One program in fifty is run in real processes too, which
must print the same (`compare.py`).
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import random
import select
import signal
import sys
import threading
import time
import types
from typing import Any

#: What programs import. Those that are not installed are left out, and so are the programs that need them.
HEAVY = ("prebake", "prebake.leases.client", "numpy", "pandas", "PIL.Image", "PIL.ImageFile", "PIL.ImageOps")
#: And what Prebake and the standard library import when they are first used.
LIGHT = [
    "prebake.trial.trial",
    "prebake.probe.probe",
    "prebake.memo.probe_cache",
    "prebake.wrap",
    "cloudpickle",
    "csv",
    "decimal",
    "configparser",
    "importlib.metadata",
    "json",
    "pathlib",
    "statistics",
    "textwrap",
    "tempfile",
    "sqlite3",
    "logging",
    "datetime",
    "pickle",
    "ast",
    "dis",
    "multiprocessing.util",
    "concurrent.futures.thread",
    "pkgutil",
    "runpy",
    "calendar",
    "gzip",
    "linecache",
    "string",
    "uuid",
]
#: Of what a program prints and says.
SAID_BYTES_MAX = 1 << 20


def warm() -> None:
    """Imports all that, and makes it cheap to fork."""
    for name in (*HEAVY, *LIGHT):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    count_elements()
    gc.collect()
    gc.freeze()


#: In which this child's collections count elements by outcome; several may have the same.
_statistics: list[Any] = []


def count_elements() -> None:
    """Keeps what each collection of the user's values counts in, without keeping one alive."""
    from prebake.leases.open_collection import OpenCollection

    begin = OpenCollection.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        if of_user(self):
            _statistics.append(self._statistics)

    OpenCollection.__init__ = __init__  # type: ignore[method-assign]


def of_user(collection: Any) -> bool:
    """Whether its items are values of the user's: others are what Prebake found out."""
    return collection._verifier is not None or type(collection._computation).__name__ == "Chain"


def counts() -> dict[str, int]:
    """What was counted in all."""
    different = {id(each.counters()): each.counters() for each in _statistics}
    found = [each.read() for each in different.values()]
    return {name: sum(each[name] for each in found) for name in ("reused", "computed")}


def run(request: dict[str, Any], out: int, said: int, counted: int) -> None:
    """The child: becomes the program, and never returns."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(said, 2)
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    os.chdir(request["folder"])
    path = os.path.join(request["folder"], "main.py")
    sys.argv[:] = ["main.py", *request["argv"]]
    sys.path[0] = request["folder"]
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if not request["trials"]:
        sys.modules["prebake.trial.trial"].AT_ONCE = 0  # type: ignore[attr-defined]
    for line in request.get("before", ()):
        exec(line, {})
    code = 1
    try:
        code = become(path)
    finally:
        with contextlib.suppress(BaseException):
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
        with contextlib.suppress(BaseException):
            os.write(counted, json.dumps(counts()).encode())
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def become(path: str) -> int:
    """Runs a script as `python main.py` does: as `__main__`, and with its exit code."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __cached__=None, __annotations__={}, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    try:
        with open(path, "rb") as file:
            source = file.read()
        main.__dict__["__loader__"] = importlib.machinery.SourceFileLoader("__main__", path)
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        return 1
    return 0


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Forks, waits, and tells what the child did."""
    files = [os.memfd_create(name) for name in ("out", "said", "counts")]
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        run(request, *files)
    end = os.pidfd_open(child)
    late = not select.select([end], [], [], request["seconds"])[0]
    if late:
        os.kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    os.close(end)
    out, said, counts = (
        os.pread(file, SAID_BYTES_MAX, 0).decode(errors="backslashreplace") for file in files
    )
    for file in files:
        os.close(file)
    return {
        "code": "timeout" if late else os.waitstatus_to_exitcode(status),
        "out": out,
        "said": said,
        # A child of a program whose end an edit took away tells its own.
        "counts": json.JSONDecoder().raw_decode(counts or "{}")[0],
        "seconds": time.monotonic() - began,
        "cpu": usage.ru_utime + usage.ru_stime,
    }


def main() -> None:
    talk = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warm()
    print("ready", file=talk, flush=True)
    for line in iter(sys.stdin.readline, ""):
        print(json.dumps(answer(json.loads(line))), file=talk, flush=True)


if __name__ == "__main__":
    main()
