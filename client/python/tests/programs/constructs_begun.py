"""What a thread, a child or a task sets up as it begins, or is by itself: who works on a call."""

from __future__ import annotations

from builder import Builder, construct


def begun(b: Builder, text: str, *imports: str) -> None:
    """Has a line run by whoever begins to work, the `w`th."""
    b.need("main", *imports)
    b.begun.append(text.format(k=b.knob("main")))


@construct
def begun_global(b: Builder) -> str:
    b.add("conf", f"WHO_{b.n} = 0\ndef who_{b.n}():\n    return WHO_{b.n}")
    begun(b, f"conf.WHO_{b.n} = w + {{k}}", "import conf")
    return f"{b.use(b.home, 'conf')}who_{b.n}() * (i + 1)"


@construct
def begun_local(b: Builder) -> str:
    b.need("conf", "import threading")
    b.add("conf", f"OWN_{b.n} = threading.local()\ndef own_{b.n}():\n    return getattr(OWN_{b.n}, 'k', 0)")
    begun(b, f"conf.OWN_{b.n}.k = w + {{k}}", "import conf")
    return f"{b.use(b.home, 'conf')}own_{b.n}() + i"


@construct
def begun_context(b: Builder) -> str:
    b.need("conf", "import contextvars")
    b.add("conf", f"TASK_{b.n} = contextvars.ContextVar('task{b.n}', default=0)")
    begun(b, f"conf.TASK_{b.n}.set(w + {{k}})", "import conf")
    return f"{b.use(b.home, 'conf')}TASK_{b.n}.get() * (i + 1)"


@construct
def begun_member(b: Builder) -> str:
    way = b.rng.choice(["SimpleNamespace", "dict"])
    b.need("conf", "import types")
    if way == "dict":
        b.add("conf", f"HELD_{b.n} = {{'k': 0}}\ndef held_{b.n}():\n    return HELD_{b.n}.get('k')")
        begun(b, f"conf.HELD_{b.n}['k'] = w + {{k}}", "import conf")
    else:
        b.add("conf", f"HELD_{b.n} = types.SimpleNamespace(k=0)\ndef held_{b.n}():\n    return HELD_{b.n}.k")
        begun(b, f"conf.HELD_{b.n}.k = w + {{k}}", "import conf")
    return f"{b.use(b.home, 'conf')}held_{b.n}() + i"


@construct
def begun_thread_name(b: Builder) -> str:
    begun(b, "threading.current_thread().name = f'n{{w + {k}}}'", "import threading")
    b.need(b.home, "import threading")
    return "threading.current_thread().name + str(i)"


@construct
def begun_process_name(b: Builder) -> str:
    begun(b, "mp.current_process().name = f'n{{w + {k}}}'", "import multiprocessing as mp")
    b.need(b.home, "import multiprocessing as mp")
    return "mp.current_process().name + str(i)"


@construct
def begun_variable(b: Builder) -> str:
    begun(b, f"os.environ['FZ_W{b.n}'] = str(w + {{k}})", "import os")
    b.need("lib", "import os.path")
    b.add("lib", f"def worker_{b.n}(i):\n    return os.path.expandvars(f'$FZ_W{b.n} {{i}}')")
    return f"{b.use(b.home, 'lib')}worker_{b.n}(i)"


@construct
def begun_precision(b: Builder) -> str:
    begun(b, "dc.getcontext().prec = w + {k}", "import decimal as dc")
    b.need(b.home, "import decimal as dc")
    return "str(dc.Decimal(1) / (i + 7))"


@construct
def begun_print_options(b: Builder) -> str:
    begun(b, "np.set_printoptions(precision=w + {k})", "import numpy as np")
    b.need(b.home, "import numpy as np")
    return "str(np.arange(3) / (i + 7.0))"


@construct
def begun_seed(b: Builder) -> str:
    of = b.rng.choice(["random", "np.random"])
    begun(b, f"{of}.seed(w + {{k}})", "import random", "import numpy as np")
    b.need(b.home, "import random", "import numpy as np")
    return f"[{'random.random()' if of == 'random' else 'float(np.random.rand())'}, i]"


@construct
def begun_recursion(b: Builder) -> str:
    begun(b, "sys.setrecursionlimit(1000 + 10 * w + {k})", "import sys")
    b.need(b.home, "import sys")
    return "sys.getrecursionlimit() + i"


@construct
def begun_collection(b: Builder) -> str:
    begun(b, "(gc.disable if (w + {k}) % 2 else gc.enable)()", "import gc")
    b.need(b.home, "import gc")
    return "[gc.isenabled(), i]"


@construct
def begun_temporary(b: Builder) -> str:
    begun(b, "tempfile.tempdir = f'/tmp/w{{w + {k}}}'", "import tempfile")
    b.need(b.home, "import tempfile")
    return "tempfile.gettempdir() + str(i)"


@construct
def begun_timeout(b: Builder) -> str:
    begun(b, "socket.setdefaulttimeout(w + {k})", "import socket")
    b.need(b.home, "import socket")
    return "socket.getdefaulttimeout()"


@construct
def begun_limit(b: Builder) -> str:
    begun(
        b,
        "resource.setrlimit(resource.RLIMIT_NOFILE, (500 + w + {k}, 600))",
        "import resource",
    )
    b.need(b.home, "import resource")
    return "resource.getrlimit(resource.RLIMIT_NOFILE)[0] + i"


@construct
def begun_zone(b: Builder) -> str:
    begun(b, "os.environ['TZ'] = f'A{{w + {k}}}'; time.tzset()", "import os, time")
    b.need(b.home, "import time")
    return "time.localtime(86400 * i).tm_hour"


@construct
def begun_start_method(b: Builder) -> str:
    begun(
        b,
        "mp.set_start_method(['fork', 'spawn'][(w + {k}) % 2], force=True)",
        "import multiprocessing as mp",
    )
    b.need(b.home, "import multiprocessing as mp")
    return "mp.get_start_method() + str(i)"


@construct
def begun_search(b: Builder) -> str:
    b.data |= {f"way{b.n}_{w}/chosen{b.n}.py": f"VALUE = {w + 3}\n" for w in (0, 1)}
    folder = f"os.path.join(os.path.dirname(os.path.abspath(__file__)), f'way{b.n}_{{{{w}}}}')"
    begun(b, f"sys.path.insert(0, {folder})", "import os, sys")
    b.add(
        b.home,
        f"""
        def chosen_{b.n}(i):
            try:
                import chosen{b.n} as m
            except ImportError:
                return 'none'
            return m.VALUE + i
    """,
    )
    return f"chosen_{b.n}(i)"


@construct
def begun_handle(b: Builder) -> str:
    b.data |= {f"in{b.n}_{w}.txt": f"{w + 3}\n" for w in (0, 1)}
    b.add(
        "conf",
        f"""
        FILE_{b.n} = None
        def handle_{b.n}():
            if FILE_{b.n} is None:
                return 'none'
            FILE_{b.n}.seek(0)
            return FILE_{b.n}.read()
    """,
    )
    begun(b, f"conf.FILE_{b.n} = open(f'in{b.n}_{{{{w}}}}.txt')", "import conf")
    return f"{b.use(b.home, 'conf')}handle_{b.n}() + str(i)"


@construct
def begun_memo(b: Builder) -> str:
    b.need("conf", "import functools")
    b.add("conf", f"MEMO_{b.n} = 1\n@functools.cache\ndef memo_{b.n}():\n    return MEMO_{b.n}")
    # What it keeps otherwise depends on whether it was called before, of which a hit leaves no trace.
    begun(b, f"conf.MEMO_{b.n} = w + {{k}}; conf.memo_{b.n}.cache_clear()", "import conf")
    return f"{b.use(b.home, 'conf')}memo_{b.n}() + i"


@construct
def placed_parent(b: Builder) -> str:
    b.need(b.home, "import multiprocessing as mp")
    return "[mp.parent_process() is None, i]"


@construct
def placed_main_thread(b: Builder) -> str:
    b.need(b.home, "import threading")
    return "[threading.current_thread() is threading.main_thread(), i]"


@construct
def placed_loop(b: Builder) -> str:
    b.add(
        b.home,
        f"""
        def loop_{b.n}(i):
            import asyncio
            try:
                return asyncio.current_task().get_name() + str(i)
            except RuntimeError:
                return 'none'
    """,
    )
    return f"loop_{b.n}(i)"
